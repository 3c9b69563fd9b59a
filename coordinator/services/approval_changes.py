"""Asking for changes: a no that sends the task back to the agent instead of failing it (contract 9, 10).

A bound payload never changes, so the agent needs a new slot, and that is what a revision gives:
the same input, a new task, new effects. What it prepares there asks anew, and the two requests
lead to each other through the tasks that they belong to.
"""

from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.fence import TaskRow
from coordinator.gates import queue_gates_of_tasks, run_gates_of_tasks
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.states import ApprovalState, RejectionCode, TaskState

from . import hints, locking, settlements
from .approval_hearings import (
    ApprovalHearing,
    Decided,
    DecisionMade,
    Word,
    decide,
    expire,
    moved_on,
    open_approval,
    over,
    refused_before,
)
from .approvals import not_a_person
from .effect_books import EffectBook, brief
from .revisions import supersede
from .texts import MAX_REASON_CHARS, check_reason
from .transactions import in_transaction

MIN_WORDS_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class ChangesAsked:
    """The request is over, REJECTED with CHANGES_ASKED; `task_id` is the revision that the agent works on next."""

    approval_id: UUID
    state: str
    reason_code: str
    task_id: UUID
    supersedes: UUID
    revision: int
    decisions: list[DecisionMade] = field(default_factory=list)
    replayed: bool = False


def ask_for_changes(
    *,
    approval_id: UUID,
    payload_digest: str,
    reason: str,
    actor: Actor,
    expected_version: int | None = None,
) -> ChangesAsked | Refusal:
    """Say no to these bytes and what is to be changed: the task is revised, with the same input.

    The next claim of it carries the words (`changes_asked`). Refused as `reject` is, and:
    RECONCILE_FIRST while an effect of the task may be out, ALREADY_COMMITTED where one has
    happened (a revision would do it again), STATE_VERSION_MISMATCH where the task no longer waits.
    """
    refusal = not_a_person(actor)
    if refusal is not None:
        return refusal
    faults = check_reason(reason)
    if not faults and len(reason.strip()) < MIN_WORDS_CHARS:
        faults.append(FieldError("/reason", "Say what is to be changed; the agent reads it."))
    if faults:
        return invalid(*faults)
    code = RejectionCode.CHANGES_ASKED
    word = Word(actor, False, payload_digest, reason, expected_version, code)
    answer, task = _ask(approval_id, word)
    if isinstance(answer, ChangesAsked) and task is not None:
        settlements.settle_runs([task.run_id])
        hints.notify(task.queue_id)
    return answer


_PLACE: Final = """
SELECT a.effect_id, e.task_id, r.run_id FROM coordinator_approval a
JOIN coordinator_effectslot e USING (effect_id) JOIN coordinator_task t USING (task_id)
JOIN coordinator_run r ON r.id = t.run_id WHERE a.approval_id = %s
"""
_INPUT: Final = "SELECT input, input_digest FROM coordinator_task WHERE task_id = %s"
_SUCCESSOR: Final = "SELECT task_id, revision FROM coordinator_task WHERE supersedes_id = %s"


@in_transaction
def _ask(approval_id: UUID, word: Word) -> tuple[ChangesAsked | Refusal, TaskRow | None]:
    """The answer, and the old task as it was where this call has superseded it."""
    (places,) = run_round(Statement(_PLACE, (approval_id,)))
    if not places:
        return not_found("approval"), None
    effect_id, task_id, run_id = places[0]
    *_, inputs = run_round(
        name_point("ask_for_changes"),
        queue_gates_of_tasks([task_id]),
        run_gates_of_tasks([task_id], exclusive=True),
        locking.lock_tasks_and_children([task_id]),
        Statement(_INPUT, (task_id,)),
    )
    hearing = open_approval(approval_id, effect_id, actor=word.actor)
    if hearing is None:
        return not_found("approval"), None
    heard, task = hearing.heard, hearing.heard.task
    before = refused_before(hearing, word)
    if isinstance(before, Decided):
        return _receipt(before, task), None
    book = EffectBook.of([task])
    refusal = before or _too_late(hearing) or moved_on(hearing, word) or _not_so(hearing, book)
    if refusal is not None:
        heard.write()
        return refusal, None
    decided, statements = decide(hearing, word)
    heard.write(*statements)
    text, digest = inputs[0]
    supersede(
        task,
        run_id=run_id,
        input=text,
        input_digest=digest,
        reason=f"changes asked: {word.comment}"[:MAX_REASON_CHARS],
        actor=word.actor,
        at=heard.clock,
        book=book,
    )
    return _receipt(decided, task), task


def _too_late(hearing: ApprovalHearing) -> Refusal | None:
    if not hearing.is_late:
        return None
    expire(hearing)
    return over(hearing, ApprovalState.EXPIRED)


def _not_so(hearing: ApprovalHearing, book: EffectBook) -> Refusal | None:
    """Why this task can't be done anew as if nothing had happened."""
    task = hearing.heard.task
    out, happened = book.reconcile_first(task), book.happened(task)
    if out is not None:
        return hearing.refuse(out)
    if happened:
        names = ", ".join(f"`{row.slot}`" for row in happened)
        told = (
            f"{names} of this task has happened; done anew it would happen again."
            " Reject it, and revise the task by hand with what is left to do."
        )
        extra: dict[str, Any] = {"effects": [brief(row) for row in happened]}
        return hearing.refuse(Refusal(Outcome.ALREADY_COMMITTED, told, extra=extra))
    if task.state != TaskState.AWAITING_APPROVAL:
        told = f"The task is {task.state}: it waits for no approval any more."
        extra = {"state": task.state, "version": hearing.standing.version}
        return hearing.refuse(Refusal(Outcome.STATE_VERSION_MISMATCH, told, extra=extra))
    return None


def _receipt(decided: Decided, task: TaskRow) -> ChangesAsked:
    (rows,) = run_round(Statement(_SUCCESSOR, (task.task_id,)))
    task_id, revision = rows[0]
    return ChangesAsked(
        approval_id=decided.approval_id,
        state=decided.state,
        reason_code=decided.reason_code or "",
        task_id=task_id,
        supersedes=task.task_id,
        revision=revision,
        decisions=decided.decisions,
        replayed=decided.replayed,
    )
