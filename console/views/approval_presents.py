"""`/approvals/<id>/present`: what is there now, where the payload would be written, as its downstream tells."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.pages import forbid, page, refuse, shell_of
from console.people import actor_of, permit
from console.presents import presenter_of
from console.standings import standing_of
from console.views.approval_inbox import may_decide
from console.views.approvals import changed
from coordinator.outcomes import Refusal
from coordinator.selectors import console_approval
from coordinator.services.present_states import look_at_present


@page(methods=("POST",))
def look(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """The server asks; what was told is evidence, and decides nothing. 409 where the request is over."""
    bound = console_approval.read_approval(
        approval_id, with_payload=bool(permit(request, "view_payload"))
    )
    if bound is None:
        return refuse(request, 404, {"what": str(approval_id)})
    allowed = may_decide(request)
    if not allowed:
        return forbid(request, allowed, "look_at_present")
    if not standing_of(bound, shell_of(request).now).open:
        return changed(request, bound, {"shown_state": request.POST.get("shown_state", "")}, None)
    adapter = presenter_of(bound)
    if adapter is None:
        told = _("No registered adapter can tell what is there now.")
        return refuse(request, 409, {"detail": told, "back": _page_of(bound.approval_id)})
    answer = look_at_present(effect_id=bound.effect_id, adapter=adapter, actor=actor_of(request))
    if isinstance(answer, Refusal):
        return changed(request, bound, {}, answer)
    if answer.state is None:
        messages.success(request, _("Asked, but it could not say what is there."))
    else:
        messages.success(request, _("Asked. What is there now stands beside the payload."))
    return redirect(f"{_page_of(bound.approval_id)}#present")


def _page_of(approval_id: UUID) -> str:
    return reverse("console:approval", args=[approval_id])
