"""The attempt timeline: one lane a grant, drawn by the server as SVG (console design, 7.3).

Only places and words are decided here; the template draws them. Long idle stretches are
drawn short, with a break in the axis. Coordinates are whole pixels of the view box.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from console.time_axis import LEFT, Axis
from coordinator.selectors.console_attempts import AttemptHistory, History, Mark
from coordinator.states import LIVE_ATTEMPT, AttemptState

WIDTH, TOP, LANE = 980, 34, 40
#: Half a mark, from a mark to its words, and a sign of them, at 11 pixels and bold.
_HALF, _BESIDE, _SIGN = 9, 12, 7.2
#: Words of a break and of an epoch that are nearer than this cover each other.
_APART: Final = 100
#: Whose words stay where there is no room for all; the table below the drawing has them all.
_GRAVITY: Final = ("fenced", "unknown", "failed", "commit", "quiet", "staged")
MAX_LANES: Final = 40
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
    """A mark with its words: commit, fenced, failed, quiet, staged or unknown."""

    x: int
    shape: str
    word: str = ""
    times: int = 1
    is_left: bool = False  # of its mark stand the words

    @property
    def words(self) -> str:
        return f"{self.word} \u00d7{self.times}" if self.word and self.times > 1 else self.word

    @property
    def is_above(self) -> bool:
        """It stands in the middle of a lease, whose bar its words would cover."""
        return self.shape == "unknown"

    @property
    def words_x(self) -> int:
        if self.is_above:
            return self.x
        return self.x - _BESIDE if self.is_left else self.x + _BESIDE

    def span(self, *, is_left: bool) -> tuple[int, int]:
        """From where to where the words reach, about."""
        width = round(len(self.words) * _SIGN)
        if self.is_above:
            return self.x - width // 2, self.x + width // 2
        start = self.x - _BESIDE - width if is_left else self.x + _BESIDE
        return start, start + width


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
    breaks: tuple[tuple[int, int, timedelta], ...]  # x, y of its words, how long
    epochs: tuple[tuple[int, str], ...]
    now_x: int | None
    left_out: int
    spans_days: bool


def draw_timeline(history: History, *, now: datetime) -> Timeline | None:
    """None for a task that was never claimed."""
    shown = history.attempts[:MAX_LANES][::-1]
    if not shown:
        return None
    marks = _by_attempt([*history.refusals, *history.staged, *history.unsure])
    since = shown[0].started_at
    live = shown[-1].state in LIVE_ATTEMPT
    instants = [
        moment for each in shown for moment in _instants(each, marks.get(each.attempt_id, ()))
    ]
    # What was bumped after its last word is no part of its story, and would press the rest together.
    until = now if live else max(instants)
    bumps = [mark for mark in history.bumps if since <= mark.at <= until]
    instants += [mark.at for mark in bumps]
    if live:
        instants += [now, max(now, shown[-1].lease_expires_at)]
    axis = Axis.over(instants)
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
    height = TOP + len(lanes) * LANE + 10
    epochs = [axis.x(mark.at) for mark in bumps]
    return Timeline(
        height=height,
        lanes=tuple(lanes),
        ticks=tuple(axis.ticks()),
        breaks=tuple(
            (x, _label_y(x, epochs, height), length) for x, length in _places_of_breaks(axis)
        ),
        epochs=tuple(
            (axis.x(mark.at), f"{mark.data.get('from', '?')} → {mark.data.get('to', '?')}")
            for mark in bumps
        ),
        now_x=axis.x(now) if live else None,
        left_out=history.total - len(shown),
        spans_days=axis.first.date() != axis.last.date(),
    )


def _places_of_breaks(axis: Axis) -> list[tuple[int, timedelta]]:
    return [((axis.x(a) + axis.x(b)) // 2, b - a) for a, b in axis.breaks]


def _label_y(x: int, epochs: Iterable[int], height: int) -> int:
    """Above the lanes, or below them where an epoch has its words there."""
    return height - 2 if any(abs(x - epoch) < _APART for epoch in epochs) else TOP - 4


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
    axis: Axis,
    *,
    now: datetime,
    y: int,
    above: AttemptHistory | None,
) -> Lane:
    marks = list(marks)
    points = [
        *_staged(marks, axis),
        *_unsure(marks, axis),
        *_ends(attempt, axis),
        *_refused(marks, axis),
    ]
    fenced = [point.x for point in points if point.shape == "fenced"]
    ended = axis.x(attempt.ended_at or now)
    was_lost = attempt.state in (AttemptState.FENCED, AttemptState.EXPIRED)
    ghost = (ended, max(fenced)) if was_lost and max(fenced, default=0) > ended else None
    took_over = above is not None and above.state in (AttemptState.EXPIRED, AttemptState.FENCED)
    return Lane(
        y=y,
        attempt=attempt,
        bars=tuple(_bars(attempt, axis, now)),
        renewals=tuple(axis.x(moment) for moment in attempt.renewed_at),
        ghost=ghost,
        points=tuple(_with_room(points, breaks=[x for x, _length in _places_of_breaks(axis)])),
        taken_from=axis.x(attempt.started_at) if took_over else None,
    )


def _with_room(points: Sequence[Point], *, breaks: Sequence[int]) -> list[Point]:
    """The same marks, their words on the side where they cover neither others' words nor marks; else without words."""
    taken = [(point.x - _HALF, point.x + _HALF) for point in points]
    taken += [(x - _HALF // 2, x + _HALF // 2) for x in breaks]
    above: list[tuple[int, int]] = []
    placed = list(points)
    order = sorted(range(len(points)), key=lambda at: (_GRAVITY.index(points[at].shape), -at))
    for at in order:
        if not points[at].word:
            continue
        own = above if points[at].is_above else taken
        others = [span for index, span in enumerate(own) if index != at or own is above]
        for is_left in (False, True):
            start, end = points[at].span(is_left=is_left)
            is_free = all(end <= low or high <= start for low, high in others)
            if is_free and start >= LEFT and end <= WIDTH - 4:
                placed[at] = replace(points[at], is_left=is_left)
                own.append((start, end))
                break
        else:
            placed[at] = replace(points[at], word="")
    return placed


def _bars(attempt: AttemptHistory, axis: Axis, now: datetime) -> list[Bar]:
    start, expiry = attempt.started_at, attempt.lease_expires_at
    end = attempt.ended_at or now
    bars = [_bar(axis, start, min(expiry, end), "lease")]
    if attempt.ended_at is None and expiry > now:
        bars.append(_bar(axis, now, expiry, "ahead"))
    if end > expiry:
        bars.append(_bar(axis, expiry, end, "lapsed"))
    return bars


def _bar(axis: Axis, start: datetime, end: datetime, shape: str) -> Bar:
    x = axis.x(start)
    return Bar(x=x, width=max(2, axis.x(end) - x), shape=shape)


def _ends(attempt: AttemptHistory, axis: Axis) -> list[Point]:
    shape = _END_MARKS.get(AttemptState(attempt.state))
    if shape is None or attempt.ended_at is None:
        return []
    return [Point(axis.x(attempt.ended_at), shape, attempt.state)]


def _refused(marks: Sequence[Mark], axis: Axis) -> list[Point]:
    """Late calls that were refused; only the last has its words, or they would cover each other."""
    refused = sorted((mark for mark in marks if mark.kind == "REFUSED"), key=lambda mark: mark.at)
    points = []
    for index, mark in enumerate(refused):
        shape = "fenced" if mark.data.get("outcome") == "FENCED" else "quiet"
        word = f"{mark.data.get('point', '')} {mark.data.get('outcome', '')}".strip()
        last = index == len(refused) - 1
        points.append(Point(axis.x(mark.at), shape, word if last else "", mark.repeats + 1))
    return points


def _unsure(marks: Sequence[Mark], axis: Axis) -> list[Point]:
    """Calls that went out, and nobody knows what came of them."""
    found = [mark for mark in marks if mark.kind == "EFFECT_UNKNOWN"]
    return [
        Point(axis.x(mark.at), "unknown", f"{mark.data.get('slot', '')} UNKNOWN".strip())
        for mark in found
    ]


def _staged(marks: Sequence[Mark], axis: Axis) -> list[Point]:
    return [Point(axis.x(mark.at), "staged") for mark in marks if mark.kind == "STAGED"]
