"""Cancelling a task or a run: at once, with a receipt (contract 10). It un-sends nothing."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import GateClass, queue_gates_of_tasks
from coordinator.models import Task
from coordinator.outcomes import Outcome, Refusal, invalid, not_found
from coordinator.rounds import LockStatement, Statement, name_point, run_round
from coordinator.seen import RunSeen, changed_since
from coordinator.selectors.runs import see_run
from coordinator.states import CANCELLABLE_TASK, RunState, TaskState

from . import hints, locking, rulings
from .approvals import void_approvals
from .effect_books import EffectBook, OutEffect, brief
from .events import EventKind, Fact, record, refusal_fact, task_fact
from .holds import HoldEnds, end_holds
from .settlements import settle_gated, settle_runs
from .texts import check_reason
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The receipt. `effects`: those of the task that may be out; they stay to be reconciled."""

    cancel_generation: int
    effects: list[OutEffect] = field(default_factory=list)
    outcome: str = "CANCELLED"


@dataclass(frozen=True, slots=True)
class CancelledTask:
    node_id: str
    task_id: UUID
    cancel_generation: int


@dataclass(frozen=True, slots=True)
class CancelledRun:
    """The receipt: every cancelled task of the run. `state` is FAILED where another node had failed before."""

    run_id: UUID
    state: str
    tasks: list[CancelledTask]
    effects: list[OutEffect] = field(default_factory=list)
    outcome: str = "CANCELLED"


def cancel_task(
    *, task_id: UUID, expected_state_version: int | None = None, reason: str, actor: Actor
) -> Cancelled | Refusal:
    """Cancel an unfinished task; its worker learns it from its next call (contract 10).

    Takes the queue's gate shared and the task's row. The cancel generation rises, so that the
    fence of whoever holds it is refused; the attempt ends CANCELLED; a serial key is free. Its
    descendants stay BLOCKED. Again: the same receipt. Refused: ALREADY_COMMITTED, STALE_INPUT
    (superseded), ALREADY_SETTLED (failed), STATE_VERSION_MISMATCH, NOT_FOUND.
    """
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    answer, task = _cancel(
        task_id=task_id, expected_state_version=expected_state_version, reason=reason, actor=actor
    )
    if task is not None:
        settle_runs([task.run_id])
        if task.serial_scope_id is not None and task.state == TaskState.CLAIMED:
            hints.notify(task.queue_id)
    return answer


@in_transaction
def _cancel(
    *, task_id: UUID, expected_state_version: int | None, reason: str, actor: Actor
) -> tuple[Cancelled | Refusal, TaskRow | None]:
    """The answer, and the task as it was where this call has cancelled it."""
    _, _, locked, clock_rows = run_round(
        name_point("cancel"), queue_gates_of_tasks([task_id]), locking.lock_tasks([task_id]), CLOCK
    )
    if not locked:
        return not_found("task"), None
    task, clock = TaskRow._make(locked[0]), clock_of(clock_rows)
    if task.state == TaskState.CANCELLED:
        out = EffectBook.of([task]).out(task)
        return Cancelled(task.cancel_generation, [brief(row) for row in out]), None
    refusal = _refusal(task, expected_state_version)
    if refusal is not None:
        return rulings.refuse(refusal, point="cancel", task=task, actor=actor, at=clock), None
    ends = _write([task], reason=reason, actor=actor, at=clock)
    return Cancelled(
        task.cancel_generation + 1, [brief(row) for row in ends.out(task.task_id)]
    ), task


def _refusal(task: TaskRow, expected: int | None) -> Refusal | None:
    match task.state:
        case TaskState.COMMITTED:
            told = "Its commit came first; the result stands. To replace it, revise the task."
            return rulings.ruling(Outcome.ALREADY_COMMITTED, told, task)
        case TaskState.SUPERSEDED:
            return rulings.superseded(task)
        case TaskState.FAILED:
            told = (
                "It has FAILED: nothing is left to cancel. Reopen or revise it, or cancel the run."
            )
            return rulings.ruling(Outcome.ALREADY_SETTLED, told, task)
        case _:
            return None if expected is None else rulings.version_mismatch(task, expected)


_CANCEL_TASKS: Final = """
UPDATE coordinator_task SET
  state = 'CANCELLED', state_version = state_version + 1, cancel_generation = cancel_generation + 1,
  attempt_id = NULL, owner = NULL, lease_expires_at = NULL, claimable_at = NULL,
  serial_held = serial_held AND task_id = ANY(%s::uuid[])
WHERE task_id = ANY(%s::uuid[])
"""
_CANCEL_ATTEMPTS: Final = """
UPDATE coordinator_attempt SET state = 'CANCELLED', ended_at = %s, end_reason = 'CANCELLED'
WHERE attempt_id = ANY(%s::uuid[]) AND state IN ('STARTED', 'RESULT_STAGED')
"""


def _write(tasks: Sequence[TaskRow], *, reason: str, actor: Actor, at: datetime) -> HoldEnds:
    """Cancelling un-sends nothing: effects as in a take-over, approvals VOID (contract 9, 10)."""
    held = [task.attempt_id for task in tasks if task.state == TaskState.CLAIMED]
    ends = end_holds(tasks, at)
    void = void_approvals(tasks, clock=at, reason="the task was cancelled")
    facts = [*ends.facts, *void, *(_cancelled(task, reason) for task in tasks)]
    run_round(
        *ends.statements,
        Statement(_CANCEL_TASKS, (sorted(ends.keeping), [task.task_id for task in tasks])),
        *([Statement(_CANCEL_ATTEMPTS, (at, held))] if held else []),
        record(facts, actor=actor, at=at),
    )
    return ends


def _cancelled(task: TaskRow, reason: str) -> Fact:
    return task_fact(
        EventKind.CANCELLED,
        task,
        attempt_id=task.attempt_id,
        was=task.state,
        cancel_generation=task.cancel_generation + 1,
        reason=reason,
    )


# --- runs -------------------------------------------------------------------------------------


def cancel_run(
    *, run_id: UUID, reason: str, actor: Actor, seen: RunSeen | None = None
) -> CancelledRun | Refusal:
    """Cancel all unfinished tasks of a run, in one transaction (contract 10).

    Takes the queue's gate shared and the run's alone: a commit either came before, and its
    result stands, or finds its task cancelled. Again: the same receipt. Refused:
    ALREADY_COMMITTED, ALREADY_SETTLED (only failed nodes are left), STATE_VERSION_MISMATCH where
    people have changed it since it was `seen`, NOT_FOUND.
    """
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    answer, queue_id = _cancel_run(run_id=run_id, reason=reason, actor=actor, seen=seen)
    if queue_id is not None:
        hints.notify(queue_id)  # serial keys are free
    return answer


_QUEUE_GATE: Final = (
    f"SELECT pg_advisory_xact_lock_shared({int(GateClass.QUEUE)}, queue_id)"  # noqa: S608
    " FROM coordinator_run WHERE run_id = %s"
)
_RUN_GATE: Final = (
    f"SELECT pg_advisory_xact_lock({int(GateClass.RUN)}, id) FROM coordinator_run WHERE run_id = %s"  # noqa: S608
)
_RUN: Final = "SELECT id, queue_id, state FROM coordinator_run WHERE run_id = %s"
_OF_RUN: Final = "run_id = (SELECT id FROM coordinator_run WHERE run_id = %s)"
_STATES: Final = sorted(CANCELLABLE_TASK)
_LOCK_UNFINISHED: Final = LockStatement(
    lambda: (
        Task.objects.filter(
            RawSQL(_OF_RUN, [""], output_field=BooleanField()),  # noqa: S611 (a constant of ours)
            RawSQL("state = ANY(%s::text[])", [[]], output_field=BooleanField()),
        )
        .order_by("task_id")
        .select_for_update(of=("self",))
        .values_list(*TaskRow._fields)
    )
)
_CANCELLED_OF_RUN: Final = (
    "SELECT node_id, task_id, cancel_generation FROM coordinator_task"
    " WHERE run_id = %s AND state = 'CANCELLED' ORDER BY task_id"
)
_OUT_OF_RUN: Final = """
SELECT e.effect_id, e.slot, e.downstream, e.state FROM coordinator_effectslot e
JOIN coordinator_task t ON t.task_id = e.task_id
WHERE t.run_id = %s AND t.state = 'CANCELLED' AND e.state IN ('ACCEPTED', 'UNKNOWN', 'RESENDABLE')
ORDER BY e.effect_id
"""


@in_transaction
def _cancel_run(
    *, run_id: UUID, reason: str, actor: Actor, seen: RunSeen | None
) -> tuple[CancelledRun | Refusal, int | None]:
    """The answer, and the queue's id where this call has cancelled something."""
    _, _, _, runs, unfinished, clock_rows = run_round(
        name_point("cancel"),
        Statement(_QUEUE_GATE, (run_id,)),
        Statement(_RUN_GATE, (run_id,)),
        Statement(_RUN, (run_id,)),
        _LOCK_UNFINISHED(run_id, _STATES),
        CLOCK,
    )
    if not runs:
        return not_found("run"), None
    (number, queue_id, state), clock = runs[0], clock_of(clock_rows)
    of_run = _OfRun(run_id, number, queue_id, actor, clock)
    tasks = [TaskRow._make(row) for row in unfinished]
    if seen is not None and (changed := changed_since(seen, see_run(number, state))):
        return _refused_run(changed, of_run), None
    if tasks:
        _write(tasks, reason=reason, actor=actor, at=clock)
    state = settle_gated([number], actor=actor, at=clock).get(number, state)
    (cancelled,) = run_round(Statement(_CANCELLED_OF_RUN, (number,)))
    if not cancelled:
        return _refused_run(_nothing_left(state), of_run), None
    (out,) = run_round(Statement(_OUT_OF_RUN, (number,)))
    effects = [OutEffect(*row) for row in out]
    receipt = CancelledRun(run_id, state, [CancelledTask(*row) for row in cancelled], effects)
    return receipt, queue_id if tasks else None


@dataclass(frozen=True, slots=True)
class _OfRun:
    """Whose cancelling of what run is refused, and when."""

    run_id: UUID
    number: int
    queue_id: int
    actor: Actor
    at: datetime


def _refused_run(refusal: Refusal, of: _OfRun) -> Refusal:
    """The refusal, put on record."""
    told = replace(refusal, evidence_recorded=True)
    subject = f"{of.actor.label}:{of.run_id}"
    fact = refusal_fact(told, point="cancel", subject=subject, task=None)
    fact = replace(fact, queue_id=of.queue_id, run_id=of.number)
    run_round(record([fact], actor=of.actor, at=of.at))
    return told


def _nothing_left(state: str) -> Refusal:
    told = {"run_state": state}
    if state == RunState.COMMITTED:
        detail = "All its nodes have committed; the results stand. To replace one, revise its task."
        return Refusal(Outcome.ALREADY_COMMITTED, detail, evidence_recorded=True, extra=told)
    detail = "Nothing is left to cancel: its unfinished nodes have FAILED. Reopen or revise them."
    return Refusal(Outcome.ALREADY_SETTLED, detail, evidence_recorded=True, extra=told)
