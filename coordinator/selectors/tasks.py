"""Tasks and their attempts as they are read (contract 2, 6). Never locks, never writes."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import QuerySet, Subquery

from coordinator.canary import DRILL
from coordinator.models import Attempt, Queue, Run, Task
from coordinator.selectors.state_lists import has_index, in_state, order_in_state


@dataclass(frozen=True, slots=True)
class TaskFilters:
    """What a list may be narrowed to; None leaves a field out. `queues`: those that the caller may see."""

    queue: str | None = None
    state: str | None = None
    run_id: UUID | None = None
    kind: str | None = None
    owner: str | None = None
    node_id: str | None = None
    queues: Collection[str] | None = None

    @property
    def is_by_state(self) -> bool:
        """Whether an index of states leads to it, and to few others. A run leads to fewer."""
        return has_index(self.state) and self.run_id is None


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A task as the contract spells it. `input` is None where it was not asked for."""

    task_id: UUID
    run_id: UUID
    node_id: str
    kind: str
    revision: int
    supersedes: UUID | None
    queue: str
    state: str
    priority: int
    not_before: datetime | None
    input: orjson.Fragment | None
    input_digest: str
    replay: str
    serial_key: str | None
    state_version: int
    scheduler_epoch: int
    claim_generation: int
    cancel_generation: int
    attempt_id: UUID | None
    owner: str | None
    lease_expires_at: datetime | None
    attempts: int
    max_attempts: int
    pending_dependencies: int
    ready_at: datetime | None
    result_commit_id: UUID | None
    slots: dict[str, str]
    created_at: datetime
    #: Places that people are shown masked (contract 15); what stands there is revealed for a reason.
    masked: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class UsageRecord:
    input_tokens: int
    output_tokens: int
    compute_seconds: float
    cost_usd: float


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    attempt_id: UUID
    task_id: UUID
    claim_generation: int
    scheduler_epoch: int
    cancel_generation: int
    owner: str
    worker: str  # the credential's name
    pool: str
    state: str
    started_at: datetime
    lease_expires_at: datetime
    renewals: int
    renewed_at: list[datetime]
    ended_at: datetime | None
    end_reason: str | None
    error: dict[str, Any] | None
    reclaim_seconds: float | None
    usage: UsageRecord


def queue_number(name: str | None) -> Subquery | None:
    """A queue's id as a value that the planner looks up once, so that its index in page order serves."""
    return None if name is None else Subquery(Queue.lanes.filter(name=name).values("id")[:1])


def run_number(run_id: UUID | None) -> Subquery | None:
    return None if run_id is None else Subquery(Run.objects.filter(run_id=run_id).values("id")[:1])


def list_tasks(filters: TaskFilters) -> QuerySet[Task]:
    """Newest first; page by `task_id__lt`. Its queue and run come with it, its input does not."""
    tasks = Task.objects.select_related("run", "queue").defer("input", "run__metadata")
    wanted = {
        "queue_id": queue_number(filters.queue),
        "run_id": run_number(filters.run_id),
        "kind": filters.kind,
        "owner": filters.owner,
        "node_id": filters.node_id,
    }
    tasks = tasks.filter(**{field: value for field, value in wanted.items() if value is not None})
    if filters.kind is None and filters.run_id is None:
        tasks = tasks.exclude(kind=DRILL)  # canaries are no work; who asks for the kind sees them
    if filters.queues is not None:
        tasks = tasks.filter(queue__name__in=list(filters.queues))
    if filters.state and filters.is_by_state:
        tasks = in_state(tasks, filters.state)
    elif filters.state:
        tasks = tasks.filter(state=filters.state)
    return tasks.order_by(*order_tasks(filters, newest_first=True))


def order_tasks(filters: TaskFilters, *, newest_first: bool) -> tuple[str, ...]:
    """What to order `list_tasks` by, so that an index leads through it. A state before the ids is the same in all."""
    if filters.state and filters.is_by_state:
        of_queue = filters.queue is not None
        return order_in_state(filters.state, of_queue=of_queue, newest_first=newest_first)
    return ("-task_id" if newest_first else "task_id",)


def find_task(
    task_id: UUID, *, queues: Collection[str] | None = None, with_input: bool = False
) -> Task | None:
    """The task with its queue and run, if it is in a queue that the caller may see; one query."""
    tasks = Task.objects.select_related("run", "queue").defer("run__metadata")
    if not with_input:
        tasks = tasks.defer("input", "run__metadata")
    if queues is not None:
        tasks = tasks.filter(queue__name__in=list(queues))
    return tasks.filter(task_id=task_id).first()


def task_record(task: Task, *, with_input: bool = False) -> TaskRecord:
    """`task` as list_tasks or find_task read it: no further query, but for an input that was deferred."""
    return TaskRecord(
        task_id=task.task_id,
        run_id=task.run.run_id,
        node_id=task.node_id,
        kind=task.kind,
        revision=task.revision,
        supersedes=task.supersedes_id,
        queue=task.queue.name,
        state=task.state,
        priority=task.priority,
        not_before=task.not_before,
        input=orjson.Fragment(task.input) if with_input else None,
        input_digest=task.input_digest,
        replay=task.replay,
        serial_key=task.serial_key,
        state_version=task.state_version,
        scheduler_epoch=task.scheduler_epoch,
        claim_generation=task.claim_generation,
        cancel_generation=task.cancel_generation,
        attempt_id=task.attempt_id,
        owner=task.owner,
        lease_expires_at=task.lease_expires_at,
        attempts=task.attempts,
        max_attempts=task.max_attempts,
        pending_dependencies=task.pending_dependencies,
        ready_at=task.ready_at,
        result_commit_id=task.result_commit_id,
        slots=task.slots,
        created_at=task.created_at,
    )


def list_attempts(task_id: UUID) -> QuerySet[Attempt]:
    """The ledger of a task, newest first; page by `claim_generation__lt`."""
    return (
        Attempt.objects.filter(task_id=task_id)
        .select_related("credential")
        .order_by("-claim_generation")
    )


def find_attempt(attempt_id: UUID) -> Attempt | None:
    return (
        Attempt.objects.select_related("credential", "task__queue")
        .filter(attempt_id=attempt_id)
        .first()
    )


def attempt_record(attempt: Attempt) -> AttemptRecord:
    return AttemptRecord(
        attempt_id=attempt.attempt_id,
        task_id=attempt.task_id,
        claim_generation=attempt.claim_generation,
        scheduler_epoch=attempt.scheduler_epoch,
        cancel_generation=attempt.cancel_generation,
        owner=attempt.owner,
        worker=attempt.credential.name,
        pool=attempt.pool,
        state=attempt.state,
        started_at=attempt.started_at,
        lease_expires_at=attempt.lease_expires_at,
        renewals=attempt.renewals,
        renewed_at=attempt.renewed_at,
        ended_at=attempt.ended_at,
        end_reason=attempt.end_reason,
        error=attempt.error,
        reclaim_seconds=attempt.reclaim_seconds,
        usage=UsageRecord(
            attempt.input_tokens,
            attempt.output_tokens,
            attempt.compute_seconds,
            float(attempt.cost_usd),
        ),
    )
