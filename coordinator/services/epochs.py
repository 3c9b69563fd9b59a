"""The queue's switches: its epoch, which only rises, and its intake (contract 4, 12).

Both hold the queue's gate alone, so that once they have returned nothing that began before
can land any more.
"""

from dataclasses import dataclass
from datetime import datetime

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gate
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.states import Intake

from . import hints, locking, queue_ids
from .events import EventKind, Fact, record
from .identity import held, hold_of, remember_epochs
from .locking import QueueRow
from .revocations import bumped_facts, lock_held, raise_epochs, revoke
from .rulings import refuse_in_incident
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
                remember_epochs({queue: answer.scheduler_epoch})
                hints.notify(queue_id)
            return answer
    return not_found("queue")


@in_transaction
def _bump(
    queue_id: int, queue: str, expected_epoch: int, reason: str, actor: Actor
) -> Bumped | Refusal | None:
    _, _, queues, held, clock_rows = run_round(
        name_point("bump"),
        queue_gate(queue_id, exclusive=True),
        locking.read_queue(queue_id),
        lock_held([queue_id]),
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
    clock = clock_of(clock_rows)
    revocation = revoke(held, clock)
    bumped = bumped_facts([row], revocation, {"reason": reason})
    run_round(
        raise_epochs([row]),
        *revocation.statements,
        record([*bumped, *revocation.facts], actor=actor, at=clock),
    )
    return Bumped(queue, row.scheduler_epoch + 1, len(revocation.held))


def set_intake(*, queue: str, intake: Intake, reason: str, actor: Actor) -> IntakeSet | Refusal:
    """Stop or open the queue's intake. A stopped one grants no claims; the rest goes on.

    Refused: INCIDENT_OPEN where it is to be opened during an incident (that is the incident's last step),
    INTAKE_STOPPED while the database may not be the one that it says it is.
    """
    if not reason.strip():
        return invalid(FieldError("/reason", "Say why; it stands in the queue's history."))
    for queue_id in queue_ids.candidates(queue):
        answer = _set_intake(queue_id, queue, intake, reason, actor)
        if answer is not None:
            if isinstance(answer, IntakeSet) and answer.changed and intake == Intake.OPEN:
                hints.notify(queue_id)
            return answer
    return not_found("queue")


@in_transaction
def _set_intake(
    queue_id: int, queue: str, intake: Intake, reason: str, actor: Actor
) -> IntakeSet | Refusal | None:
    _, _, queues, clock_rows = run_round(
        name_point("intake"),
        queue_gate(queue_id, exclusive=True),
        locking.read_queue(queue_id),
        CLOCK,
    )
    row = QueueRow._make(queues[0]) if queues else None
    if row is None or row.name != queue:
        return None
    hold = hold_of(row)
    if hold and intake == Intake.OPEN:
        return held(hold)
    if row.intake == intake:
        return IntakeSet(queue, intake, changed=False)
    clock: datetime = clock_of(clock_rows)
    if intake == Intake.OPEN and row.incident_id is not None:
        return refuse_in_incident(row, point="intake", actor=actor, at=clock)
    kind = EventKind.INTAKE_OPENED if intake == Intake.OPEN else EventKind.INTAKE_STOPPED
    run_round(
        Statement(
            "UPDATE coordinator_queue SET intake = %s WHERE id = %s", (str(intake), queue_id)
        ),
        record([Fact(kind, queue_id=queue_id, data={"reason": reason})], actor=actor, at=clock),
    )
    return IntakeSet(queue, intake, changed=True)
