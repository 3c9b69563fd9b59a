"""The figures for people: a value, its course, its threshold, and the same hour of last week (console page 8)."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from coordinator.shadow.lanes import is_rehearsal

from .coverage import Coverage, read_coverage
from .figures import DEFINITIONS, Counters, Definition, Figure, Slo, State, Unit
from .gauges import read_gauges
from .ranges import Range, read_steps, read_sum
from .scrape import Progress, read_progress

#: Counters that are further behind than this may be old: they are shown as stale, never as zero.
STALE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    """One step of a course. `value` is None where nothing was measured, or not everything is counted yet."""

    at: datetime
    value: float | None
    measured: int


@dataclass(frozen=True, slots=True)
class Card:
    """`value` is None where nothing was measured. `delta`: against the same hours of last week, `value` minus theirs.

    `measured`: on how many things. `oldest_seconds`: of UNKNOWN effects. `now`: a gauge as it stands.
    """

    figure: Figure
    unit: Unit
    told: str
    formula: str
    owner: str
    slo: Slo
    state: State
    value: float | None
    measured: int
    last_week: float | None
    delta: float | None
    points: tuple[Point, ...]
    oldest_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Numbers:
    """`rolled_until`: everything before it is counted; None where nothing has ever been."""

    cards: tuple[Card, ...]
    since: datetime
    until: datetime
    step_seconds: int
    rolled_until: datetime | None
    lag_seconds: float | None
    is_stale: bool
    coverage: Coverage


def read_numbers(*, queue: str | None = None, hours: int = 1) -> Numbers:
    """All nine figures of the last `hours` (at most MAX_HOURS), of one queue or of all. Five statements."""
    progress = read_progress()
    chosen = Range.of(progress.now, hours)
    names = tuple({name for each in DEFINITIONS.values() for name in each.names})
    counted = _Counted(
        chosen=chosen,
        by_step=read_steps(chosen, names, queue),
        now=read_sum(chosen, names, queue),
        then=read_sum(chosen.a_week_ago(), names, queue),
        progress=progress,
    )
    coverage = read_coverage(hours=hours)
    cards = tuple(
        _coverage_card(definition, coverage)
        if figure is Figure.COVERAGE
        else _card(definition, counted)
        for figure, definition in DEFINITIONS.items()
    )
    return Numbers(
        cards=_with_gauges(cards, queue),
        since=chosen.since,
        until=chosen.until,
        step_seconds=int(chosen.step.total_seconds()),
        rolled_until=progress.until,
        lag_seconds=progress.lag_seconds,
        is_stale=is_stale(progress),
        coverage=coverage,
    )


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the figures of one range are made of."""

    chosen: Range
    by_step: dict[datetime, Counters]
    now: Counters
    then: Counters
    progress: Progress


def is_stale(progress: Progress) -> bool:
    return progress.lag_seconds is None or progress.lag_seconds > STALE_SECONDS


def _card(definition: Definition, counted: _Counted) -> Card:
    until = counted.progress.until
    value, measured = definition.read(counted.now)
    if until is None:
        value = None
    # Samples are taken whatever happens: no row at all means that nobody counted then.
    last_week = definition.read(counted.then)[0] if counted.then else None
    stale = is_stale(counted.progress)
    return Card(
        **_head(definition),
        state=State.STALE if stale else definition.judge(value, measured),
        value=value,
        measured=measured,
        last_week=last_week,
        delta=None if value is None or last_week is None else value - last_week,
        points=tuple(
            _point(definition, at, counted.by_step, until) for at in counted.chosen.steps()
        ),
    )


def _head(definition: Definition) -> dict[str, Any]:
    return {
        name: getattr(definition, name)
        for name in ("figure", "unit", "told", "formula", "owner", "slo")
    }


def _point(
    definition: Definition, at: datetime, by_step: dict[datetime, Counters], until: datetime | None
) -> Point:
    """A step that is not counted yet is unknown, not zero."""
    if until is None or at >= until:
        return Point(at, None, 0)
    value, measured = definition.read(by_step.get(at, {}))
    return Point(at, value, measured)


def _coverage_card(definition: Definition, coverage: Coverage) -> Card:
    value = coverage.percent / 100
    measured = sum(point.counted for point in coverage.points)
    return Card(
        **_head(definition),
        state=State.STALE if coverage.is_behind else definition.judge(value, measured),
        value=value,
        measured=measured,
        last_week=None,
        delta=None,
        points=(),
    )


def _with_gauges(cards: tuple[Card, ...], queue: str | None) -> tuple[Card, ...]:
    """The backlog of UNKNOWN effects as it stands now, rather than as it was sampled."""
    gauges = [
        each
        for each in read_gauges()
        if each.queue == queue or (queue is None and not is_rehearsal(each.queue))
    ]
    backlog = sum(each.unknown_effects for each in gauges)
    oldest = max((each.unknown_oldest_seconds for each in gauges), default=0.0)
    return tuple(
        replace(
            card,
            value=float(backlog),
            state=card.slo.judge(float(backlog)),
            oldest_seconds=oldest if backlog else None,
            delta=None if card.last_week is None else backlog - card.last_week,
        )
        if card.figure is Figure.UNKNOWN_EFFECTS
        else card
        for card in cards
    )
