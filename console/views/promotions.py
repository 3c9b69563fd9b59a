"""Promotions: asked for on `/shadow/<queue>/promote`, confirmed on the request's own page (contract 13)."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access_forms import take_faults
from console.forms import new_action_key
from console.pages import forbid, page, refuse, shell_of, show
from console.people import actor_of, permit
from console.rollout_forms import Confirming, Promoting, Withdrawing
from console.rollouts import STAGES, checks_of, figures_of, phrase_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import promotion, promotion_requests
from coordinator.selectors.promotion import Promotion
from coordinator.selectors.promotion_requests import PromotionRequestRecord
from coordinator.services.promotion_confirmations import confirm_promotion
from coordinator.services.promotions import ask_promotion, withdraw_promotion
from coordinator.states import PromotionState, RolloutStage

_BOTH = ("GET", "HEAD", "POST")


@page(methods=_BOTH)
def promote(request: HttpRequest, name: str) -> HttpResponse:
    """One person asks here; where somebody has asked already, their request is shown instead."""
    gate, allowed = promotion.read_promotion(queue=name), permit(request, "operate_incidents")
    if gate is None:
        return refuse(request, 404, {"what": name})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "promote_queue")
    asked = promotion_requests.open_request(name)
    if asked and request.method != "POST":
        return redirect("console:promotion", request_id=asked.request_id)
    phrase = phrase_of(name, gate.next_stage or "")
    form = Promoting(request.POST or None, phrase=phrase)
    if request.method == "POST" and form.is_valid():
        answer = ask_promotion(
            queue=name,
            expected_stage=RolloutStage(form.cleaned_data["shown_stage"]),
            confirm=name,
            reason=form.cleaned_data["reason"],
            actor=actor_of(request),
        )
        if not isinstance(answer, Refusal):
            told = _("Asked. Nothing moves until another person has confirmed it.")
            messages.success(request, told)
            return redirect("console:promotion", request_id=answer.request_id)
        if answer.outcome is not Outcome.INVALID:
            return _not_asked(request, name, form.cleaned_data["shown_stage"], answer)
        take_faults(form, answer)
    context = {
        "name": name,
        "gate": gate,
        "checks": checks_of(name, gate.criteria),
        "next_told": STAGES[gate.next_stage] if gate.next_stage else "",
        "phrase": phrase,
        "form": form,
        "allowed": allowed,
    }
    status = 422 if form.is_bound else 200
    return show(request, "console/shadow_promote.html", context, status=status)


@page(methods=_BOTH)
def request_page(request: HttpRequest, request_id: UUID) -> HttpResponse:
    """What was asked on which figures, how they stand now, and the second person's word."""
    asked = promotion_requests.find_request(request_id)
    gate = promotion.read_promotion(queue=asked.queue) if asked else None
    if asked is None or gate is None:
        return refuse(request, 404, {"what": str(request_id)})
    if request.method == "POST":
        return _confirm(request, asked, gate)
    return _show(request, asked, gate, None)


def _not_asked(request: HttpRequest, name: str, shown: str, refusal: Refusal) -> HttpResponse:
    """409: the queue is in another stage, its gate has closed, or somebody has asked already."""
    gate, asked = promotion.read_promotion(queue=name), promotion_requests.open_request(name)
    changes = [(_("Rollout stage"), shown, gate.rollout_stage if gate else "—")]
    if asked:
        changes.append((_("Promotion"), "—", f"{asked.state} · {asked.requested_by}"))
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": changes if any(old != new for _name, old, new in changes) else [],
        "back": request.path,
    }
    return refuse(request, 409, context)


def _confirm(request: HttpRequest, asked: PromotionRequestRecord, gate: Promotion) -> HttpResponse:
    allowed = permit(request, "operate_incidents")
    if not allowed:
        return forbid(request, allowed, "confirm_promotion")
    form = Confirming(request.POST, phrase=phrase_of(asked.queue, asked.to_stage))
    if not form.is_valid():
        return _show(request, asked, gate, form)
    told = form.cleaned_data
    answer = confirm_promotion(
        request_id=asked.request_id,
        evidence_digest=told["evidence_digest"],
        confirm=asked.queue,
        reason=told["reason"],
        alone=told["alone"],
        actor=actor_of(request),
    )
    match answer:
        case Refusal(outcome=Outcome.FORBIDDEN):
            return refuse(request, 403, {"why": _own()})
        case Refusal(outcome=Outcome.INVALID):
            take_faults(form, answer)
            return _show(request, asked, gate, form)
        case Refusal():
            return _moved(request, asked, answer)
    done = {"stage": answer.rollout_stage}
    messages.success(request, _("Promoted: the stage is %(stage)s.") % done)
    return redirect("console:shadow-queue", name=asked.queue)


@page(methods=("POST",))
def withdraw(request: HttpRequest, request_id: UUID) -> HttpResponse:
    asked = promotion_requests.find_request(request_id)
    gate = promotion.read_promotion(queue=asked.queue) if asked else None
    if asked is None or gate is None:
        return refuse(request, 404, {"what": str(request_id)})
    allowed = permit(request, "operate_incidents")
    if not allowed:
        return forbid(request, allowed, "withdraw_promotion")
    form = Withdrawing(request.POST)
    if not form.is_valid():
        return _show(request, asked, gate, None, withdrawing=form)
    answer = withdraw_promotion(
        request_id=request_id, reason=form.cleaned_data["reason"], actor=actor_of(request)
    )
    if isinstance(answer, Refusal):
        return _moved(request, asked, answer)
    messages.success(request, _("Withdrawn. The stage stays as it is."))
    return redirect("console:shadow-queue", name=asked.queue)


def _moved(request: HttpRequest, before: PromotionRequestRecord, refusal: Refusal) -> HttpResponse:
    """409 with what has changed since the request was made."""
    now = promotion_requests.find_request(before.request_id) or before
    gate = promotion.read_promotion(queue=before.queue)
    changes = [(_("State"), str(PromotionState.ASKED), now.state)]  # only then is there a form
    if gate is not None:
        changes.append((_("Rollout stage"), before.from_stage, gate.rollout_stage))
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": changes if any(old != new for _name, old, new in changes) else [],
        "back": request.path.removesuffix("/withdraw"),
    }
    return refuse(request, 409, context)


def _show(
    request: HttpRequest,
    asked: PromotionRequestRecord,
    gate: Promotion,
    form: Confirming | None,
    *,
    withdrawing: Withdrawing | None = None,
) -> HttpResponse:
    is_open = asked.state == PromotionState.ASKED
    context: dict[str, Any] = {
        "asked": asked,
        "is_late": is_open and asked.expires_at <= shell_of(request).now,
        "gate": gate,
        "figures": figures_of(asked.queue, asked.evidence, gate.criteria),
        "next_told": STAGES[asked.to_stage],
        "phrase": phrase_of(asked.queue, asked.to_stage),
        "form": form,
        "withdrawing": withdrawing,
        "is_own": asked.requested_by == actor_of(request).label,
        "allowed": permit(request, "operate_incidents"),
        "action_key": new_action_key(),
    }
    status = 422 if form is not None or withdrawing is not None else 200
    return show(request, "console/promotion.html", context, status=status)


def _own() -> str:
    return _("You asked for this promotion; somebody else must confirm it.")
