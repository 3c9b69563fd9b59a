"""How an approval stands, as a fact: who said what, or that nobody did (console design, rule 6).

The word on the chip says what came of it; the contract's own state is named beside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from console.visible import masked
from coordinator.selectors.console_approval import Bound, DecisionMade
from coordinator.states import ApprovalState, RejectionCode, TaskState

SUPERSEDED, WITHDRAWN, EXECUTION_EXPIRED = "SUPERSEDED", "WITHDRAWN", "EXECUTION_EXPIRED"
CHANGES_ASKED: Final = str(RejectionCode.CHANGES_ASKED)

_TONES: Final = {
    ApprovalState.PENDING: "approval",
    ApprovalState.APPROVED: "commit",
    ApprovalState.CONSUMED: "commit",
    ApprovalState.REJECTED: "failed",
    CHANGES_ASKED: "prepared",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """`word` for the chip, `told` for the sentence; `open` while somebody may still decide."""

    word: str
    tone: str
    told: str = ""

    @property
    def open(self) -> bool:
        return self.word == ApprovalState.PENDING


def word_of(
    state: str,
    *,
    expires_at: datetime,
    now: datetime,
    given: int,
    required: int,
    replaced: bool,
    code: str | None,
) -> str:
    """A request whose time has passed is EXPIRED whether or not a sweep has written it down yet."""
    enough = given >= required
    match state:
        case ApprovalState.VOID:
            return SUPERSEDED if replaced else WITHDRAWN
        case ApprovalState.EXPIRED:
            return EXECUTION_EXPIRED if enough else str(ApprovalState.EXPIRED)
        case ApprovalState.PENDING if expires_at <= now:
            return str(ApprovalState.EXPIRED)
        case ApprovalState.REJECTED if code == CHANGES_ASKED:
            return CHANGES_ASKED
        case ApprovalState.APPROVED if expires_at <= now:
            return EXECUTION_EXPIRED
        case _:
            return state


def standing_of(approval: Bound, now: datetime) -> Standing:
    given = sum(1 for each in approval.decisions if each.decision == "APPROVED")
    word = word_of(
        approval.state,
        expires_at=approval.expires_at,
        now=now,
        given=given,
        required=approval.required_approvers,
        replaced=approval.task_state == TaskState.SUPERSEDED,
        code=approval.reason_code,
    )
    return Standing(word, _TONES.get(word, "expired"), _told(word, approval))


def _told(word: str, approval: Bound) -> str:
    who = _names(approval.decisions)
    match word:
        case ApprovalState.PENDING:
            return ""
        case ApprovalState.APPROVED:
            return _(
                "%(who)s approved it. A worker may send it once, until the grant runs out."
            ) % {"who": who}
        case ApprovalState.CONSUMED:
            return _("%(who)s approved it, and a worker has used the grant for one dispatch.") % {
                "who": who
            }
        case _ if word == CHANGES_ASKED:
            return _(
                "%(who)s asked for changes: the task went back to the agent, and nothing was sent."
            ) % {"who": who}
        case ApprovalState.REJECTED:
            return _("%(who)s rejected it: the task is FAILED with this reason.") % {"who": who}
        case _ if word == EXECUTION_EXPIRED:
            return _("%(who)s approved it, but no worker sent it in time. Nothing was sent.") % {
                "who": who
            }
        case ApprovalState.EXPIRED if approval.decisions:
            return _("Not enough people answered in time: %(who)s. Nothing was sent.") % {
                "who": who
            }
        case ApprovalState.EXPIRED:
            return _("Nobody answered in time. Nothing was sent; the next worker asks anew.")
        case _ if word == SUPERSEDED:
            return _(
                "The task was revised, so its payload is another one. Votes for this one are void."
            )
        case _:
            return _("It was withdrawn: %(why)s. Nothing was sent.") % {
                "why": masked(approval.end_reason or "—")
            }


def _names(decisions: Sequence[DecisionMade]) -> str:
    return ", ".join(each.operator for each in decisions) or "—"
