"""Events as they are read: the history of a task, a run, or everything (contract 2, 3)."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from coordinator.models import Event


@dataclass(frozen=True, slots=True)
class EventRecord:
    """One fact. `repeats` counts equal refusals after the first; `last_at` is the newest of them."""

    id: int
    kind: str
    task_id: UUID | None
    attempt_id: UUID | None
    state_version: int | None
    actor: str
    request_id: str
    at: datetime
    data: dict[str, Any]
    repeats: int
    last_at: datetime | None


@dataclass(frozen=True, slots=True)
class EventFilters:
    """`refusals`: only what was refused; `without_task`: only what operators did to queues and the like."""

    kind: str | None = None
    task_id: UUID | None = None
    attempt_id: UUID | None = None
    queue: str | None = None
    actor: str | None = None
    refusals: bool = False
    without_task: bool = False
    queues: Collection[str] | None = None


def list_events(filters: EventFilters) -> QuerySet[Event]:
    """Newest first; page by `id__lt`."""
    events = Event.objects.select_related(None)
    wanted = {
        "kind": filters.kind,
        "task_id": filters.task_id,
        "attempt_id": filters.attempt_id,
        "queue__name": filters.queue,
        "actor": filters.actor,
    }
    events = events.filter(
        **{column: value for column, value in wanted.items() if value is not None}
    )
    if filters.refusals:
        events = events.filter(refusal_key__isnull=False)
    if filters.without_task:
        events = events.filter(task__isnull=True)
    if filters.queues is not None:
        events = events.filter(Q(queue__name__in=list(filters.queues)))
    return events.order_by("-id")


def event_record(event: Event) -> EventRecord:
    return EventRecord(
        id=event.pk,
        kind=event.kind,
        task_id=event.task_id,
        attempt_id=event.attempt_id,
        state_version=event.state_version,
        actor=event.actor,
        request_id=event.request_id,
        at=event.at,
        data=event.data,
        repeats=event.repeats,
        last_at=event.last_at,
    )
