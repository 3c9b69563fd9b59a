"""Approvals: people decide on one exact payload, and one grant allows one dispatch, ever (contract 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor, ActorKind, system
from coordinator.fence import Point, TaskRow
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, run_round
from coordinator.states import ApprovalState, Replay, TaskState

from . import hints, settlements
from .effect_hearings import EffectHearing, open_effect
from .events import EventKind, Fact, task_fact
from .holds import Freed, end_holds, free_tasks, redirected, waiting_fact
from .transactions import in_transaction

MIN_REASON_CHARS: Final = 3
EXPIRE_BATCH: Final = 200


@dataclass(frozen=True, slots=True)
class DecisionMade:
    operator: str
    decision: str
    comment: str
    payload_digest_seen: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Decided:
    """How the approval stands after a decision; `replayed` where this person had decided already."""

    approval_id: UUID
    state: str
    required_approvers: int
    decisions: list[DecisionMade] = field(default_factory=list)
    replayed: bool = False

    @property
    def version(self) -> int:
        """How many people have had their word: what a decision may be bound to."""
        return len(self.decisions)


@dataclass(frozen=True, slots=True)
class _Word:
    """What a person says."""

    actor: Actor
    approves: bool
    payload_digest: str
    comment: str
    expected_version: int | None = None

    @property
    def decision(self) -> str:
        return "APPROVED" if self.approves else "REJECTED"


_EFFECT_OF: Final = "SELECT effect_id FROM coordinator_approval WHERE approval_id = %s"
_LOCK: Final = """
SELECT a.state, a.payload_digest, a.required_approvers, a.expires_at, r.submitted_by
FROM coordinator_approval a JOIN coordinator_effectslot e ON e.effect_id = a.effect_id
     JOIN coordinator_task t ON t.task_id = e.task_id JOIN coordinator_run r ON r.id = t.run_id
WHERE a.approval_id = %s FOR UPDATE OF a
"""
_DECISIONS: Final = """
SELECT u.username, d.decision, d.comment, d.payload_digest_seen, d.at, d.operator_id
FROM coordinator_decision d JOIN auth_user u ON u.id = d.operator_id WHERE d.approval_id = %s ORDER BY d.id
"""


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
    return _say(approval_id, _Word(actor, True, payload_digest, comment, expected_version))


def reject(
    *,
    approval_id: UUID,
    payload_digest: str,
    reason: str,
    actor: Actor,
    expected_version: int | None = None,
) -> Decided | Refusal:
    """Reject it: the task fails with the reason. Refused as `approve` is."""
    if len(reason.strip()) < MIN_REASON_CHARS:
        return invalid(FieldError("/reason", "Say why; the task fails with this reason."))
    return _say(approval_id, _Word(actor, False, payload_digest, reason, expected_version))


def _say(approval_id: UUID, word: _Word) -> Decided | Refusal:
    if word.actor.kind is not ActorKind.OPERATOR:
        return Refusal(
            Outcome.FORBIDDEN,
            "Only a person approves or rejects; a worker's credential never does.",
        )
    answer, task = _decide(approval_id, word)
    if isinstance(answer, Decided) and not answer.replayed and task is not None:
        if answer.state == ApprovalState.APPROVED:
            hints.notify(task.queue_id)
        elif answer.state == ApprovalState.REJECTED:
            settlements.settle_runs([task.run_id])
    return answer


@in_transaction
def _decide(approval_id: UUID, word: _Word) -> tuple[Decided | Refusal, TaskRow | None]:
    (effects,) = run_round(Statement(_EFFECT_OF, (approval_id,)))
    hearing = effects and open_effect(
        effects[0][0],
        Point.ACCEPT,
        actor=word.actor,
        extra=(Statement(_LOCK, (approval_id,)), Statement(_DECISIONS, (approval_id,))),
    )
    if not hearing:
        return not_found("approval"), None
    locked, rows = hearing.extra
    state, digest, required, expires_at, submitted_by = locked[0]
    decisions = [DecisionMade(*row[:5]) for row in rows]
    standing = Decided(approval_id, state, required, decisions)
    deciders = [row[5] for row in rows]
    before = _before(
        hearing, word, standing, digest=digest, submitted_by=submitted_by, deciders=deciders
    )
    if before is not None:
        hearing.write()
        return before, None
    if hearing.clock >= expires_at:
        _expire(hearing, approval_id)
        over = _over(hearing, standing, ApprovalState.EXPIRED)
        hearing.write()
        return over, None
    if word.expected_version not in (None, standing.version):
        moved_on = _moved_on(hearing, standing)
        hearing.write()
        return moved_on, None
    return _write(hearing, approval_id, word, standing), hearing.task


def _before(
    hearing: EffectHearing,
    word: _Word,
    standing: Decided,
    *,
    digest: str,
    submitted_by: str,
    deciders: Sequence[int],
) -> Decided | Refusal | None:
    """What is answered without a new decision: four eyes, other bytes, said before, or over."""
    if submitted_by == word.actor.label:
        return hearing.refuse(
            Refusal(
                Outcome.FORBIDDEN,
                "You submitted this run; somebody else must decide.",
                evidence_recorded=True,
            )
        )
    if word.payload_digest != digest:
        return hearing.refuse(
            Refusal(
                Outcome.PAYLOAD_CONFLICT,
                "You saw another payload than the one that is bound; look at it again.",
                evidence_recorded=True,
                extra={"payload_digest": digest},
            )
        )
    if word.actor.id in deciders:
        mine = standing.decisions[list(deciders).index(word.actor.id)]
        same = mine.decision == word.decision
        return _replayed(standing) if same else _over(hearing, standing, standing.state)
    if standing.state != ApprovalState.PENDING:
        return _over(hearing, standing, standing.state)
    return None


def _moved_on(hearing: EffectHearing, standing: Decided) -> Refusal:
    return hearing.refuse(
        Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            "Somebody has decided since you looked; look again.",
            evidence_recorded=True,
            extra={"version": standing.version, "decisions": standing.decisions},
        )
    )


def _replayed(standing: Decided) -> Decided:
    return Decided(
        standing.approval_id,
        standing.state,
        standing.required_approvers,
        standing.decisions,
        replayed=True,
    )


def _over(hearing: EffectHearing, standing: Decided, state: str) -> Refusal:
    told = (
        "; ".join(f"{each.operator}: {each.decision}" for each in standing.decisions)
        or "nobody decided in time"
    )
    return hearing.refuse(
        Refusal(
            Outcome.ALREADY_SETTLED,
            f"The approval is {state} ({told}).",
            evidence_recorded=True,
            extra={"state": state, "decisions": standing.decisions},
        )
    )


_INSERT_DECISION: Final = """
INSERT INTO coordinator_decision (approval_id, operator_id, decision, comment, payload_digest_seen, at)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_SET_STATE: Final = """
UPDATE coordinator_approval SET state = %s, ended_at = CASE WHEN %s = 'APPROVED' THEN NULL ELSE %s::timestamptz END,
  end_reason = %s
WHERE approval_id = %s
"""


def _write(hearing: EffectHearing, approval_id: UUID, word: _Word, standing: Decided) -> Decided:
    made = DecisionMade(
        word.actor.name, word.decision, word.comment, word.payload_digest, hearing.clock
    )
    decisions = [*standing.decisions, made]
    state = _state_after(word, standing, decisions)
    hearing.tell(
        EventKind.APPROVAL_DECIDED,
        approval_id=approval_id,
        decision=word.decision,
        comment=word.comment,
        payload_digest_seen=word.payload_digest,
        state=state,
    )
    decision = (
        approval_id,
        word.actor.id,
        word.decision,
        word.comment,
        word.payload_digest,
        hearing.clock,
    )
    statements = [Statement(_INSERT_DECISION, decision)]
    if state != ApprovalState.PENDING:
        reason = None if word.approves else word.comment
        statements.append(Statement(_SET_STATE, (state, state, hearing.clock, reason, approval_id)))
        statements += _task_after(hearing, state, word)
    hearing.write(*statements)
    return Decided(approval_id, state, standing.required_approvers, decisions)


def _state_after(
    word: _Word, standing: Decided, decisions: Sequence[DecisionMade]
) -> ApprovalState:
    if not word.approves:
        return ApprovalState.REJECTED
    enough = len(decisions) >= standing.required_approvers
    return ApprovalState.APPROVED if enough else ApprovalState.PENDING


def _task_after(hearing: EffectHearing, state: ApprovalState, word: _Word) -> list[Statement]:
    """Approved: READY, to be claimed and accepted again. Rejected: FAILED, with the reason."""
    task = hearing.task
    if task.state != TaskState.AWAITING_APPROVAL:
        return []
    if state == ApprovalState.REJECTED:
        hearing.facts.append(task_fact(EventKind.FAILED, task, reason=f"rejected: {word.comment}"))
        ends = end_holds(
            [task], hearing.clock
        )  # another effect may be out: it keeps the serial key
        return free_tasks([Freed(task, TaskState.FAILED)], ends, hearing.clock)
    return ready_again(hearing, "approved")


def ready_again(hearing: EffectHearing, reason: str) -> list[Statement]:
    """The parked task goes back to READY, or waits on if something of it may be out (contract 7)."""
    task, clock = hearing.task, hearing.clock
    ends = end_holds([task], clock)
    (freed,) = redirected([Freed(task, TaskState.READY, clock)], ends)
    waits = freed.state == TaskState.AWAITING_RECONCILIATION
    fact = waiting_fact(task, ends) if waits else task_fact(EventKind.SETTLED, task, reason=reason)
    hearing.facts += [*ends.facts, fact]
    return free_tasks([freed], ends, clock)


def _expire(hearing: EffectHearing, approval_id: UUID) -> None:
    """Time ends it, not whoever came too late: the event names the system."""
    hearing.tell(EventKind.APPROVAL_EXPIRED, approval_id=approval_id)
    told = "nobody decided in time"
    state = ApprovalState.EXPIRED
    statements = [Statement(_SET_STATE, (state, state, hearing.clock, told, approval_id))]
    if hearing.task.state == TaskState.AWAITING_APPROVAL:
        statements += ready_again(hearing, told)
    hearing.write(*statements, actor=system("approvals"))
    hearing.facts.clear()


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
    hearing = open_effect(
        effect_id, Point.ACCEPT, actor=actor, extra=(Statement(_LOCK, (approval_id,)),)
    )
    if hearing is None:
        return 0
    state, _, _, expires_at, _ = hearing.extra[0][0]
    if state not in (ApprovalState.PENDING, ApprovalState.APPROVED) or expires_at > hearing.clock:
        return 0  # decided, or consumed, since the look
    _expire(hearing, approval_id)
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
