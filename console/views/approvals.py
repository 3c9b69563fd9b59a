"""One request, where a person decides on its exact payload (contract 9)."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from console.diffs import compare
from console.exposure import exposure_of
from console.forms import ApprovalDecision, PassOn, new_action_key
from console.guarantees import promise_of
from console.pages import forbid, page, refuse, shell_of, show
from console.people import Permit, actor_of, permit
from console.presents import present_of
from console.readings import WAYS, read_payload
from console.rejections import REJECTIONS
from console.stakes import after_approval, approving, phrase_to_approve, required_by
from console.standings import standing_of
from console.views.approval_inbox import lines_of, list_of, may_decide, turn_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import console_approval
from coordinator.selectors.console_approval import Bound
from coordinator.selectors.deciders import MAX_DECIDERS, who_may_decide
from coordinator.selectors.downstreams import secret_pointers
from coordinator.services import approvals
from coordinator.services.approval_changes import ChangesAsked, ask_for_changes
from coordinator.states import RejectionCode

_BOTH = ("GET", "HEAD", "POST")


@page(methods=_BOTH)
def approval(request: HttpRequest, approval_id: UUID) -> HttpResponse:
    bound = console_approval.read_approval(
        approval_id, with_payload=bool(permit(request, "view_payload"))
    )
    if bound is None:
        return refuse(request, 404, {"what": str(approval_id)})
    if request.method == "POST":
        return _decide(request, bound)
    return show_approval(request, bound, None)


# --- deciding ---------------------------------------------------------------------------------


def _decide(request: HttpRequest, bound: Bound) -> HttpResponse:
    allowed = may_decide(request)
    if not allowed:
        return forbid(request, allowed, "approve")
    shown = request.POST.get("payload_digest", "")  # the phrase named what was shown
    form = ApprovalDecision(request.POST, phrase_wanted=phrase_to_approve(shown, bound.downstream))
    if not form.is_valid():
        if _is_own(request, bound):
            return refuse(request, 403, {"why": _own()})
        if not standing_of(bound, shell_of(request).now).open:
            return changed(request, bound, form.data, None)
        return show_approval(request, bound, form)
    answer = _say(request, bound, form.cleaned_data)
    match answer:
        case Refusal(outcome=Outcome.FORBIDDEN):
            return refuse(request, 403, {"why": _own()})
        case Refusal(outcome=Outcome.NOT_FOUND):
            return refuse(request, 404, {"what": str(bound.approval_id)})
        case Refusal():
            return changed(request, bound, form.cleaned_data, answer)
    messages.success(request, _receipt(answer))
    return redirect("console:approval", approval_id=bound.approval_id)


def _say(
    request: HttpRequest, bound: Bound, told: dict[str, Any]
) -> approvals.Decided | ChangesAsked | Refusal:
    said: dict[str, Any] = {
        "approval_id": bound.approval_id,
        "payload_digest": told["payload_digest"],
        "expected_version": told["expected_version"],
        "actor": actor_of(request),
    }
    match told["decision"]:
        case "approve":
            return approvals.approve(comment=told["reason"], **said)
        case "changes":
            return ask_for_changes(reason=told["reason"], **said)
        case _:
            code = RejectionCode(told["reason_code"] or RejectionCode.OTHER)
            return approvals.reject(reason=told["reason"], code=code, **said)


def _receipt(answer: approvals.Decided | ChangesAsked) -> str:
    if isinstance(answer, ChangesAsked):
        return _(
            "Sent back. The agent reads your words with its next claim (revision %(n)d); nothing was sent."
        ) % {"n": answer.revision}
    if answer.state == "REJECTED":
        return _("Rejected. The task is FAILED with your reason; nothing was sent.")
    missing = answer.required_approvers - answer.version
    if missing > 0:
        told = ngettext(
            "Your approval is recorded. %(n)d more person must approve before anything is sent.",
            "Your approval is recorded. %(n)d more people must approve before anything is sent.",
            missing,
        )
        return told % {"n": missing}
    return _("Approved. The task is READY: the next worker may send these bytes once.")


def changed(
    request: HttpRequest, before: Bound, told: Any, refusal: Refusal | None
) -> HttpResponse:
    """409 with what changed since the person looked; nothing of the decision is kept."""
    now = console_approval.read_approval(
        before.approval_id, with_payload=before.payload is not None
    )
    now = now or before
    beside = console_approval.read_beside(now)
    standing = standing_of(now, shell_of(request).now)
    bound_to = (
        ("shown_state", _("State"), standing.word),
        ("expected_version", _("Decisions"), str(now.version)),
        ("payload_digest", _("Payload digest"), now.payload_digest),
        ("expected_assignee", _("Whose turn it is"), now.assignee or "—"),
    )
    changes = [(word, str(told[name]) or "—", is_) for name, word, is_ in bound_to if name in told]
    after = beside.after
    context = {
        "refusal": refusal,
        "detail": standing.told or (refusal.detail if refusal else ""),
        "changes": changes,
        "back": request.path,
        "approval": now,
        "after": after,
        "lines": compare(now.payload, after.payload, secret_pointers(now.downstream))
        if after and after.payload and now.payload
        else None,
    }
    return refuse(request, 409, context)


# --- showing ----------------------------------------------------------------------------------


def show_approval(
    request: HttpRequest,
    bound: Bound,
    form: ApprovalDecision | None,
    *,
    pass_form: PassOn | None = None,
) -> HttpResponse:
    turn, standing = turn_of(request), standing_of(bound, shell_of(request).now)
    places = secret_pointers(bound.downstream)
    exposure = exposure_of(bound.payload, places)
    beside = console_approval.read_beside(bound)
    last, before = beside.last_approved, beside.before
    context = {
        **form_context(request, bound, form),
        "exposure": exposure,
        "approving": approving(bound, exposure),
        "after_approval": after_approval(bound),
        "arrival": promise_of(bound.guarantee),
        "required_by": required_by(bound),
        "beside": beside,
        "lines": compare(last.payload, bound.payload, places)
        if last and last.payload and bound.payload
        else None,
        "lines_before": compare(before.payload, bound.payload, places)
        if before and before.payload and bound.payload
        else None,
        "pass_form": pass_form,
        **present_of(bound, places),
        "may_look": may_decide(request),
        "may_pass": may_pass(request, bound),
        "deciders": _deciders(request, bound) if standing.open else [],
        "reading": read_payload(bound.payload, request.GET.get("way", ""), places)
        if bound.payload is not None
        else None,
        "given": sum(1 for each in bound.decisions if each.decision == "APPROVED"),
        "may_reveal": permit(request, "reveal_secrets"),
        "turn": turn,
        "pane": lines_of(request, list_of(request, turn)),
        "ways": WAYS,
    }
    return show(
        request,
        "console/approval.html",
        context,
        every_seconds=3 if standing.open else 15,
        status=422 if form is not None or pass_form is not None else 200,
    )


def form_context(
    request: HttpRequest, bound: Bound, form: ApprovalDecision | None = None
) -> dict[str, Any]:
    """What the decision form needs, wherever it stands."""
    return {
        "approval": bound,
        "standing": standing_of(bound, shell_of(request).now),
        "allowed": _may_decide_now(request, bound),
        "form": form,
        "phrase": phrase_to_approve(bound.payload_digest, bound.downstream),
        "codes": [(code, REJECTIONS[code]) for code in REJECTIONS],
        "action_key": new_action_key(),
        "typed": {"turn": str(turn_of(request))},
    }


def _deciders(request: HttpRequest, bound: Bound) -> list[str]:
    """Who it can be passed to, by name; nobody where this person may not pass it on."""
    if not may_pass(request, bound):
        return []
    decided = [each.operator_id for each in bound.decisions]
    people = who_may_decide(submitted_by=bound.submitted_by, decided=decided)
    names = people.values_list("username", flat=True)[:MAX_DECIDERS]
    return [name for name in names if name != bound.assignee]


def _may_decide_now(request: HttpRequest, bound: Bound) -> Permit:
    allowed = may_decide(request)
    if not allowed:
        return allowed
    if _is_own(request, bound):
        return Permit(False, _own())
    mine = next((each for each in bound.decisions if each.operator_id == request.user.pk), None)
    if mine:
        return Permit(
            False,
            _("You have decided already (%(decision)s); somebody else's word is missing.")
            % {"decision": mine.decision},
        )
    return Permit(True)


def may_pass(request: HttpRequest, bound: Bound) -> Permit:
    allowed = may_decide(request)
    return Permit(False, _own()) if allowed and _is_own(request, bound) else allowed


def _is_own(request: HttpRequest, bound: Bound) -> bool:
    return bound.submitted_by == actor_of(request).label


def _own() -> str:
    return _("You submitted this run; somebody else must decide.")
