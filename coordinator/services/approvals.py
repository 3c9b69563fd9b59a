"""Approvals: people decide on one exact payload, and one grant allows one dispatch, ever (contract 9)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor, ActorKind
from coordinator.fence import TaskRow
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, run_round
from coordinator.states import ApprovalState, RejectionCode, Replay, TaskState

from . import hints, settlements
from .approval_hearings import (
    ApprovalHearing,
    Decided,
    DecisionMade,
    Word,
    decide,
    effect_of,
    expire,
    failed,
    moved_on,
    open_approval,
    over,
    ready_again,
    refused_before,
)
from .events import EventKind, Fact
from .transactions import in_transaction

__all__ = [
    "Decided",
    "DecisionMade",
    "approve",
    "expire_approvals",
    "not_a_person",
    "reject",
    "void_approvals",
]

MIN_REASON_CHARS: Final = 3
EXPIRE_BATCH: Final = 200


def approve(
    *,
    approval_id: UUID,
    payload_digest: str,
    actor: Actor,
    comment: str = "",
    expected_version: int | None = None,
) -> Decided | Refusal:
    """Approve the exact payload with this digest. The task goes on once enough people have.

    Never the person who submitted the run (FORBIDDEN, four eyes). Refused: PAYLOAD_CONFLICT
    (another digest than the bound one), ALREADY_SETTLED (with who decided what), NOT_FOUND,
    STATE_VERSION_MISMATCH (`expected_version`, the decisions that were seen, no longer holds:
    the first of two words and the last one have different consequences).
    A second decision by the same person changes nothing.
    """
    return _say(approval_id, Word(actor, True, payload_digest, comment, expected_version))


def reject(
    *,
    approval_id: UUID,
    payload_digest: str,
    reason: str,
    actor: Actor,
    expected_version: int | None = None,
    code: RejectionCode = RejectionCode.OTHER,
) -> Decided | Refusal:
    """Reject it: the task fails with the reason; `code` says why in one word. Refused as `approve` is."""
    if len(reason.strip()) < MIN_REASON_CHARS:
        return invalid(FieldError("/reason", "Say why; the task fails with this reason."))
    if code is RejectionCode.CHANGES_ASKED:
        told = "Ask for changes instead: then the task goes back to the agent and does not fail."
        return invalid(FieldError("/reason_code", told))
    return _say(approval_id, Word(actor, False, payload_digest, reason, expected_version, code))


def not_a_person(actor: Actor) -> Refusal | None:
    if actor.kind is ActorKind.OPERATOR:
        return None
    told = "Only a person approves or rejects; a worker's credential never does."
    return Refusal(Outcome.FORBIDDEN, told)


def _say(approval_id: UUID, word: Word) -> Decided | Refusal:
    refusal = not_a_person(word.actor)
    if refusal is not None:
        return refusal
    answer, task = _decide(approval_id, word)
    if isinstance(answer, Decided) and not answer.replayed and task is not None:
        if answer.state == ApprovalState.APPROVED:
            hints.notify(task.queue_id)
        elif answer.state == ApprovalState.REJECTED:
            settlements.settle_runs([task.run_id])
    return answer


@in_transaction
def _decide(approval_id: UUID, word: Word) -> tuple[Decided | Refusal, TaskRow | None]:
    hearing = open_approval(approval_id, effect_of(approval_id), actor=word.actor)
    if hearing is None:
        return not_found("approval"), None
    heard = hearing.heard
    before = refused_before(hearing, word)
    if before is None and hearing.is_late:
        expire(hearing)
        before = over(hearing, ApprovalState.EXPIRED)
    before = before or moved_on(hearing, word)
    if before is not None:
        heard.write()
        return before, None
    answer, statements = decide(hearing, word)
    heard.write(*statements, *_task_after(hearing, answer.state, word))
    return answer, heard.task


def _task_after(hearing: ApprovalHearing, state: str, word: Word) -> list[Statement]:
    """Approved: READY, to be claimed and accepted again. Rejected: FAILED, with the reason."""
    heard = hearing.heard
    if state == ApprovalState.PENDING or heard.task.state != TaskState.AWAITING_APPROVAL:
        return []
    if state == ApprovalState.REJECTED:
        return failed(heard, f"rejected: {word.comment}")
    return ready_again(heard, "approved")


_DUE: Final = """
SELECT approval_id, effect_id FROM coordinator_approval
WHERE state IN ('PENDING', 'APPROVED') AND expires_at <= clock_timestamp() ORDER BY expires_at LIMIT %s
"""


def expire_approvals(*, actor: Actor, limit: int = EXPIRE_BATCH) -> int:
    """Expire requests and grants past their time; a parked task goes back to READY. How many expired."""
    due = _due(limit)
    return sum(_expire_one(approval_id, effect_id, actor) for approval_id, effect_id in due)


@in_transaction
def _due(limit: int) -> list[tuple[Any, ...]]:
    (rows,) = run_round(Statement(_DUE, (limit,)))
    return rows


@in_transaction
def _expire_one(approval_id: UUID, effect_id: str, actor: Actor) -> int:
    hearing = open_approval(approval_id, effect_id, actor=actor)
    if hearing is None:
        return 0
    is_open = hearing.standing.state in (ApprovalState.PENDING, ApprovalState.APPROVED)
    if not is_open or not hearing.is_late:
        return 0  # decided, or consumed, since the look
    expire(hearing)
    return 1


_VOID: Final = """
UPDATE coordinator_approval a SET state = 'VOID', ended_at = %s, end_reason = %s FROM coordinator_effectslot e
WHERE e.effect_id = a.effect_id AND e.task_id = ANY(%s::uuid[]) AND a.state = ANY(%s::text[])
RETURNING a.approval_id, a.effect_id
"""


def void_approvals(
    tasks: Sequence[TaskRow], *, clock: datetime, reason: str, granted_too: bool = True
) -> list[Fact]:
    """Void what was asked, and (but for a bump) granted, for these locked tasks; the facts to record."""
    by_id = {task.task_id: task for task in tasks if task.replay != Replay.READ_ONLY}
    if not by_id:
        return []
    states = [ApprovalState.PENDING, *([ApprovalState.APPROVED] if granted_too else [])]
    (rows,) = run_round(
        Statement(_VOID, (clock, reason, list(by_id), [str(state) for state in states]))
    )
    return [
        Fact(
            EventKind.APPROVAL_VOID,
            data={"approval_id": str(row[0]), "effect_id": row[1], "reason": reason},
        )
        for row in rows
    ]
