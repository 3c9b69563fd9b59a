"""Who is asking, and what they may do. Decided here on the server; pages only show it (contract 15)."""

from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.actors import Actor, ActorKind

#: The roles that have a permission by default, for the sentence that says who can.
_WHO_CAN: Final = {
    "view": gettext_lazy("viewers, approvers, operators and admins"),
    "view_payload": gettext_lazy("approvers, operators and admins"),
    "reveal_secrets": gettext_lazy("approvers and admins"),
    "cancel": gettext_lazy("operators and admins"),
    "reconcile": gettext_lazy("approvers, operators and admins"),
    "operate_incidents": gettext_lazy("operators and admins"),
    "administer": gettext_lazy("admins"),
    "approve": gettext_lazy("approvers and admins"),
    "assert_absence": gettext_lazy("admins"),
    "bump_epoch": gettext_lazy("operators and admins"),
}
_WHAT: Final = {
    "view": gettext_lazy("see queues, runs, tasks, attempts and events"),
    "view_payload": gettext_lazy("see inputs, results and payloads"),
    "reveal_secrets": gettext_lazy("reveal masked values"),
    "cancel": gettext_lazy("cancel, revise and reopen tasks"),
    "reconcile": gettext_lazy("settle effects whose outcome nobody knows"),
    "operate_incidents": gettext_lazy("stop and open intake"),
    "administer": gettext_lazy("manage queues, pools, downstreams, credentials and people"),
    "approve": gettext_lazy("approve or reject payloads"),
    "assert_absence": gettext_lazy("assert without proof that an effect did not happen"),
    "bump_epoch": gettext_lazy("raise a queue's epoch"),
}


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether a person may do something now; if not, `why` is the sentence that the page shows."""

    allowed: bool
    why: str = ""

    def __bool__(self) -> bool:
        return self.allowed


def permit(request: HttpRequest, permission: str) -> Permit:
    """`permission` is a codename of contract 15, such as `cancel`."""
    if request.user.has_perm(f"coordinator.{permission}"):
        return Permit(True)
    return Permit(
        False,
        _("You may not %(what)s. Roles that may: %(who)s.")
        % {"what": _WHAT[permission], "who": _WHO_CAN[permission]},
    )


def actor_of(request: HttpRequest) -> Actor:
    """The signed-in person, as events name them."""
    return Actor(
        kind=ActorKind.OPERATOR,
        name=request.user.get_username(),
        id=request.user.pk or 0,
        request_id=getattr(request, "request_id", ""),
        address=request.META.get("REMOTE_ADDR", ""),
    )
