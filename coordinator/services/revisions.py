"""Revising a task: a new input is a new task (contract 10)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import queue_gates_of_tasks, run_gates_of_tasks
from coordinator.ids import new_id
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.states import TaskState

from . import answers, hints, locking, rulings
from .answers import RequestKey
from .approvals import void_approvals
from .effect_books import EffectBook, OutEffect, brief
from .events import EventKind, Fact, record, task_fact
from .reopenings import Reopened, reopen_task
from .restore_holds import is_held
from .settlements import reactivate, settle_runs
from .texts import MAX_INPUT_BYTES, canonical_text, check_reason
from .transactions import in_transaction

__all__ = ["Reopened", "Revised", "reopen_task", "revise_task", "supersede"]

#: So many claimed descendants are named in a refusal.
MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Revised:
    """The new task. `effects`: those of the old one that have already happened."""

    task_id: UUID
    run_id: UUID
    node_id: str
    kind: str
    revision: int
    supersedes: UUID
    state: str
    state_version: int
    input_digest: str
    pending_dependencies: int
    effects: list[OutEffect] = field(default_factory=list)
    replayed: bool = False


def revise_task(
    *,
    task_id: UUID,
    expected_state_version: int,
    input: Any,  # noqa: A002 - the contract's word
    reason: str,
    actor: Actor,
    request: RequestKey | None = None,
) -> Revised | Refusal:
    """Put a new task with another input in this one's place; this one is SUPERSEDED (contract 10).

    Takes the queue's gate shared, the run's alone, the task's row and its children's. The new
    task has a new id and revision +1, no attempts, and the node's edges; whoever held the old
    one is refused with STALE_INPUT. READY children of a COMMITTED task return to BLOCKED.
    Refused: ALREADY_COMMITTED once a descendant was ever claimed, CANCELLED (reopen it),
    STALE_INPUT, STATE_VERSION_MISMATCH, INVALID, NOT_FOUND. The same request: the same answer.
    """
    faults: list[FieldError] = []
    text, digest = canonical_text("/input", input, MAX_INPUT_BYTES, faults)
    faults.extend(check_reason(reason))
    if faults:
        return invalid(*faults)
    revision = _Revision(task_id, expected_state_version, text, digest, reason, actor, request)
    answer, task = _revise(revision)
    if task is not None:
        settle_runs([task.run_id])
        hints.notify(task.queue_id)
    return answer


@dataclass(frozen=True, slots=True)
class _Revision:
    """A revision that is asked for; its input in canonical form."""

    task_id: UUID
    expected_state_version: int
    input: str
    input_digest: str
    reason: str
    actor: Actor
    request: RequestKey | None


@in_transaction
def _revise(asked: _Revision) -> tuple[Revised | Refusal, TaskRow | None]:
    """The answer, and the old task as it was where this call has superseded it."""
    _, _, _, found, locked, runs, claimed, clock_rows = run_round(
        name_point("revise"),
        queue_gates_of_tasks([asked.task_id]),
        run_gates_of_tasks([asked.task_id], exclusive=True),
        answers.look_up(asked.request) if asked.request else Statement("SELECT 1 WHERE false"),
        locking.lock_tasks_and_children([asked.task_id]),
        Statement(_RUN_OF_TASK, (asked.task_id,)),
        Statement(_CLAIMED_CHILDREN, (asked.task_id, MAX_NAMED)),
        CLOCK,
    )
    before = answers.stored_answer(asked.request, found) if asked.request else None
    if before is not None:
        return (before if isinstance(before, Refusal) else _replay(before)), None
    rows, clock = locking.tasks_of(locked), clock_of(clock_rows)
    task = rows.pop(asked.task_id, None)
    if task is None:
        return not_found("task"), None
    book = EffectBook.of([task])
    refusal = _refusal(task, asked, [row[0] for row in claimed]) or _out(task, book)
    if refusal is not None:
        return rulings.refuse(refusal, point="revise", task=task, actor=asked.actor, at=clock), None
    return _supersede(task, list(rows.values()), runs[0][0], asked, clock, book=book), task


#: A task of a deeper generation can only have been claimed after one of these had committed,
#: which takes a claim too. A superseded revision of the node counts: what it did was built on
#: the result that is to be replaced.
_CLAIMED_CHILDREN: Final = """
SELECT DISTINCT every.node_id FROM coordinator_dependency d
JOIN coordinator_task child ON child.task_id = d.child_id
JOIN coordinator_task every ON every.run_id = child.run_id AND every.node_id = child.node_id
WHERE d.parent_id = %s AND every.claim_generation > 0 ORDER BY 1 LIMIT %s
"""
_RUN_OF_TASK: Final = (
    "SELECT r.run_id FROM coordinator_run r"
    " WHERE r.id = (SELECT run_id FROM coordinator_task WHERE task_id = %s)"
)


def _out(task: TaskRow, book: EffectBook) -> Refusal | None:
    """RECONCILE_FIRST while an effect may be out, or one that a restore has hidden."""
    refusal = book.reconcile_first(task)
    if refusal is None and is_held(task):
        told = "A restore holds it: effects that can't be seen may be out. Release it first."
        return rulings.ruling(Outcome.RECONCILE_FIRST, told, task)
    return refusal


def _refusal(task: TaskRow, asked: _Revision, claimed: Sequence[str]) -> Refusal | None:
    match task.state:
        case TaskState.SUPERSEDED:
            return rulings.superseded(task)
        case TaskState.CANCELLED:
            return rulings.ruling(
                Outcome.CANCELLED, "It was cancelled; reopen it, then revise it.", task
            )
        case TaskState.COMMITTED if claimed:
            told = "Its result is in use: these nodes were claimed with it. Revise those that are not COMMITTED."
            refusal = rulings.ruling(Outcome.ALREADY_COMMITTED, told, task)
            return replace(refusal, extra=refusal.extra | {"descendants": list(claimed)})
        case _:
            return rulings.version_mismatch(task, asked.expected_state_version)


def supersede(
    old: TaskRow,
    *,
    run_id: UUID,
    input: str,  # noqa: A002 - the contract's word; canonical text
    input_digest: str,
    reason: str,
    actor: Actor,
    at: datetime,
    book: EffectBook,
) -> Revised:
    """Put a new task in the place of one that has never been COMMITTED.

    The caller holds the queue's gate, the run's alone, and the rows of the task and its
    children, and has looked that nothing of it may be out.
    """
    asked = _Revision(old.task_id, old.state_version, input, input_digest, reason, actor, None)
    return _supersede(old, [], run_id, asked, at, book=book)


def _supersede(
    old: TaskRow,
    children: Sequence[TaskRow],
    run_id: UUID,
    asked: _Revision,
    at: datetime,
    *,
    book: EffectBook,
) -> Revised:
    state = TaskState.BLOCKED if old.pending_dependencies else TaskState.READY
    new = Revised(
        task_id=new_id(),
        run_id=run_id,
        node_id=old.node_id,
        kind=old.kind,
        revision=old.revision + 1,
        supersedes=old.task_id,
        state=state,
        state_version=1,
        input_digest=asked.input_digest,
        pending_dependencies=old.pending_dependencies,
        effects=[brief(row) for row in book.happened(old)],
    )
    facts = void_approvals([old], clock=at, reason="the task was revised")
    voided = book.void([old], at, facts)
    reblocked = [child for child in children if child.state == TaskState.READY]
    was_committed = old.state == TaskState.COMMITTED
    run_round(
        Statement(_SUPERSEDE, (old.task_id,)),
        Statement(_END_ATTEMPT, (at, old.attempt_id)),
        *voided,
        Statement(
            _INSERT_NEW, (new.task_id, state, asked.input, asked.input_digest, at, old.task_id)
        ),
        Statement(_MOVE_EDGES_IN, (new.task_id, old.task_id)),
        Statement(_MOVE_EDGES_OUT, (new.task_id, old.task_id)),
        *([Statement(_UNCOUNT, ([child.task_id for child in children],))] if was_committed else []),
        reactivate(old.run_id),
        record(
            [*facts, *_facts(old, new, reblocked if was_committed else [], asked)],
            actor=asked.actor,
            at=at,
        ),
        *([answers.store(asked.request, orjson.dumps(new).decode())] if asked.request else []),
    )
    return new


#: A committed one keeps its attempt and its result: they are history, and stay readable.
_SUPERSEDE: Final = """
UPDATE coordinator_task SET state = 'SUPERSEDED', state_version = state_version + 1, lease_expires_at = NULL,
  claimable_at = NULL, serial_held = false,
  attempt_id = CASE WHEN result_commit_id IS NOT NULL THEN attempt_id END,
  owner = CASE WHEN result_commit_id IS NOT NULL THEN owner END
WHERE task_id = %s
"""
_END_ATTEMPT: Final = """
UPDATE coordinator_attempt SET state = 'STALE_INPUT', ended_at = %s, end_reason = 'SUPERSEDED'
WHERE attempt_id = %s AND state IN ('STARTED', 'RESULT_STAGED')
"""
#: Of one that was claimed, what stands in `not_before` is a backoff of attempts that don't count for the new task.
_INSERT_NEW: Final = """
INSERT INTO coordinator_task
  (task_id, run_id, queue_id, node_id, kind, revision, supersedes_id, state, priority, not_before, input,
   input_digest, replay, slots, serial_key, serial_scope_id, serial_held, state_version, scheduler_epoch,
   claim_generation, cancel_generation, claimable_at, attempts, spent_attempts, max_attempts, dependency_count,
   pending_dependencies, ready_at, created_at)
SELECT n.task_id, o.run_id, o.queue_id, o.node_id, o.kind, o.revision + 1, o.task_id, n.state, o.priority,
       o.starts, n.input, n.input_digest, o.replay, o.slots, o.serial_key, o.serial_scope_id, false, 1, 0, 0, 0,
       CASE WHEN n.state = 'READY' THEN greatest(n.clock, o.starts) END, 0, 0, o.max_attempts,
       o.dependency_count, o.pending_dependencies, CASE WHEN n.state = 'READY' THEN n.clock END, n.clock
FROM (SELECT %s::uuid, %s::text, %s::text, %s::text, %s::timestamptz) AS n(task_id, state, input, input_digest, clock)
JOIN (SELECT *, CASE WHEN claim_generation = 0 THEN not_before END AS starts FROM coordinator_task) o
  ON o.task_id = %s
"""
_MOVE_EDGES_IN: Final = "UPDATE coordinator_dependency SET child_id = %s WHERE child_id = %s"
_MOVE_EDGES_OUT: Final = "UPDATE coordinator_dependency SET parent_id = %s WHERE parent_id = %s"
#: Children in any state wait for one more parent again; only a READY one can have been released by it.
_UNCOUNT: Final = """
UPDATE coordinator_task SET pending_dependencies = pending_dependencies + 1,
  state = CASE WHEN state = 'READY' THEN 'BLOCKED' ELSE state END,
  state_version = state_version + (state = 'READY')::int,
  ready_at = CASE WHEN state = 'READY' THEN NULL ELSE ready_at END,
  claimable_at = CASE WHEN state = 'READY' THEN NULL ELSE claimable_at END
WHERE task_id = ANY(%s::uuid[])
"""


def _facts(
    old: TaskRow, new: Revised, reblocked: Sequence[TaskRow], asked: _Revision
) -> list[Fact]:
    superseded = task_fact(
        EventKind.SUPERSEDED,
        old,
        attempt_id=old.attempt_id if old.state == TaskState.CLAIMED else None,
        was=old.state,
        by=new.task_id,
        reason=asked.reason,
    )
    submitted = replace(
        task_fact(
            EventKind.SUBMITTED, old, state=new.state, revision=new.revision, supersedes=old.task_id
        ),
        task_id=new.task_id,
        state_version=1,
    )
    return [
        superseded,
        submitted,
        *(task_fact(EventKind.REBLOCKED, child, parent=new.task_id) for child in reblocked),
    ]


def _replay(stored: str) -> Revised:
    told = orjson.loads(stored)
    ids = {name: UUID(told[name]) for name in ("task_id", "run_id", "supersedes")}
    effects = [OutEffect(**effect) for effect in told["effects"]]
    return Revised(**(told | ids | {"effects": effects, "replayed": True}))
