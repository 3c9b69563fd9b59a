"""Holding a task back until a time, and letting it go at once: before it is claimed, by a person, reversibly.

The claim honours `claimable_at` already, and unblocking `not_before` (contract 7): nothing is added there.
A task that somebody holds, or that waits for a person, is not held back.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import queue_gates_of_tasks
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.states import TaskState

from . import hints, locking, rulings
from .events import EventKind, record, task_fact
from .texts import check_reason
from .transactions import in_transaction

#: Nobody remembers longer why a task was to wait.
MAX_SNOOZE: Final = timedelta(days=30)
#: The states in which a task waits for nobody, so that it can be made to wait for a time.
SNOOZABLE: Final = frozenset({TaskState.READY, TaskState.BLOCKED})


@dataclass(frozen=True, slots=True)
class Snoozed:
    """`was` is what `not_before` was, for whoever wants to undo it."""

    task_id: UUID
    state: str
    state_version: int
    not_before: datetime
    was: datetime | None = None
    outcome: str = "SNOOZED"


@dataclass(frozen=True, slots=True)
class Woken:
    task_id: UUID
    state: str
    state_version: int
    not_before: datetime | None = None
    outcome: str = "WOKEN"


def snooze_task(
    *, task_id: UUID, expected_state_version: int, not_before: datetime, reason: str, actor: Actor
) -> Snoozed | Refusal:
    """Hold a READY or BLOCKED task back until `not_before`, at most MAX_SNOOZE from now.

    Takes the queue's gate shared and the task's row; its state stays, its version rises. Refused:
    ALREADY_SETTLED (in another state, or it waits as long already), ALREADY_COMMITTED, STALE_INPUT
    (superseded), STATE_VERSION_MISMATCH, INVALID (a time that is past or too far), NOT_FOUND.
    """
    faults = check_reason(reason) + check_zone("/not_before", not_before)
    if faults:
        return invalid(*faults)
    return _snooze(task_id, expected_state_version, not_before, reason, actor)


def check_zone(pointer: str, moment: datetime) -> list[FieldError]:
    if moment.tzinfo is not None:
        return []
    return [FieldError(pointer, "It has no time zone; write it with `Z` or an offset.")]


def check_snooze(pointer: str, not_before: datetime, clock: datetime) -> list[FieldError]:
    """Faults of a time to hold something back until, beside the database's clock."""
    if not_before <= clock:
        return [FieldError(pointer, f"It is past: the time is {_told(clock)}.")]
    if not_before > clock + MAX_SNOOZE:
        told = f"At most {MAX_SNOOZE.days} days from now: {_told(clock + MAX_SNOOZE)} or earlier."
        return [FieldError(pointer, told)]
    return []


@in_transaction
def _snooze(
    task_id: UUID, expected: int, not_before: datetime, reason: str, actor: Actor
) -> Snoozed | Refusal:
    task, clock = _lock(task_id, "snooze")
    if task is None:
        return not_found("task")
    if faults := check_snooze("/not_before", not_before, clock):
        return invalid(*faults)
    refusal = _not_in_its_state(task, expected, "held back") or _waits_as_long(task, not_before)
    if refusal is not None:
        return rulings.refuse(refusal, point="snooze", task=task, actor=actor, at=clock)
    told: dict[str, Any] = {"was": task.not_before, "not_before": not_before, "reason": reason}
    run_round(
        _move(task, not_before, clock),
        record([task_fact(EventKind.SNOOZED, task, **told)], actor=actor, at=clock),
    )
    version = task.state_version + 1
    return Snoozed(task_id, task.state, version, not_before, task.not_before)


def wake_task(
    *,
    task_id: UUID,
    expected_state_version: int,
    not_before: datetime | None = None,
    reason: str,
    actor: Actor,
) -> Woken | Refusal:
    """Let a READY or BLOCKED task go that waits for a time: at once, or at an earlier `not_before` (an undone snooze).

    Whoever or whatever made it wait: a person, its submission, the backoff of a retry. Refused:
    ALREADY_SETTLED (in another state, or it waits for no time), ALREADY_COMMITTED, STALE_INPUT
    (superseded), STATE_VERSION_MISMATCH, NOT_FOUND.
    """
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    answer, queue_id = _wake(task_id, expected_state_version, not_before, reason, actor)
    if queue_id is not None:
        hints.notify(queue_id)
    return answer


@in_transaction
def _wake(
    task_id: UUID, expected: int, not_before: datetime | None, reason: str, actor: Actor
) -> tuple[Woken | Refusal, int | None]:
    task, clock = _lock(task_id, "wake")
    if task is None:
        return not_found("task"), None
    refusal = _not_in_its_state(task, expected, "woken") or _waits_for_no_time(task, clock)
    if refusal is not None:
        return rulings.refuse(refusal, point="wake", task=task, actor=actor, at=clock), None
    told: dict[str, Any] = {"was": task.not_before, "not_before": not_before, "reason": reason}
    run_round(
        _move(task, not_before, clock),
        record([task_fact(EventKind.WOKEN, task, **told)], actor=actor, at=clock),
    )
    woken = Woken(task_id, task.state, task.state_version + 1, not_before)
    return woken, task.queue_id if task.state == TaskState.READY else None


def _lock(task_id: UUID, point: str) -> tuple[TaskRow | None, datetime]:
    _, _, locked, clock_rows = run_round(
        name_point(point), queue_gates_of_tasks([task_id]), locking.lock_tasks([task_id]), CLOCK
    )
    return (TaskRow._make(locked[0]) if locked else None), clock_of(clock_rows)


_MOVE: Final = """
UPDATE coordinator_task t SET state_version = t.state_version + 1, not_before = n.due,
  claimable_at = CASE WHEN t.state = 'READY' THEN greatest(n.clock, n.due) END
FROM (SELECT %s::timestamptz, %s::timestamptz) AS n(clock, due) WHERE t.task_id = %s
"""


def _move(task: TaskRow, not_before: datetime | None, clock: datetime) -> Statement:
    return Statement(_MOVE, (clock, not_before, task.task_id))


def _not_in_its_state(task: TaskRow, expected: int, done: str) -> Refusal | None:
    match task.state:
        case TaskState.COMMITTED:
            told = "It has its canonical commit; nothing of it waits."
            return rulings.ruling(Outcome.ALREADY_COMMITTED, told, task)
        case TaskState.SUPERSEDED:
            return rulings.superseded(task)
        case TaskState.READY | TaskState.BLOCKED:
            return rulings.version_mismatch(task, expected)
        case _:
            mismatch = rulings.version_mismatch(task, expected)
            told = f"It is {task.state}; only READY and BLOCKED tasks are {done}."
            return mismatch or rulings.ruling(Outcome.ALREADY_SETTLED, told, task)


def _waits_as_long(task: TaskRow, not_before: datetime) -> Refusal | None:
    if task.not_before is None or task.not_before < not_before:
        return None
    told = f"It waits until {_told(task.not_before)} already. To let it go earlier, wake it."
    return rulings.ruling(Outcome.ALREADY_SETTLED, told, task)


def _waits_for_no_time(task: TaskRow, clock: datetime) -> Refusal | None:
    if task.not_before is not None and task.not_before > clock:
        return None
    return rulings.ruling(Outcome.ALREADY_SETTLED, "It waits for no time.", task)


def _told(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
