"""An approval, heard: its task, its effect and itself locked, with everybody's word so far (contract 4, 9)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor, system
from coordinator.fence import Point, TaskRow
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import Statement, run_round
from coordinator.states import ApprovalState, RejectionCode, TaskState

from .effect_hearings import EffectHearing, open_effect
from .events import EventKind, task_fact
from .holds import Freed, end_holds, free_tasks, redirected, waiting_fact


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
    reason_code: str | None = None

    @property
    def version(self) -> int:
        """How many people have had their word: what a decision may be bound to."""
        return len(self.decisions)


@dataclass(frozen=True, slots=True)
class Word:
    """What a person says. `code` says in one word why something is rejected."""

    actor: Actor
    approves: bool
    payload_digest: str
    comment: str
    expected_version: int | None = None
    code: RejectionCode | None = None

    @property
    def decision(self) -> str:
        return "APPROVED" if self.approves else "REJECTED"


_EFFECT_OF: Final = "SELECT effect_id FROM coordinator_approval WHERE approval_id = %s"
_LOCK: Final = """
SELECT a.state, a.reason_code, a.payload_digest, a.required_approvers, a.expires_at, r.submitted_by, a.assignee_id,
       a.assigned_by, a.assigned_at, u.username
FROM coordinator_approval a JOIN coordinator_effectslot e ON e.effect_id = a.effect_id
     JOIN coordinator_task t ON t.task_id = e.task_id JOIN coordinator_run r ON r.id = t.run_id
     LEFT JOIN auth_user u ON u.id = a.assignee_id
WHERE a.approval_id = %s FOR UPDATE OF a
"""
_DECISIONS: Final = """
SELECT u.username, d.decision, d.comment, d.payload_digest_seen, d.at, d.operator_id
FROM coordinator_decision d JOIN auth_user u ON u.id = d.operator_id WHERE d.approval_id = %s ORDER BY d.id
"""


@dataclass(frozen=True, slots=True)
class ApprovalHearing:
    """What was found under the locks. `deciders` are the ids of who has decided, in that order."""

    heard: EffectHearing
    standing: Decided
    payload_digest: str
    expires_at: datetime
    submitted_by: str
    deciders: Sequence[int]
    assignee_id: int | None
    assignee: str | None
    assigned_by: str | None
    assigned_at: datetime | None

    @property
    def is_over(self) -> bool:
        return self.standing.state != ApprovalState.PENDING

    @property
    def is_late(self) -> bool:
        """Its time has passed, whether or not a sweep has written that down."""
        return self.heard.clock >= self.expires_at

    def refuse(self, refusal: Refusal) -> Refusal:
        """Recorded with whatever else is written; nothing changes."""
        return self.heard.refuse(refusal)


def effect_of(approval_id: UUID) -> str | None:
    (rows,) = run_round(Statement(_EFFECT_OF, (approval_id,)))
    return rows[0][0] if rows else None


def open_approval(
    approval_id: UUID, effect_id: str | None, *, actor: Actor
) -> ApprovalHearing | None:
    """Lock the approval under its task and effect; None where there is no such one."""
    heard = effect_id and open_effect(
        effect_id,
        Point.ACCEPT,
        actor=actor,
        extra=(Statement(_LOCK, (approval_id,)), Statement(_DECISIONS, (approval_id,))),
    )
    if not heard:
        return None
    locked, said = heard.extra
    state, code, digest, required, expires_at, submitted_by, *assigned = locked[0]
    decisions = [DecisionMade(*row[:5]) for row in said]
    assignee_id, assigned_by, assigned_at, assignee = assigned
    return ApprovalHearing(
        heard=heard,
        standing=Decided(approval_id, state, required, decisions, reason_code=code),
        payload_digest=digest,
        expires_at=expires_at,
        submitted_by=submitted_by,
        deciders=[row[5] for row in said],
        assignee_id=assignee_id,
        assignee=assignee,
        assigned_by=assigned_by,
        assigned_at=assigned_at,
    )


def refused_before(hearing: ApprovalHearing, word: Word) -> Decided | Refusal | None:
    """What is answered without a new decision: four eyes, other bytes, said before, or over."""
    standing = hearing.standing
    if hearing.submitted_by == word.actor.label:
        return hearing.refuse(submitted_it())
    if word.payload_digest != hearing.payload_digest:
        return hearing.refuse(
            Refusal(
                Outcome.PAYLOAD_CONFLICT,
                "You saw another payload than the one that is bound; look at it again.",
                evidence_recorded=True,
                extra={"payload_digest": hearing.payload_digest},
            )
        )
    if word.actor.id in hearing.deciders:
        return replace(standing, replayed=True) if _said_so(hearing, word) else over(hearing)
    return over(hearing) if hearing.is_over else None


def _said_so(hearing: ApprovalHearing, word: Word) -> bool:
    """Whether this person has said just this already. Asking for changes is no plain rejection."""
    standing = hearing.standing
    mine = standing.decisions[list(hearing.deciders).index(word.actor.id)]
    if mine.decision != word.decision:
        return False
    asked_then = standing.reason_code == RejectionCode.CHANGES_ASKED
    return word.approves or asked_then == (word.code == RejectionCode.CHANGES_ASKED)


def submitted_it() -> Refusal:
    return Refusal(
        Outcome.FORBIDDEN,
        "You submitted this run; somebody else must decide.",
        evidence_recorded=True,
    )


def moved_on(hearing: ApprovalHearing, word: Word) -> Refusal | None:
    """Somebody has decided since the person looked: their word would have another consequence now."""
    standing = hearing.standing
    if word.expected_version in (None, standing.version):
        return None
    return hearing.refuse(
        Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            "Somebody has decided since you looked; look again.",
            evidence_recorded=True,
            extra={"version": standing.version, "decisions": standing.decisions},
        )
    )


def over(hearing: ApprovalHearing, state: str | None = None) -> Refusal:
    """It is decided, or its time has passed: who decided what."""
    standing = hearing.standing
    told = (
        "; ".join(f"{each.operator}: {each.decision}" for each in standing.decisions)
        or "nobody decided in time"
    )
    return hearing.refuse(
        Refusal(
            Outcome.ALREADY_SETTLED,
            f"The approval is {state or standing.state} ({told}).",
            evidence_recorded=True,
            extra={"state": state or standing.state, "decisions": standing.decisions},
        )
    )


_INSERT_DECISION: Final = """
INSERT INTO coordinator_decision (approval_id, operator_id, decision, comment, payload_digest_seen, at)
VALUES (%s, %s, %s, %s, %s, %s)
"""
_SET_STATE: Final = """
UPDATE coordinator_approval SET state = %s, ended_at = CASE WHEN %s = 'APPROVED' THEN NULL ELSE %s::timestamptz END,
  end_reason = %s, reason_code = %s
WHERE approval_id = %s
"""


def decide(hearing: ApprovalHearing, word: Word) -> tuple[Decided, list[Statement]]:
    """How it stands after this word, and the statements that write it; the fact is told."""
    standing, heard = hearing.standing, hearing.heard
    made = DecisionMade(
        word.actor.name, word.decision, word.comment, word.payload_digest, heard.clock
    )
    decisions = [*standing.decisions, made]
    state = _state_after(word, standing, decisions)
    code = None if word.approves else word.code or RejectionCode.OTHER
    told: dict[str, Any] = {"reason_code": code} if code else {}
    heard.tell(
        EventKind.APPROVAL_DECIDED,
        approval_id=standing.approval_id,
        decision=word.decision,
        comment=word.comment,
        payload_digest_seen=word.payload_digest,
        state=state,
        **told,
    )
    row = (
        standing.approval_id,
        word.actor.id,
        word.decision,
        word.comment,
        word.payload_digest,
        heard.clock,
    )
    statements = [Statement(_INSERT_DECISION, row)]
    if state != ApprovalState.PENDING:
        why = None if word.approves else word.comment
        ended = (state, state, heard.clock, why, code, standing.approval_id)
        statements.append(Statement(_SET_STATE, ended))
    after = Decided(
        standing.approval_id, state, standing.required_approvers, decisions, reason_code=code
    )
    return after, statements


def _state_after(word: Word, standing: Decided, decisions: Sequence[DecisionMade]) -> ApprovalState:
    if not word.approves:
        return ApprovalState.REJECTED
    enough = len(decisions) >= standing.required_approvers
    return ApprovalState.APPROVED if enough else ApprovalState.PENDING


def ready_again(heard: EffectHearing, reason: str) -> list[Statement]:
    """The parked task goes back to READY, or waits on if something of it may be out (contract 7)."""
    task, clock = heard.task, heard.clock
    ends = end_holds([task], clock)
    (freed,) = redirected([Freed(task, TaskState.READY, clock)], ends)
    waits = freed.state == TaskState.AWAITING_RECONCILIATION
    fact = waiting_fact(task, ends) if waits else task_fact(EventKind.SETTLED, task, reason=reason)
    heard.facts += [*ends.facts, fact]
    return free_tasks([freed], ends, clock)


def failed(heard: EffectHearing, reason: str) -> list[Statement]:
    """The parked task FAILS with the reason."""
    task: TaskRow = heard.task
    heard.facts.append(task_fact(EventKind.FAILED, task, reason=reason))
    ends = end_holds([task], heard.clock)  # another effect may be out: it keeps the serial key
    return free_tasks([Freed(task, TaskState.FAILED)], ends, heard.clock)


def expire(hearing: ApprovalHearing) -> None:
    """Time ends it, not whoever came too late: the event names the system."""
    heard, approval_id = hearing.heard, hearing.standing.approval_id
    heard.tell(EventKind.APPROVAL_EXPIRED, approval_id=approval_id)
    told = "nobody decided in time"
    state = ApprovalState.EXPIRED
    statements = [Statement(_SET_STATE, (state, state, heard.clock, told, None, approval_id))]
    if heard.task.state == TaskState.AWAITING_APPROVAL:
        statements += ready_again(heard, told)
    heard.write(*statements, actor=system("approvals"))
    heard.facts.clear()
