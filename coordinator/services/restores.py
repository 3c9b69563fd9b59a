"""After a restore, a copy or a promotion: nothing goes on before what was lost has been dealt with (contract 12).

Four steps, each in short transactions and safe to repeat: what is to be done is written down; each queue's intake is
stopped and its epoch raised; each open task that declares effects is held; the new identity is filed, outside first.
A run that was cut off is continued by the next one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gate
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid
from coordinator.outside import Record, Unreadable, change_record, highest, read_record
from coordinator.rounds import Statement, name_point, run_round

from . import identity, locking
from .events import EventKind, Fact, record
from .identity import Found
from .locking import QueueRow
from .lost_calls import hold_next
from .texts import check_reason
from .transactions import in_transaction

MAX_EPOCH: Final = 2**53 - 1
_FIRST: Final = (0, UUID(int=0))


@dataclass(frozen=True, slots=True)
class Doubt:
    """What a person looks at before they confirm."""

    database: str
    own: str
    inside: str
    outside: str
    signs: list[str]
    hold: str
    unfinished: bool
    epochs: dict[str, int]  # of each queue, as it would be raised


@dataclass(frozen=True, slots=True)
class Restored:
    """What was done, over all starts of this run."""

    restore: int
    identity: str
    epochs: dict[str, int]
    held_tasks: int
    unknown_effects: int
    outcome: str = "RESTORED"


def look_at_identity(*, seen_epochs: Mapping[str, int]) -> Doubt | Refusal:
    """Both identities, the signs of a difference, and what the epochs would be raised to. Changes nothing."""
    return _look(seen_epochs)[0]


@in_transaction
def _look(seen_epochs: Mapping[str, int]) -> tuple[Doubt | Refusal, Found | None]:
    kept, unreadable = _kept()
    found = identity.look()
    if found is None:
        told = "The server is a standby. Promote it first."
        return Refusal(Outcome.INTAKE_STOPPED, told), None
    unknown = sorted(set(seen_epochs) - set(found.epochs))
    if unknown:
        told = f"there is no queue {unknown[0]!r}; there are: {', '.join(sorted(found.epochs)) or 'none'}"
        return invalid(FieldError("/epoch", told)), None
    if any(not 0 < epoch < MAX_EPOCH for epoch in seen_epochs.values()):
        return invalid(FieldError("/epoch", f"an epoch is from 1 to {MAX_EPOCH - 1}")), None
    (rows,) = run_round(Statement(_UNFINISHED))
    signs = identity.differences(found, kept)
    doubt = Doubt(
        database=found.own.database,
        own=str(found.own),
        inside=str(found.inside or "nothing is on file inside"),
        outside=unreadable or str(kept.identity if kept else "nothing is on file outside"),
        signs=signs,
        hold=found.held_because or (f"{signs[0]} {identity.MEND}" if signs else ""),
        unfinished=bool(rows),
        epochs=_raised(found, kept, seen_epochs, rows),
    )
    return doubt, found


def _kept() -> tuple[Record | None, str]:
    try:
        return read_record(identity.record_path(), identity.database_name()), ""
    except Unreadable as error:
        return None, str(error)


_UNFINISHED: Final = (
    "SELECT id, epochs FROM coordinator_restore WHERE finished_at IS NULL ORDER BY id LIMIT 1"
)


def _raised(
    found: Found, kept: Record | None, seen: Mapping[str, int], unfinished: list[Any]
) -> dict[str, int]:
    """Above the highest of all: the database's, the outside record's, what people know, an earlier start's."""
    known = highest(highest(kept.epochs, kept.earlier) if kept else {}, seen)
    begun: dict[str, int] = orjson.loads(unfinished[0][1]) if unfinished else {}
    # What an earlier start has raised a queue to may be on file by now: that is no reason to go higher.
    return {
        name: begun[name]
        if name in begun and begun[name] >= known.get(name, 0)
        else max(epoch, known.get(name, 0)) + 1
        for name, epoch in found.epochs.items()
    }


def after_restore(
    *,
    confirm: str,
    reason: str,
    actor: Actor,
    seen_epochs: Mapping[str, int] | None = None,
    even_without_doubt: bool = False,
) -> Restored | Refusal:
    """Do everything that contract 12 asks for after a restore or a promotion. `confirm`: the database's name, typed.

    Intake stays stopped: people open it queue by queue. Refused: INVALID (another name, no reason, an unknown queue),
    ALREADY_SETTLED (the database is the one that it says it is), INTAKE_STOPPED (a standby).
    """
    doubt, _ = _look(seen_epochs or {})
    if isinstance(doubt, Refusal):
        return doubt
    faults = check_reason(reason) + _record_faults()
    if confirm != doubt.database:
        faults.append(FieldError("/confirm", f"type the database's name, {doubt.database!r}"))
    if faults:
        return invalid(*faults)
    if not (doubt.hold or doubt.unfinished or even_without_doubt):
        told = "This database is the one that it says it is, and nothing is unfinished: there is nothing to do."
        return Refusal(Outcome.ALREADY_SETTLED, told)
    restore_id, epochs = _begin(doubt.epochs, reason, actor)
    for queue, epoch in sorted(epochs.items()):
        _stop_and_raise(queue, epoch, reason, actor)
    after: tuple[int, UUID] | None = _FIRST
    while after is not None:
        after = hold_next(restore_id=restore_id, after=after, actor=actor)
    return _finish(restore_id, epochs, actor)


def _record_faults() -> list[FieldError]:
    """Without an outside record that can be written the end can't be reached: told before anything is begun."""
    try:
        change_record(identity.record_path(), identity.database_name(), lambda kept: kept)
    except (OSError, Unreadable) as error:
        told = f"{error}. Mend it, or move it away and give each queue's highest known epoch"
        return [FieldError("/record", told)]
    return []


@in_transaction
def _begin(epochs: dict[str, int], reason: str, actor: Actor) -> tuple[int, dict[str, int]]:
    """Hold intake and write down what is to be done; of two at once the second joins the first one's run."""
    found = identity.look()
    assert found is not None, "it was no standby just now"
    (rows,) = run_round(Statement(_UNFINISHED))
    if rows:
        restore_id, begun = rows[0][0], orjson.loads(rows[0][1])
        epochs = highest(begun, epochs)
        run_round(Statement(_PLAN, (orjson.dumps(epochs).decode(), restore_id)))
        return restore_id, epochs
    inside = found.inside or found.own
    told = {"is": str(found.own), "was": str(inside), "epochs": epochs, "reason": reason}
    hold = found.held_because or f"Somebody is dealing with a restore. {identity.MEND}"
    (made,), *_ = run_round(
        Statement(
            _BEGIN,
            (
                found.clock,
                actor.label,
                reason,
                orjson.dumps({"is": str(found.own), "was": str(inside)}).decode(),
                orjson.dumps(epochs).decode(),
            ),
        ),
        identity.file_identity(found, inside, hold=hold, for_good=True, actor=actor),
        record([Fact(EventKind.RESTORE_BEGUN, data=told)], actor=actor, at=found.clock),
    )
    return made[0], epochs


_BEGIN: Final = """
INSERT INTO coordinator_restore (begun_at, begun_by, reason, found, epochs)
VALUES (%s, %s, %s, %s::jsonb, %s::jsonb) RETURNING id
"""
_PLAN: Final = "UPDATE coordinator_restore SET epochs = %s::jsonb WHERE id = %s"
_RAISE: Final = "UPDATE coordinator_queue SET scheduler_epoch = %s, intake = 'STOPPED', intake_share = 0 WHERE id = %s"
_ID_OF: Final = "SELECT id FROM coordinator_queue WHERE name = %s"


@in_transaction
def _stop_and_raise(queue: str, epoch: int, reason: str, actor: Actor) -> None:
    """Under the queue's gate alone: from the return on nothing of an older epoch lands."""
    ((queue_id,),) = run_round(Statement(_ID_OF, (queue,)))[0]
    _, _, queues, clock = run_round(
        name_point("restore"),
        queue_gate(queue_id, exclusive=True),
        locking.read_queue(queue_id),
        CLOCK,
    )
    row = QueueRow._make(queues[0])
    facts = []
    if row.scheduler_epoch < epoch:
        told = {"from": row.scheduler_epoch, "to": epoch, "reason": reason, "restore": True}
        facts.append(Fact(EventKind.EPOCH_BUMPED, queue_id=row.id, data=told))
    if row.intake != "STOPPED":
        facts.append(Fact(EventKind.INTAKE_STOPPED, queue_id=row.id, data={"reason": reason}))
    if facts or row.intake_share:
        run_round(
            Statement(_RAISE, (max(epoch, row.scheduler_epoch), row.id)),
            record(facts, actor=actor, at=clock_of(clock)),
        )


_DONE: Final = """
SELECT (SELECT count(*) FROM coordinator_restorehold WHERE restore_id = %s),
       (SELECT count(*) FROM coordinator_effectslot WHERE out_on_suspicion AND state = 'UNKNOWN')
"""
_FINISH: Final = (
    "UPDATE coordinator_restore SET finished_at = %s WHERE id = %s AND finished_at IS NULL"
)


def _finish(restore_id: int, epochs: dict[str, int], actor: Actor) -> Restored:
    """The new identity, outside first: cut off between the two, intake stays held and the next start is here again."""
    _file_outside()
    return _file_inside(restore_id, epochs, actor)


@in_transaction
def _file_outside() -> None:
    found = identity.look()
    assert found is not None, "a primary never becomes a standby"

    def follows(before: Record | None) -> Record:
        earlier = before.followed_by(found.own, found.log_position) if before else None
        return (earlier or Record(found.own, found.log_position)).with_epochs(found.epochs)

    change_record(identity.record_path(), found.own.database, follows)


@in_transaction
def _file_inside(restore_id: int, epochs: dict[str, int], actor: Actor) -> Restored:
    found = identity.look()
    assert found is not None, "a primary never becomes a standby"
    ((tasks, effects),) = run_round(Statement(_DONE, (restore_id,)))[0]
    told = {"is": str(found.own), "restore": restore_id, "held_tasks": tasks, "epochs": epochs}
    run_round(
        Statement(_FINISH, (found.clock, restore_id)),
        identity.file_identity(found, found.own, hold="", for_good=False, actor=actor),
        Statement(_CONFIRMED, (found.clock,)),
        record([Fact(EventKind.IDENTITY_CONFIRMED, data=told)], actor=actor, at=found.clock),
    )
    return Restored(restore_id, str(found.own), epochs, tasks, effects)


_CONFIRMED: Final = "UPDATE coordinator_installation SET confirmed_at = %s WHERE id = 1"
