"""One task with its place: its run, its neighbours in the DAG, its revisions and its canonical commit."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Func, IntegerField, OuterRef, QuerySet, Subquery, TextField
from django.db.models.functions import Cast, Left

from coordinator.models import (
    CanonicalCommit,
    Dependency,
    EffectSlot,
    Event,
    RestoreHold,
    StagedResult,
    Task,
)
from coordinator.selectors.console_counts import capped_counts

#: Neighbours shown by name; a fan-out of thousands is a link to the run's list.
MAX_NEIGHBOURS: Final = 12
#: So much of a payload is put into a page; the rest is one download away.
PAYLOAD_SHOWN: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class TaskFacts:
    task_id: UUID
    node_id: str
    kind: str
    revision: int
    state: str
    state_version: int
    queue: str
    queue_epoch: int
    intake: str
    active_pool: str
    run_id: UUID
    run_name: str
    run_state: str
    priority: int
    replay: str
    serial_key: str | None
    slots: dict[str, str]
    input_digest: str
    scheduler_epoch: int
    claim_generation: int
    cancel_generation: int
    attempt_id: UUID | None
    owner: str | None
    lease_expires_at: datetime | None
    not_before: datetime | None
    ready_at: datetime | None
    created_at: datetime
    attempts: int
    spent_attempts: int
    max_attempts: int
    dependency_count: int
    pending_dependencies: int
    supersedes: UUID | None
    successor: UUID | None
    result_commit_id: UUID | None
    committed_at: datetime | None
    committed_by: str | None
    committed_generation: int | None
    result_digest: str | None


_FACTS: Final = {
    "queue": "queue__name",
    "queue_epoch": "queue__scheduler_epoch",
    "intake": "queue__intake",
    "active_pool": "queue__active_pool_id",
    "run_id": "run__run_id",
    "run_name": "run__name",
    "run_state": "run__state",
    "supersedes": "supersedes_id",
    "successor": "successor_id",
    "result_commit_id": "result_commit_id",
    "committed_at": "result_commit__committed_at",
    "committed_by": "result_commit__attempt__owner",
    "committed_generation": "result_commit__claim_generation",
    "result_digest": "result_commit__result_digest",
}


@dataclass(frozen=True, slots=True)
class Neighbour:
    task_id: UUID
    node_id: str
    state: str


@dataclass(frozen=True, slots=True)
class Neighbours:
    parents: tuple[Neighbour, ...]
    children: tuple[Neighbour, ...]
    more_children: bool


@dataclass(frozen=True, slots=True)
class LastChange:
    """The fact that made the task what it is: who, when, and what they gave as the reason."""

    kind: str
    actor: str
    at: datetime
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Held:
    """The open hold of a restore: since when, and who dealt with which restore."""

    held_at: datetime
    restored_by: str
    restore_reason: str


@dataclass(frozen=True, slots=True)
class Payload:
    """Stored JSON text, cut to what a page shows. `size_bytes` is the whole."""

    text: str
    size_bytes: int

    @property
    def cut(self) -> bool:
        return len(self.text.encode()) < self.size_bytes


def read_task(task_id: UUID) -> TaskFacts | None:
    successor = Task.objects.filter(supersedes=OuterRef("pk")).values("task_id")[:1]
    names = [_FACTS.get(name, name) for name in TaskFacts.__dataclass_fields__]
    row: Any = (
        Task.objects.filter(task_id=task_id)
        .annotate(successor_id=Subquery(successor))
        .values_list(*names)
        .first()
    )
    return TaskFacts(*row) if row else None


def read_neighbours(task_id: UUID) -> Neighbours:
    parents = _neighbours(Dependency.objects.filter(child_id=task_id), "parent")
    children = _neighbours(Dependency.objects.filter(parent_id=task_id), "child")
    return Neighbours(
        parents=parents[:MAX_NEIGHBOURS],
        children=children[:MAX_NEIGHBOURS],
        more_children=len(children) > MAX_NEIGHBOURS,
    )


def read_last_change(task_id: UUID) -> LastChange | None:
    rows = Event.objects.filter(task_id=task_id).exclude(kind__in=["REFUSED", "STAGED", "ALARM"])
    row = rows.order_by("-id").values_list("kind", "actor", "at", "data").first()
    return LastChange(*row) if row else None


def read_restore_hold(task_id: UUID) -> Held | None:
    """The newest open one; a person's word releases them all."""
    rows = RestoreHold.objects.filter(task_id=task_id, released_at=None).order_by("-id")
    row = rows.values_list("held_at", "restore__begun_by", "restore__reason").first()
    return Held(*row) if row else None


def read_event_kinds(task_id: UUID) -> tuple[str, ...]:
    rows = Event.objects.filter(task_id=task_id).order_by("kind").values_list("kind", flat=True)
    return tuple(rows.distinct())


def count_parts(task_id: UUID) -> dict[str, int]:
    """Capped counts for the tabs of a task: `events`, `candidates` and `effects`."""
    return capped_counts(
        {
            "events": Event.objects.filter(task_id=task_id),
            "effects": EffectSlot.objects.filter(task_id=task_id),
            "candidates": StagedResult.objects.filter(attempt__task_id=task_id),
        },
        cap=999,
    )


def read_input(task_id: UUID, *, whole: bool = False) -> Payload | None:
    return _payload(Task.objects.filter(task_id=task_id), "input", whole=whole)


def read_result(task_id: UUID, *, whole: bool = False) -> Payload | None:
    """The canonical result as JSON text; None without one, or where a blob holds it."""
    rows = CanonicalCommit.objects.filter(task_id=task_id, result__isnull=False)
    return _payload(rows, "result", whole=whole)


def read_candidate(
    task_id: UUID, attempt_id: UUID, digest: str, *, whole: bool = False
) -> Payload | None:
    """A result that an attempt of this task put aside, by its digest."""
    rows = StagedResult.objects.filter(
        attempt_id=attempt_id, attempt__task_id=task_id, result_digest=digest
    )
    return _payload(rows, "result", whole=whole)


def _payload(rows: QuerySet[Any], column: str, *, whole: bool) -> Payload | None:
    size = Func(column, function="octet_length", output_field=IntegerField())
    shown: Any = Cast(column, TextField()) if whole else Left(column, PAYLOAD_SHOWN)
    row: Any = rows.values_list(shown, size).first()
    return Payload(*row) if row else None


def _neighbours(edges: QuerySet[Dependency], end: str) -> tuple[Neighbour, ...]:
    rows = edges.order_by(f"{end}_id").values_list(f"{end}_id", f"{end}__node_id", f"{end}__state")
    return tuple(Neighbour(*row) for row in rows[: MAX_NEIGHBOURS + 1])
