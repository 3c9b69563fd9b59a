"""The queue's switches: its epoch, which only rises, and its intake (contract 4, 12).

Both hold the queue's gate alone, so that once they have returned nothing that began before
can land any more.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import queue_gate
from coordinator.models import Task
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import LockStatement, Statement, name_point, run_round
from coordinator.states import Intake, TaskState

from . import hints, locking, queue_ids
from .approvals import void_approvals
from .events import EventKind, Fact, record, task_fact
from .holds import Freed, HoldEnds, end_holds, free_tasks, redirected, waiting_fact
from .locking import QueueRow
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Bumped:
    queue: str
    scheduler_epoch: int
    revoked: int  # attempts of the old epoch that were ended


@dataclass(frozen=True, slots=True)
class IntakeSet:
    queue: str
    intake: str
    changed: bool


def bump_epoch(*, queue: str, expected_epoch: int, reason: str, actor: Actor) -> Bumped | Refusal:
    """Raise the queue's epoch by one: everything of the old epoch is refused from the return on.

    Ends the old epoch's attempts EXPIRED (end reason EPOCH_BUMP; not counted against
    `max_attempts`) and makes their tasks READY. Refused where the epoch isn't
    `expected_epoch` (STATE_VERSION_MISMATCH: somebody has bumped it already).
    """
    for queue_id in queue_ids.candidates(queue):
        answer = _bump(queue_id, queue, expected_epoch, reason, actor)
        if answer is not None:
            if isinstance(answer, Bumped):
                hints.notify(queue_id)
            return answer
    return not_found("queue")


_HELD: Final = LockStatement(
    lambda: (
        Task.objects.filter(queue_id=0, state__in=[TaskState.CLAIMED, TaskState.AWAITING_APPROVAL])
        .order_by("task_id")
        .select_for_update(of=("self",))
        .values_list(*TaskRow._fields)
    )
)


@in_transaction
def _bump(
    queue_id: int, queue: str, expected_epoch: int, reason: str, actor: Actor
) -> Bumped | Refusal | None:
    _, _, queues, held, clock_rows = run_round(
        name_point("bump"),
        queue_gate(queue_id, exclusive=True),
        locking.read_queue(queue_id),
        _HELD(queue_id, TaskState.CLAIMED, TaskState.AWAITING_APPROVAL),
        CLOCK,
    )
    row = QueueRow._make(queues[0]) if queues else None
    if row is None or row.name != queue:
        return None
    if row.scheduler_epoch != expected_epoch:
        return Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"The queue's epoch is {row.scheduler_epoch}, not {expected_epoch}; look again.",
            extra={"scheduler_epoch": row.scheduler_epoch},
        )
    tasks, clock = [TaskRow._make(each) for each in held], clock_of(clock_rows)
    epoch = row.scheduler_epoch + 1
    held_tasks = [task for task in tasks if task.state == TaskState.CLAIMED]
    ends = end_holds(tasks, clock)
    void = void_approvals(
        [task for task in tasks if task.state == TaskState.AWAITING_APPROVAL],
        clock=clock,
        reason="the epoch was bumped",
        granted_too=False,
    )
    freed = redirected([Freed(task, TaskState.READY, clock) for task in tasks], ends)
    told = {"from": row.scheduler_epoch, "to": epoch, "reason": reason, "revoked": len(held_tasks)}
    bumped = Fact(EventKind.EPOCH_BUMPED, queue_id=row.id, data=told)
    run_round(
        Statement(_SET_EPOCH, (epoch, queue_id)),
        Statement(_END_ATTEMPTS, (clock, [task.attempt_id for task in held_tasks])),
        *free_tasks(freed, ends, clock),
        record(
            [bumped, *ends.facts, *void, *(_ended_fact(each, ends) for each in freed)],
            actor=actor,
            at=clock,
        ),
    )
    return Bumped(queue, epoch, len(held_tasks))


_SET_EPOCH: Final = "UPDATE coordinator_queue SET scheduler_epoch = %s WHERE id = %s"
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


def set_intake(*, queue: str, intake: Intake, reason: str, actor: Actor) -> IntakeSet | Refusal:
    """Stop or open the queue's intake. A stopped one grants no claims; the rest goes on."""
    if not reason.strip():
        return invalid(FieldError("/reason", "Say why; it stands in the queue's history."))
    for queue_id in queue_ids.candidates(queue):
        answer = _set_intake(queue_id, queue, intake, reason, actor)
        if answer is not None:
            if answer.changed and intake == Intake.OPEN:
                hints.notify(queue_id)
            return answer
    return not_found("queue")


@in_transaction
def _set_intake(
    queue_id: int, queue: str, intake: Intake, reason: str, actor: Actor
) -> IntakeSet | None:
    _, _, queues, clock_rows = run_round(
        name_point("intake"),
        queue_gate(queue_id, exclusive=True),
        locking.read_queue(queue_id),
        CLOCK,
    )
    row = QueueRow._make(queues[0]) if queues else None
    if row is None or row.name != queue:
        return None
    if row.intake == intake:
        return IntakeSet(queue, intake, changed=False)
    kind = EventKind.INTAKE_OPENED if intake == Intake.OPEN else EventKind.INTAKE_STOPPED
    clock: datetime = clock_of(clock_rows)
    run_round(
        Statement(
            "UPDATE coordinator_queue SET intake = %s WHERE id = %s", (str(intake), queue_id)
        ),
        record([Fact(kind, queue_id=queue_id, data={"reason": reason})], actor=actor, at=clock),
    )
    return IntakeSet(queue, intake, changed=True)
