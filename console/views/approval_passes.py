"""`/approvals/<id>/pass`: whose turn it is. It never changes who may decide (contract 9)."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access_forms import take_faults
from console.forms import PassOn
from console.pages import forbid, page, refuse
from console.people import actor_of, permit
from console.views.approvals import changed, may_pass, show_approval
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import console_approval
from coordinator.services.approval_passes import pass_approval


@page(methods=("POST",))
def pass_on(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    """Back to the request with the receipt; 422 with the form's faults, 409 where it has moved on."""
    bound = console_approval.read_approval(
        approval_id, with_payload=bool(permit(request, "view_payload"))
    )
    if bound is None:
        return refuse(request, 404, {"what": str(approval_id)})
    allowed = may_pass(request, bound)
    if not allowed:
        return forbid(request, allowed, "pass_approval")
    form = PassOn(request.POST)
    if not form.is_valid():
        return show_approval(request, bound, None, pass_form=form)
    told = form.cleaned_data
    answer = pass_approval(
        approval_id=approval_id,
        to=told["to"],
        reason=told["reason"],
        expected_assignee=told["expected_assignee"],
        actor=actor_of(request),
    )
    match answer:
        case Refusal(outcome=Outcome.INVALID):
            take_faults(form, answer)
            return show_approval(request, bound, None, pass_form=form)
        case Refusal():
            return changed(request, bound, told, answer)
    messages.success(request, _("Passed on: it is %(who)s's turn.") % {"who": answer.assigned_to})
    return redirect("console:approval", approval_id=approval_id)
