"""Fence drills as they are read: the last of each queue, and whether one has passed within the hour (contract 14)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import orjson
from django.db import connection
from django.db.models import QuerySet

from coordinator.models import DrillRun

#: A drill must have passed within this; promotion asks for it, and an alarm is raised without.
OVERDUE: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class DrillStepRecord:
    step: str
    expected: str
    answered: str
    passed: bool


@dataclass(frozen=True, slots=True)
class DrillRecord:
    """`passed` is None while it runs, and where an epoch bump crossed it: it says nothing then."""

    drill_id: int
    queue: str
    passed: bool | None
    started_at: datetime
    finished_at: datetime | None
    asked_by: str
    steps: list[DrillStepRecord]

    @property
    def failed_steps(self) -> tuple[str, ...]:
        return tuple(step.step for step in self.steps if not step.passed)


@dataclass(frozen=True, slots=True)
class QueueDrill:
    """How a queue stands: `passed` of its last drill that says anything, when one last passed, and the failed steps."""

    queue_id: int
    queue: str
    passed: bool | None
    at: datetime | None
    last_passed_at: datetime | None
    is_overdue: bool
    failed: tuple[str, ...] = ()


def drill_record(drill: DrillRun) -> DrillRecord:
    return DrillRecord(
        drill_id=drill.pk,
        queue=drill.queue.name,
        passed=drill.passed,
        started_at=drill.started_at,
        finished_at=drill.finished_at,
        asked_by=drill.asked_by,
        steps=[DrillStepRecord(**step) for step in drill.steps],
    )


def list_drills(*, queue: str | None = None) -> QuerySet[DrillRun]:
    """Newest first; page by `id`."""
    drills = DrillRun.objects.select_related("queue").order_by("-id")
    return drills if queue is None else drills.filter(queue__name=queue)


def last_drill(queue_id: int) -> DrillRecord | None:
    """The queue's last drill that is over and says something."""
    drills = DrillRun.objects.select_related("queue").filter(
        queue_id=queue_id, passed__isnull=False
    )
    found = drills.order_by("-id").first()
    return drill_record(found) if found else None


def last_passed_at(queue_id: int) -> datetime | None:
    passed = DrillRun.objects.filter(queue_id=queue_id, passed=True).order_by("-id")
    return passed.values_list("finished_at", flat=True).first()


_STAND: Final = """
SELECT q.id, q.name, l.passed, l.finished_at, p.finished_at,
       q.created_at < clock.overdue AND (p.finished_at IS NULL OR p.finished_at < clock.overdue),
       CASE WHEN l.passed THEN NULL ELSE l.steps::text END
FROM (SELECT clock_timestamp() - make_interval(secs => %s) AS overdue) clock, coordinator_queue q
LEFT JOIN LATERAL (SELECT passed, finished_at, steps FROM coordinator_drillrun
                   WHERE queue_id = q.id AND passed IS NOT NULL ORDER BY id DESC LIMIT 1) l ON true
LEFT JOIN LATERAL (SELECT finished_at FROM coordinator_drillrun
                   WHERE queue_id = q.id AND passed ORDER BY id DESC LIMIT 1) p ON true
WHERE q.name NOT LIKE '%%~shadow'
ORDER BY q.name
"""


def read_drills() -> tuple[QueueDrill, ...]:
    """Every queue by name, in one query. A queue younger than `OVERDUE` is not overdue yet.

    The lanes of rehearsals are not among them: they send nothing, and are never drilled.
    """
    with connection.cursor() as cursor:
        cursor.execute(_STAND, (OVERDUE.total_seconds(),))
        return tuple(_stands(row) for row in cursor.fetchall())


def _stands(row: tuple[Any, ...]) -> QueueDrill:
    queue_id, queue, passed, at, last_passed, is_overdue, steps = row
    failed = tuple(step["step"] for step in orjson.loads(steps or "[]") if not step["passed"])
    return QueueDrill(queue_id, queue, passed, at, last_passed, is_overdue, failed)
