"""The history of one task as the attempt timeline draws it."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from coordinator.models import Attempt, Event, Task

MAX_ATTEMPTS: Final = 200
MAX_MARKS: Final = 500


@dataclass(frozen=True, slots=True)
class AttemptHistory:
    """One grant: its lease, its renewals, its end."""

    attempt_id: UUID
    claim_generation: int
    scheduler_epoch: int
    owner: str
    credential: str
    pool: str
    state: str
    started_at: datetime
    lease_expires_at: datetime
    renewals: int
    renewed_at: tuple[datetime, ...]
    ended_at: datetime | None
    end_reason: str | None
    error: dict[str, Any] | None
    reclaim_seconds: float | None
    input_tokens: int
    output_tokens: int
    compute_seconds: float
    cost_usd: Decimal


@dataclass(frozen=True, slots=True)
class Mark:
    """An event that the timeline shows as a point or a line."""

    kind: str
    attempt_id: UUID | None
    at: datetime
    last_at: datetime | None
    repeats: int
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class History:
    """Newest attempt first; `total` may be more than are held. `bumps` are of the task's queue, while it lived.

    `unsure`: when it became known of a call that nobody knows what came of it.
    """

    attempts: tuple[AttemptHistory, ...]
    total: int
    refusals: tuple[Mark, ...]
    staged: tuple[Mark, ...]
    bumps: tuple[Mark, ...]
    unsure: tuple[Mark, ...] = ()


_ATTEMPT: Final = (
    "attempt_id",
    "claim_generation",
    "scheduler_epoch",
    "owner",
    "credential__name",
    "pool",
    "state",
    "started_at",
    "lease_expires_at",
    "renewals",
    "renewed_at",
    "ended_at",
    "end_reason",
    "error",
    "reclaim_seconds",
    "input_tokens",
    "output_tokens",
    "compute_seconds",
    "cost_usd",
)


_MARKS: Final = ("REFUSED", "STAGED", "EFFECT_UNKNOWN")


def read_history(task_id: UUID) -> History | None:
    """None for an unknown task."""
    task = (
        Task.objects.filter(task_id=task_id)
        .values("queue_id", "queue__scheduler_epoch", "created_at", "claim_generation")
        .first()
    )
    if task is None:
        return None
    rows: Any = (
        Attempt.objects.filter(task_id=task_id).order_by("-claim_generation").values_list(*_ATTEMPT)
    )
    attempts = tuple(_attempt(row) for row in rows[:MAX_ATTEMPTS])
    marks = _marks(Event.objects.filter(task_id=task_id, kind__in=_MARKS))
    # A bump is looked up only where an attempt is of another epoch: no index leads to it.
    crossed = any(each.scheduler_epoch != task["queue__scheduler_epoch"] for each in attempts)
    bumps = Event.objects.filter(
        task=None, kind="EPOCH_BUMPED", queue_id=task["queue_id"], at__gte=task["created_at"]
    )
    return History(
        attempts=attempts,
        total=task["claim_generation"],
        refusals=tuple(mark for mark in marks if mark.kind == "REFUSED"),
        staged=tuple(mark for mark in marks if mark.kind == "STAGED"),
        bumps=_marks(bumps) if crossed else (),
        unsure=tuple(mark for mark in marks if mark.kind == "EFFECT_UNKNOWN"),
    )


def _marks(events: QuerySet[Event]) -> tuple[Mark, ...]:
    rows = events.order_by("-id").values_list(
        "kind", "attempt_id", "at", "last_at", "repeats", "data"
    )
    return tuple(Mark(*row) for row in rows[:MAX_MARKS])


def _attempt(row: tuple[Any, ...]) -> AttemptHistory:
    named = dict(zip(AttemptHistory.__dataclass_fields__, row, strict=True))
    return AttemptHistory(**{**named, "renewed_at": tuple(named["renewed_at"])})
