"""Reopening what was cancelled or has failed: a fresh allowance, and generations that go on (contract 10)."""

from dataclasses import dataclass, field
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
from coordinator.states import TaskState

from . import hints, locking, rulings
from .effect_books import EffectBook, OutEffect, brief
from .events import EventKind, record, task_fact
from .restore_holds import is_held
from .settlements import reactivate, settle_runs
from .texts import check_reason
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Reopened:
    task_id: UUID
    state: str
    state_version: int
    effects: list[OutEffect] = field(default_factory=list)
    outcome: str = "REOPENED"


def reopen_task(
    *, task_id: UUID, expected_state_version: int, reason: str, actor: Actor
) -> Reopened | Refusal:
    """Make a CANCELLED or FAILED task READY again with a fresh allowance of attempts (contract 10).

    BLOCKED, where a parent has not committed. Takes the queue's gate shared, the run's alone and
    the task's row. Generations go on: old fences stay dead. Refused: ALREADY_COMMITTED,
    STALE_INPUT (superseded), STATE_VERSION_MISMATCH, ALREADY_SETTLED (it is open), NOT_FOUND.
    """
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    answer, task = _reopen(
        task_id=task_id, expected_state_version=expected_state_version, reason=reason, actor=actor
    )
    if task is not None:
        settle_runs([task.run_id])
        hints.notify(task.queue_id)
    return answer


@in_transaction
def _reopen(
    *, task_id: UUID, expected_state_version: int, reason: str, actor: Actor
) -> tuple[Reopened | Refusal, TaskRow | None]:
    _, _, _, locked, clock_rows = run_round(
        name_point("reopen"),
        queue_gates_of_tasks([task_id]),
        run_gates_of_tasks([task_id], exclusive=True),
        locking.lock_tasks([task_id]),
        CLOCK,
    )
    if not locked:
        return not_found("task"), None
    task, clock = TaskRow._make(locked[0]), clock_of(clock_rows)
    refusal = _not_reopened(task, expected_state_version)
    if refusal is not None:
        return rulings.refuse(refusal, point="reopen", task=task, actor=actor, at=clock), None
    book = EffectBook.of([task])
    state = _reopened_state(task, book, clock)
    fact = task_fact(EventKind.REOPENED, task, was=task.state, state=state, reason=reason)
    run_round(
        Statement(_REOPEN, (clock, state, task_id)),
        reactivate(task.run_id),
        record([fact], actor=actor, at=clock),
    )
    out = [brief(row) for row in book.out(task)]
    return Reopened(task_id, state, task.state_version + 1, out), task


def _reopened_state(task: TaskRow, book: EffectBook, clock: datetime) -> TaskState:
    """Held after a restore (12), BLOCKED by a parent, held where a person must settle an effect (7), else READY."""
    if is_held(task):
        return TaskState.AWAITING_RECONCILIATION
    if task.pending_dependencies:
        return TaskState.BLOCKED
    waits = waits_for_a_person(book.out(task), clock)
    return TaskState.AWAITING_RECONCILIATION if waits else TaskState.READY


#: A task that was claimed has its own `not_before` behind it: what stands there is the backoff of attempts that
#: no longer count.
_REOPEN: Final = """
UPDATE coordinator_task t SET state = n.state, state_version = t.state_version + 1, spent_attempts = 0,
  ready_at = CASE WHEN n.state = 'READY' THEN n.clock END,
  not_before = CASE WHEN t.claim_generation = 0 THEN t.not_before END,
  claimable_at = CASE WHEN n.state = 'READY' THEN
    greatest(n.clock, CASE WHEN t.claim_generation = 0 THEN t.not_before END) END
FROM (SELECT %s::timestamptz, %s::text) AS n(clock, state) WHERE t.task_id = %s
"""


def _not_reopened(task: TaskRow, expected: int) -> Refusal | None:
    match task.state:
        case TaskState.COMMITTED:
            told = "It has its canonical commit. To replace the result, revise it."
            return rulings.ruling(Outcome.ALREADY_COMMITTED, told, task)
        case TaskState.SUPERSEDED:
            return rulings.superseded(task)
        case TaskState.CANCELLED | TaskState.FAILED:
            return rulings.version_mismatch(task, expected)
        case _:
            mismatch = rulings.version_mismatch(task, expected)
            told = f"It is {task.state}; only CANCELLED and FAILED tasks are reopened."
            return mismatch or rulings.ruling(Outcome.ALREADY_SETTLED, told, task)
