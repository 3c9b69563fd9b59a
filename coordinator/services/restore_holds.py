"""Letting a task go that was held after a restore: a person says that no unseen effect of it happened (contract 12)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import queue_gates_of_tasks, run_gates_of_tasks
from coordinator.outcomes import Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.seals import waits_for_a_person
from coordinator.states import EffectState, TaskState

from . import hints, locking, rulings
from .effect_books import EffectBook, reconcile_first
from .events import EventKind, record, task_fact
from .texts import check_reason
from .transactions import in_transaction

_UNSETTLED: Final = (EffectState.UNKNOWN, EffectState.ACCEPTED)

_OPEN: Final = (
    "SELECT id FROM coordinator_restorehold WHERE task_id = %s AND released_at IS NULL ORDER BY id"
)
_RELEASED: Final = """
SELECT restore_id FROM coordinator_restorehold WHERE task_id = %s ORDER BY id DESC LIMIT 1
"""
_RELEASE: Final = """
UPDATE coordinator_restorehold SET released_at = %s, released_by = %s, reason = %s WHERE id = ANY(%s::bigint[])
"""
_GO_ON: Final = """
UPDATE coordinator_task t SET state = n.state, state_version = t.state_version + 1,
  serial_held = t.serial_held AND n.keeps,
  ready_at = CASE WHEN n.state = 'READY' THEN n.clock ELSE t.ready_at END,
  claimable_at = CASE WHEN n.state = 'READY' THEN greatest(n.clock, t.not_before) END
FROM (SELECT %s::timestamptz, %s::text, %s::bool) AS n(clock, state, keeps) WHERE t.task_id = %s
"""


@dataclass(frozen=True, slots=True)
class HoldReleased:
    """The task goes on from `state`; a task that has ended stays so, and may be reopened."""

    task_id: UUID
    state: str
    state_version: int
    replayed: bool = False
    outcome: str = "RELEASED"


def is_held(task: TaskRow) -> bool:
    """Whether a hold of a restore is open for this locked task."""
    return bool(run_round(Statement(_OPEN, (task.task_id,)))[0])


def release_restore_hold(
    *, task_id: UUID, expected_state_version: int, reason: str, actor: Actor
) -> HoldReleased | Refusal:
    """Say that no effect of the task has happened that can't be seen here, and let it go on (contract 12).

    READY, or BLOCKED where a parent has not committed. A repeat is `replayed`. Refused: RECONCILE_FIRST while one of
    its effects is UNKNOWN, STATE_VERSION_MISMATCH, ALREADY_SETTLED (it was never held), INVALID (no reason), NOT_FOUND.
    """
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    answer, queue_id = _release(
        task_id=task_id, expected_state_version=expected_state_version, reason=reason, actor=actor
    )
    if queue_id is not None:
        hints.notify(queue_id)
    return answer


@in_transaction
def _release(
    *, task_id: UUID, expected_state_version: int, reason: str, actor: Actor
) -> tuple[HoldReleased | Refusal, int | None]:
    _, _, _, locked, holds, released, clock_rows = run_round(
        name_point("release_restore_hold"),
        queue_gates_of_tasks([task_id]),
        run_gates_of_tasks([task_id]),
        locking.lock_tasks([task_id]),
        Statement(_OPEN, (task_id,)),
        Statement(_RELEASED, (task_id,)),
        CLOCK,
    )
    if not locked:
        return not_found("task"), None
    task, clock = TaskRow._make(locked[0]), clock_of(clock_rows)
    if not holds and released:
        return HoldReleased(task_id, task.state, task.state_version, replayed=True), None
    book = EffectBook.of([task])
    refusal = _refusal(task, book, expected_state_version, is_held=bool(holds))
    if refusal is not None:
        point = "release_restore_hold"
        return rulings.refuse(refusal, point=point, task=task, actor=actor, at=clock), None
    answer = _let_go(task, book, [row[0] for row in holds], reason, clock=clock, actor=actor)
    return answer, task.queue_id


def _refusal(task: TaskRow, book: EffectBook, expected: int, *, is_held: bool) -> Refusal | None:
    if not is_held:
        told = "No restore holds it; there is nothing to release."
        return rulings.ruling(Outcome.ALREADY_SETTLED, told, task)
    unsettled = [row for row in book.out(task) if row.state in _UNSETTLED]
    return rulings.version_mismatch(task, expected) or (
        reconcile_first(unsettled) if unsettled else None
    )


def _let_go(
    task: TaskRow, book: EffectBook, holds: list[int], reason: str, *, clock: datetime, actor: Actor
) -> HoldReleased:
    state = _state_after(task, book, clock)
    moves = state != task.state
    keeps = task.serial_scope_id is not None and bool(book.out(task))
    fact = task_fact(
        EventKind.RESTORE_HOLD_RELEASED, task, changed=moves, state=state, reason=reason
    )
    run_round(
        Statement(_RELEASE, (clock, actor.label, reason, holds)),
        *([Statement(_GO_ON, (clock, state, keeps, task.task_id))] if moves else []),
        record([fact], actor=actor, at=clock),
    )
    return HoldReleased(task.task_id, state, task.state_version + moves)


def _state_after(task: TaskRow, book: EffectBook, clock: datetime) -> str:
    if task.state != TaskState.AWAITING_RECONCILIATION:
        return task.state  # CANCELLED or FAILED: a person reopens it, or not
    if waits_for_a_person(book.out(task), clock):
        return task.state
    return TaskState.BLOCKED if task.pending_dependencies else TaskState.READY
