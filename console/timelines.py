"""The attempt timeline: one lane a grant, drawn by the server as SVG (console design, 7.3).

Only places and words are decided here; the template draws them. Long idle stretches are
drawn short, with a break in the axis. Coordinates are whole pixels of the view box.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from coordinator.selectors.console_attempts import AttemptHistory, History, Mark
from coordinator.states import LIVE_ATTEMPT, AttemptState

WIDTH: Final = 980
LEFT, RIGHT, TOP, LANE = 168, 850, 34, 40  # right of RIGHT is room for words
MAX_LANES: Final = 40
_TICK_GAP: Final = 92
_STEPS: Final = (
    0.1,
    0.5,
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    14400,
    28800,
    86400,
    604800,
)

_END_MARKS: Final = {
    AttemptState.COMMITTED: "commit",
    AttemptState.FAILED: "failed",
    AttemptState.CANCELLED: "quiet",
    AttemptState.STALE_INPUT: "quiet",
    AttemptState.RELEASED: "quiet",
    AttemptState.PARKED: "quiet",
}


@dataclass(frozen=True, slots=True)
class Bar:
    x: int
    width: int
    shape: str  # lease, ahead (what is left of it), lapsed (held past its expiry)


@dataclass(frozen=True, slots=True)
class Point:
    """A mark with its words: commit, fenced, failed, quiet or staged."""

    x: int
    shape: str
    word: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Lane:
    y: int
    attempt: AttemptHistory
    bars: tuple[Bar, ...]
    renewals: tuple[int, ...]
    ghost: tuple[int, int] | None  # from the take-over to the late write that was fenced
    points: tuple[Point, ...]
    taken_from: int | None  # x at which this lane took over from the one above


@dataclass(frozen=True, slots=True)
class Timeline:
    height: int
    lanes: tuple[Lane, ...]
    ticks: tuple[tuple[int, datetime], ...]
    breaks: tuple[tuple[int, timedelta], ...]
    epochs: tuple[tuple[int, str], ...]
    now_x: int | None
    left_out: int
    spans_days: bool


@dataclass(slots=True)
class _Axis:
    """Time to pixels, piece by piece; a stretch in which nothing happens may be drawn short."""

    knots: list[tuple[datetime, float]] = field(default_factory=list)
    breaks: list[tuple[datetime, datetime]] = field(default_factory=list)

    @classmethod
    def over(cls, instants: Iterable[datetime]) -> "_Axis":
        ordered = sorted(set(instants))
        gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(ordered)]
        broken = _broken(gaps)
        plain = sum(gap for index, gap in enumerate(gaps) if index not in broken) or 1.0
        drawn = [plain * 0.16 if index in broken else gap for index, gap in enumerate(gaps)]
        scale, x, axis = (RIGHT - LEFT) / (sum(drawn) or 1.0), float(LEFT), cls()
        axis.knots.append((ordered[0], x))
        for index, length in enumerate(drawn):
            x += length * scale
            axis.knots.append((ordered[index + 1], x))
            if index in broken:
                axis.breaks.append((ordered[index], ordered[index + 1]))
        return axis

    def x(self, moment: datetime) -> int:
        if moment <= self.knots[0][0]:
            return LEFT
        for (t0, x0), (t1, x1) in zip(self.knots, self.knots[1:], strict=False):
            if moment <= t1:
                share = (moment - t0) / (t1 - t0)
                return round(x0 + share * (x1 - x0))
        return RIGHT

    @property
    def first(self) -> datetime:
        return self.knots[0][0]

    @property
    def last(self) -> datetime:
        return self.knots[-1][0]

    def ticks(self) -> list[tuple[int, datetime]]:
        """Round instants, none within a broken stretch, none too near to another."""
        whole = sum((later - earlier).total_seconds() for earlier, later in self._unbroken()) or 1.0
        step = next((each for each in _STEPS if whole / each <= 8), _STEPS[-1])
        ticks: list[tuple[int, datetime]] = []
        for earlier, later in self._unbroken():
            second = (earlier.timestamp() // step + 1) * step
            while second <= later.timestamp() and len(ticks) < 60:
                moment = datetime.fromtimestamp(second, tz=earlier.tzinfo)
                x = self.x(moment)
                if (not ticks or x - ticks[-1][0] >= _TICK_GAP) and x <= RIGHT - 20:
                    ticks.append((x, moment))
                second += step
        return ticks

    def _unbroken(self) -> list[tuple[datetime, datetime]]:
        stretches, start = [], self.first
        for earlier, later in self.breaks:
            stretches.append((start, earlier))
            start = later
        return [*stretches, (start, self.last)]


def _broken(gaps: Sequence[float]) -> set[int]:
    """The stretches that would crowd out everything else: a minute or more, and most of what is left."""
    broken: set[int] = set()
    if len(gaps) < 3:
        return broken
    for index in sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True):
        rest = sum(gap for other, gap in enumerate(gaps) if other not in broken and other != index)
        if gaps[index] < 60 or gaps[index] < rest * 0.8:
            break
        broken.add(index)
    return broken


def draw_timeline(history: History, *, now: datetime) -> Timeline | None:
    """None for a task that was never claimed."""
    shown = history.attempts[:MAX_LANES][::-1]
    if not shown:
        return None
    marks = _by_attempt([*history.refusals, *history.staged])
    since = shown[0].started_at
    bumps = [mark for mark in history.bumps if mark.at >= since]
    live = shown[-1].state in LIVE_ATTEMPT
    instants = [
        moment for each in shown for moment in _instants(each, marks.get(each.attempt_id, ()))
    ]
    instants += [mark.at for mark in bumps]
    if live:
        instants += [now, max(now, shown[-1].lease_expires_at)]
    axis = _Axis.over(instants)
    lanes, above = [], None
    for index, attempt in enumerate(shown):
        lane = _lane(
            attempt,
            marks.get(attempt.attempt_id, ()),
            axis,
            now=now,
            y=TOP + index * LANE,
            above=above,
        )
        lanes.append(lane)
        above = attempt
    return Timeline(
        height=TOP + len(lanes) * LANE + 10,
        lanes=tuple(lanes),
        ticks=tuple(axis.ticks()),
        breaks=tuple(((axis.x(a) + axis.x(b)) // 2, b - a) for a, b in axis.breaks),
        epochs=tuple(
            (axis.x(mark.at), f"{mark.data.get('from', '?')} → {mark.data.get('to', '?')}")
            for mark in bumps
        ),
        now_x=axis.x(now) if live else None,
        left_out=history.total - len(shown),
        spans_days=axis.first.date() != axis.last.date(),
    )


def _by_attempt(marks: Sequence[Mark]) -> dict[object, list[Mark]]:
    found: dict[object, list[Mark]] = {}
    for mark in marks:
        found.setdefault(mark.attempt_id, []).append(mark)
    return found


def _instants(attempt: AttemptHistory, marks: Iterable[Mark]) -> list[datetime]:
    moments = [attempt.started_at, *attempt.renewed_at, *(mark.at for mark in marks)]
    if attempt.ended_at is None:
        return moments
    # A lease that outlives its attempt is not drawn to its end: it holds nobody any more.
    return [*moments, attempt.ended_at, min(attempt.lease_expires_at, attempt.ended_at)]


def _lane(
    attempt: AttemptHistory,
    marks: Iterable[Mark],
    axis: _Axis,
    *,
    now: datetime,
    y: int,
    above: AttemptHistory | None,
) -> Lane:
    marks = list(marks)
    points = [*_staged(marks, axis), *_ends(attempt, axis), *_refused(marks, axis)]
    fenced = [point.x for point in points if point.shape == "fenced"]
    ended = attempt.ended_at or now
    ghost = (
        (axis.x(ended), max(fenced))
        if fenced and attempt.state in (AttemptState.FENCED, AttemptState.EXPIRED)
        else None
    )
    took_over = above is not None and above.state in (AttemptState.EXPIRED, AttemptState.FENCED)
    return Lane(
        y=y,
        attempt=attempt,
        bars=tuple(_bars(attempt, axis, now)),
        renewals=tuple(axis.x(moment) for moment in attempt.renewed_at),
        ghost=ghost,
        points=tuple(points),
        taken_from=axis.x(attempt.started_at) if took_over else None,
    )


def _bars(attempt: AttemptHistory, axis: _Axis, now: datetime) -> list[Bar]:
    start, expiry = attempt.started_at, attempt.lease_expires_at
    end = attempt.ended_at or now
    bars = [_bar(axis, start, min(expiry, end), "lease")]
    if attempt.ended_at is None and expiry > now:
        bars.append(_bar(axis, now, expiry, "ahead"))
    if end > expiry:
        bars.append(_bar(axis, expiry, end, "lapsed"))
    return bars


def _bar(axis: _Axis, start: datetime, end: datetime, shape: str) -> Bar:
    x = axis.x(start)
    return Bar(x=x, width=max(2, axis.x(end) - x), shape=shape)


def _ends(attempt: AttemptHistory, axis: _Axis) -> list[Point]:
    shape = _END_MARKS.get(AttemptState(attempt.state))
    if shape is None or attempt.ended_at is None:
        return []
    return [Point(axis.x(attempt.ended_at), shape, attempt.state)]


def _refused(marks: Sequence[Mark], axis: _Axis) -> list[Point]:
    """Late calls that were refused; only the last has its words, or they would cover each other."""
    refused = sorted((mark for mark in marks if mark.kind == "REFUSED"), key=lambda mark: mark.at)
    points = []
    for index, mark in enumerate(refused):
        shape = "fenced" if mark.data.get("outcome") == "FENCED" else "quiet"
        word = f"{mark.data.get('point', '')} {mark.data.get('outcome', '')}".strip()
        last = index == len(refused) - 1
        points.append(Point(axis.x(mark.at), shape, word if last else "", mark.repeats + 1))
    return points


def _staged(marks: Sequence[Mark], axis: _Axis) -> list[Point]:
    return [Point(axis.x(mark.at), "staged") for mark in marks if mark.kind == "STAGED"]
