"""The gate of a promotion: what must be measured before claim.v1 decides more (contract 13)."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from django.db import connection

from coordinator.models import Queue
from coordinator.shadow.words import MISMATCHES
from coordinator.states import RolloutStage

from .coverage import read_coverage
from .drills import OVERDUE, last_drill

STAGES: Final = tuple(RolloutStage)


@dataclass(frozen=True, slots=True)
class Criterion:
    """One measured condition. `link` is where the API shows what was measured."""

    name: str
    ok: bool
    value: float | int | str | None
    threshold: float | int | str
    detail: str
    computed_at: datetime
    link: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """The gate as it stands. `next_stage` is null where there is none; then the gate is closed."""

    queue: str
    rollout_stage: str
    next_stage: str | None
    open: bool
    criteria: list[Criterion]
    blocking: list[str]


def read_promotion(*, queue: str) -> Promotion | None:
    """Measure the gate of the queue's next stage now, in four queries; None where there is no such queue."""
    found = Queue.objects.filter(name=queue).first()
    return None if found is None else measure(found)


def measure(queue: Queue) -> Promotion:
    """As `read_promotion`. Under the queue's exclusive gate what it says holds until the gate is let go."""
    with connection.cursor() as cursor:
        cursor.execute(_MEASURED, [queue.pk, queue.stage_since, queue.pk, list(MISMATCHES)])
        measured = Measured(*cursor.fetchone())
    criteria = [
        _rounds(queue, measured),
        _mismatches(queue, measured),
        *(each(queue, measured) for each in MEASURED_ELSEWHERE),
    ]
    following = next_stage(queue.rollout_stage)
    blocking = [each.name for each in criteria if not each.ok]
    return Promotion(
        queue=queue.name,
        rollout_stage=queue.rollout_stage,
        next_stage=following,
        open=following is not None and not blocking,
        criteria=criteria,
        blocking=blocking,
    )


class Measured(NamedTuple):
    """What one look at the shadow's rows tells."""

    clock: datetime
    settled: int
    unexplained: int


#: A class that a person has explained counts as long as the newest word on it stands.
_MEASURED: Final = """
SELECT clock_timestamp(),
  (SELECT count(*) FROM coordinator_shadowround WHERE queue_id = %s AND settled_at >= %s AND is_counted),
  (SELECT coalesce(sum(m.rounds), 0)::bigint FROM (
     SELECT r.queue_id, r.verdict, count(*) AS rounds FROM coordinator_shadowround r
     WHERE r.queue_id = %s AND r.verdict = ANY(%s::text[])
       AND (r.explained_at IS NULL OR r.explained_until <= clock_timestamp())
     GROUP BY r.queue_id, r.verdict) m
   WHERE NOT coalesce((
     SELECT e.expires_at > clock_timestamp() FROM coordinator_shadowexplanation e
     WHERE e.queue_id = m.queue_id AND e.verdict = m.verdict AND e.is_of_class ORDER BY e.id DESC LIMIT 1), false))
"""


def next_stage(stage: str) -> RolloutStage | None:
    place = STAGES.index(RolloutStage(stage))
    return STAGES[place + 1] if place + 1 < len(STAGES) else None


def _rounds(queue: Queue, measured: Measured) -> Criterion:
    """Rounds that were settled since the queue entered its stage: evidence of an earlier one has been used."""
    settled, needed = measured.settled, queue.promotion_rounds
    return Criterion(
        name="settled_rounds",
        computed_at=measured.clock,
        ok=settled >= needed,
        value=settled,
        threshold=needed,
        detail=f"{settled} of {needed} rounds settled since {queue.stage_since.isoformat()}.",
        link=f"/api/v1/shadow/rounds?queue={queue.name}",
    )


def _mismatches(queue: Queue, measured: Measured) -> Criterion:
    unexplained = measured.unexplained
    return Criterion(
        name="unexplained_mismatches",
        computed_at=measured.clock,
        ok=unexplained == 0,
        value=unexplained,
        threshold=0,
        detail=f"{unexplained} mismatches that nobody has explained.",
        link=f"/api/v1/shadow/rounds?queue={queue.name}&mismatch=true&explained=false",
    )


def _coverage(_queue: Queue, _measured: Measured) -> Criterion:
    """Of the whole installation: a write past the guard in one queue says nothing good of the others."""
    coverage = read_coverage(hours=1)
    detail = (
        "The roll-up of the counted writes stands still."
        if coverage.is_behind
        else f"{coverage.percent} % of the writes of the last hour passed the guard."
    )
    return Criterion(
        name="coverage",
        computed_at=coverage.computed_at,
        ok=coverage.is_whole,
        value=coverage.percent,
        threshold=100,
        detail=detail,
        link="/api/v1/coverage",
    )


def _drill(queue: Queue, measured: Measured) -> Criterion:
    """The queue's last drill: one that failed since the last good one says more than that."""
    last, overdue = last_drill(queue.pk), measured.clock - OVERDUE
    at = last.finished_at if last else None
    ok = last is not None and bool(last.passed) and at is not None and at >= overdue
    if last is None:
        detail = "No fence drill has run on this queue."
    elif not last.passed:
        detail = f"The last fence drill failed: {', '.join(last.failed_steps)}."
    else:
        detail = f"The last fence drill passed at {at.isoformat() if at else 'no time'}."
    return Criterion(
        name="fence_drill",
        computed_at=measured.clock,
        ok=ok,
        value=at.isoformat() if at else None,
        threshold="passed within the hour",
        detail=detail,
        link=f"/api/v1/drills?queue={queue.name}",
    )


#: What the rest of the house measures.
MEASURED_ELSEWHERE: tuple[Callable[[Queue, Measured], Criterion], ...] = (_coverage, _drill)
