"""The attempt timeline: one lane a grant, drawn by the server as SVG (console design, 7.3).

Only places and words are decided here; the template draws them. Long idle stretches are
drawn short, with a break in the axis. Coordinates are whole pixels of the view box.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from console.time_axis import Axis
from coordinator.selectors.console_attempts import AttemptHistory, History, Mark
from coordinator.states import LIVE_ATTEMPT, AttemptState

TOP, LANE = 34, 40
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
    axis: Axis,
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


def _staged(marks: Sequence[Mark], axis: Axis) -> list[Point]:
    return [Point(axis.x(mark.at), "staged") for mark in marks if mark.kind == "STAGED"]
