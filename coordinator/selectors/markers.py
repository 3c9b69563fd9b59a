"""What stands beside the figures: what was done to the queues meanwhile, and refusals by their reason (contract 14)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection

from coordinator.tallies import SEPARATOR, Name

from .ranges import Range, read_sum
from .scrape import read_progress

MAX_MARKERS: Final = 50
MARKERS_LOOKED_AT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Marker:
    """What happened to a queue that a chart should show."""

    at: datetime
    kind: str
    queue: str
    actor: str


_MARKERS: Final = """
SELECT e.at, e.kind, coalesce(q.name, ''), e.actor
FROM (SELECT at, kind, queue_id, actor FROM coordinator_event WHERE task_id IS NULL ORDER BY id DESC LIMIT %s) e
LEFT JOIN coordinator_queue q ON q.id = e.queue_id
WHERE e.kind = ANY(%s) AND e.at >= %s AND (%s::text IS NULL OR q.name = %s)
ORDER BY e.at DESC LIMIT %s
"""
#: Kinds that change what a queue does; those of incidents are among them where there are any.
MARKED: Final = (
    "EPOCH_BUMPED",
    "INTAKE_STOPPED",
    "INTAKE_OPENED",
    "INCIDENT_OPENED",
    "INCIDENT_SWITCHED",
    "INCIDENT_CLOSED",
    "INCIDENT_ABORTED",
    "STAGE_PROMOTED",
    "STAGE_DEMOTED",
)


def read_markers(*, since: datetime, queue: str | None = None) -> tuple[Marker, ...]:
    """What happened to the queues since then, newest first: at most MAX_MARKERS."""
    with connection.cursor() as cursor:
        wanted = (MARKERS_LOOKED_AT, list(MARKED), since, queue, queue, MAX_MARKERS)
        cursor.execute(_MARKERS, wanted)
        return tuple(Marker(*row) for row in cursor.fetchall())


@dataclass(frozen=True, slots=True)
class RefusalCount:
    point: str
    outcome: str
    reason: str
    count: int


def read_refusal_counts(*, queue: str | None = None, hours: int = 1) -> tuple[RefusalCount, ...]:
    """Refusals by point, outcome and reason of the last hours, the most frequent first."""
    chosen = Range.of(read_progress().now, hours)
    rows = read_sum(chosen, (Name.REFUSALS,), queue).get(Name.REFUSALS, {})
    told = [_refusal_count(label, count) for label, (count, _) in rows.items()]
    return tuple(sorted(told, key=lambda each: -each.count))


def _refusal_count(label: str, count: int) -> RefusalCount:
    point, outcome, reason = [*label.split(SEPARATOR), "", ""][:3]
    return RefusalCount(point, outcome, reason, count)
