"""Passing a request on: whose turn it is. It never changes who may decide (contract 9)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement
from coordinator.selectors.deciders import who_may_decide
from coordinator.states import ApprovalState

from .approval_hearings import (
    ApprovalHearing,
    effect_of,
    expire,
    open_approval,
    over,
    submitted_it,
)
from .approvals import not_a_person
from .events import EventKind
from .texts import check_reason
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Passed:
    """Whose turn it is now; `replayed` where the same person had passed it to the same one already."""

    approval_id: UUID
    state: str
    assigned_to: str
    assigned_by: str
    assigned_at: datetime
    replayed: bool = False


def pass_approval(
    *,
    approval_id: UUID,
    to: str,
    reason: str,
    actor: Actor,
    expected_assignee: str | None = None,
) -> Passed | Refusal:
    """Say whose turn it is: somebody who may decide on it by themselves, and has not yet.

    Everybody else who may decide still can. Never by whoever submitted the run (FORBIDDEN).
    Refused: INVALID (`to` may not decide here), ALREADY_SETTLED, NOT_FOUND, STATE_VERSION_MISMATCH
    where `expected_assignee` (empty: nobody) is not whose turn it was.
    """
    refusal = not_a_person(actor)
    if refusal is not None:
        return refusal
    faults = check_reason(reason)
    if faults:
        return invalid(*faults)
    return _pass(approval_id, to, reason, actor, expected_assignee)


_ASSIGN: Final = """
UPDATE coordinator_approval SET assignee_id = %s, assigned_by = %s, assigned_at = %s, assigned_note = %s
WHERE approval_id = %s
"""


@in_transaction
def _pass(
    approval_id: UUID, to: str, reason: str, actor: Actor, expected: str | None
) -> Passed | Refusal:
    hearing = open_approval(approval_id, effect_of(approval_id), actor=actor)
    if hearing is None:
        return not_found("approval")
    heard = hearing.heard
    refusal = _refusal(hearing, actor, to, expected)
    if refusal is not None:
        heard.write()
        return refusal
    if hearing.assignee == to and hearing.assigned_by == actor.label:
        return _passed(hearing, to, actor, replayed=True)
    person = (
        who_may_decide(submitted_by=hearing.submitted_by, decided=hearing.deciders)
        .filter(username=to)
        .first()
    )
    if person is None:
        told = (
            f"`{to}` may not decide on this. It takes somebody active who may approve and see payloads,"
            " and has neither submitted the run nor decided yet."
        )
        return invalid(FieldError("/to", told))
    heard.tell(
        EventKind.APPROVAL_PASSED,
        approval_id=approval_id,
        **{"from": hearing.assignee, "to": to},
        reason=reason,
    )
    row = (person.pk, actor.label, heard.clock, reason, approval_id)
    heard.write(Statement(_ASSIGN, row))
    return _passed(hearing, to, actor)


def _refusal(
    hearing: ApprovalHearing, actor: Actor, to: str, expected: str | None
) -> Refusal | None:
    if hearing.submitted_by == actor.label:
        return hearing.refuse(submitted_it())
    if hearing.is_over:
        return over(hearing)
    if hearing.is_late:
        expire(hearing)
        return over(hearing, ApprovalState.EXPIRED)
    again = hearing.assignee == to and hearing.assigned_by == actor.label
    if expected is None or again or expected == (hearing.assignee or ""):
        return None
    whose = f"`{hearing.assignee}`'s" if hearing.assignee else "nobody's in particular"
    return hearing.refuse(
        Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"It has been passed on since you looked: it is {whose} turn now.",
            evidence_recorded=True,
            extra={"assigned_to": hearing.assignee},
        )
    )


def _passed(hearing: ApprovalHearing, to: str, actor: Actor, *, replayed: bool = False) -> Passed:
    at = hearing.assigned_at if replayed and hearing.assigned_at else hearing.heard.clock
    standing = hearing.standing
    return Passed(standing.approval_id, standing.state, to, actor.label, at, replayed)
