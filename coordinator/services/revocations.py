"""What a raise of the epoch takes back: holds, their effects, what waits for a person (contract 4, 12)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from coordinator.fence import TaskRow
from coordinator.models import Task
from coordinator.rounds import LockStatement, Statement
from coordinator.states import TaskState

from .approvals import void_approvals
from .events import EventKind, Fact, task_fact
from .holds import Freed, HoldEnds, end_holds, free_tasks, redirected, waiting_fact
from .locking import QueueRow

_HELD: Final = LockStatement(
    lambda: (
        Task.objects.filter(
            RawSQL("queue_id = ANY(%s::int[])", [[]], output_field=BooleanField()),
            state__in=[TaskState.CLAIMED, TaskState.AWAITING_APPROVAL],
        )
        .order_by("task_id")
        .select_for_update(of=("self",))
        .values_list(*TaskRow._fields)
    )
)


def lock_held(queue_ids: Sequence[int]) -> Statement:
    """The tasks of these queues that a bump touches; after their gates, before the clock."""
    return _HELD(list(queue_ids), TaskState.CLAIMED, TaskState.AWAITING_APPROVAL)


@dataclass(frozen=True, slots=True)
class Revocation:
    """What a bump ends, as judged under the exclusive gates: the statements and facts to write."""

    held: list[TaskRow]  # their attempts end
    ends: HoldEnds
    voided: list[Fact]  # one for each approval
    statements: list[Statement]
    facts: list[Fact]

    def of_queue(self, queue_id: int) -> int:
        """How many attempts of one queue end."""
        return sum(task.queue_id == queue_id for task in self.held)


def revoke(
    rows: Sequence[tuple[Any, ...]], clock: datetime, *, incident_id: UUID | None = None
) -> Revocation:
    """Judge the tasks that `lock_held` found: attempts EXPIRED (not counted against `max_attempts`), effects as in
    take-over, tasks READY or waiting, pending approvals VOID (written at once).
    """
    tasks = [TaskRow._make(each) for each in rows]
    held = [task for task in tasks if task.state == TaskState.CLAIMED]
    ends = end_holds(tasks, clock)
    voided = void_approvals(
        [task for task in tasks if task.state == TaskState.AWAITING_APPROVAL],
        clock=clock,
        reason="the epoch was bumped",
        granted_too=False,
    )
    if incident_id is not None:
        of_incident = {"incident_id": str(incident_id)}
        voided = [replace(fact, data=fact.data | of_incident) for fact in voided]
    freed = redirected([Freed(task, TaskState.READY, clock) for task in tasks], ends)
    return Revocation(
        held=held,
        ends=ends,
        voided=voided,
        statements=[
            Statement(_END_ATTEMPTS, (clock, [task.attempt_id for task in held])),
            *free_tasks(freed, ends, clock),
        ],
        facts=[*ends.facts, *voided, *(_ended_fact(each, ends) for each in freed)],
    )


def raise_epochs(queues: Sequence[QueueRow]) -> Statement:
    """Each of these queues' epochs, by one; under their exclusive gates."""
    return Statement(_RAISE, ([row.id for row in queues],))


def bumped_facts(
    queues: Sequence[QueueRow], revocation: Revocation, told: Mapping[str, Any]
) -> list[Fact]:
    return [
        Fact(
            EventKind.EPOCH_BUMPED,
            queue_id=row.id,
            data={
                "from": row.scheduler_epoch,
                "to": row.scheduler_epoch + 1,
                "revoked": revocation.of_queue(row.id),
                **told,
            },
        )
        for row in queues
    ]


_RAISE: Final = (
    "UPDATE coordinator_queue SET scheduler_epoch = scheduler_epoch + 1 WHERE id = ANY(%s::int[])"
)
_END_ATTEMPTS: Final = """
UPDATE coordinator_attempt SET state = 'EXPIRED', ended_at = %s, end_reason = 'EPOCH_BUMP'
WHERE attempt_id = ANY(%s::uuid[]) AND state IN ('STARTED', 'RESULT_STAGED')
"""


def _ended_fact(freed: Freed, ends: HoldEnds) -> Fact:
    if freed.state == TaskState.AWAITING_RECONCILIATION:
        return waiting_fact(freed.task, ends)
    if freed.task.state == TaskState.AWAITING_APPROVAL:
        return task_fact(EventKind.SETTLED, freed.task, reason="EPOCH_BUMP")
    return task_fact(
        EventKind.EXPIRED,
        freed.task,
        attempt_id=freed.task.attempt_id,
        owner=freed.task.owner,
        claim_generation=freed.task.claim_generation,
        reason="EPOCH_BUMP",
    )
