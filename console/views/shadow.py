"""`/shadow`: how a queue's legacy scheduler and claim.v1 differ, and its way from stage to stage."""

from datetime import timedelta
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access_forms import take_faults
from console.filters import as_uuid, query_string
from console.pages import forbid, page, refuse, shell_of, show
from console.people import actor_of, permit
from console.rollout_forms import Demotion, Explanation
from console.rollouts import (
    STAGES,
    TRIAGES,
    VERDICTS,
    checks_of,
    classes_of,
    matrix_of,
)
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import promotion, promotion_requests, shadow, shadow_rounds
from coordinator.selectors.console_shadow import list_shadows
from coordinator.selectors.queues import find_queue
from coordinator.selectors.shadow_rounds import RoundFilters
from coordinator.services.shadow_explanations import explain_round
from coordinator.services.stages import demote as demote_queue
from coordinator.shadow.words import RoundVerdict, Triage, Winner
from coordinator.states import RolloutStage

A_PAGE = 50
_BOTH = ("GET", "HEAD", "POST")


@page()
def shadow_list(request: HttpRequest) -> HttpResponse:
    context = {"rows": list_shadows(), "stages": STAGES}
    return show(request, "console/shadows.html", context, every_seconds=10)


@page()
def shadow_queue(request: HttpRequest, name: str) -> HttpResponse:
    found, gate = shadow.read_shadow(queue=name), promotion.read_promotion(queue=name)
    if found is None or gate is None:
        return refuse(request, 404, {"what": name})
    context = {
        "shadow": found,
        "gate": gate,
        "checks": checks_of(name, gate.criteria),
        "winners": [str(each) for each in Winner],
        "matrix": matrix_of(found),
        "classes": classes_of(found),
        "stage_told": STAGES[found.rollout_stage],
        "may_promote": permit(request, "operate_incidents"),
        "may_demote": permit(request, "bump_epoch"),
        "earlier": found.rollout_stage != RolloutStage.SHADOW,
        "asked": promotion_requests.open_request(name),
    }
    return show(request, "console/shadow.html", context, every_seconds=10)


@page()
def round_list(request: HttpRequest, name: str) -> HttpResponse:
    if find_queue(name=name) is None:
        return refuse(request, 404, {"what": name})
    typed = {
        field: request.GET[field]
        for field, known in (
            ("verdict", set(RoundVerdict)),
            ("legacy", set(Winner)),
            ("claim", set(Winner)),
            ("explained", {"yes", "no"}),
        )
        if request.GET.get(field) in known
    }
    explained = {"yes": True, "no": False}.get(typed.get("explained", ""))
    filters = RoundFilters(
        queue=name,
        verdict=RoundVerdict(typed["verdict"]) if "verdict" in typed else None,
        explained=explained,
        legacy_end=typed.get("legacy"),
        claim_end=typed.get("claim"),
    )
    rows = shadow_rounds.list_rounds(filters)
    before = as_uuid(request.GET.get("before"))
    if before:
        rows = rows.filter(round_id__lt=before)
    live = set(shadow_rounds.live_classes())
    found = [shadow_rounds.round_record(row, classes=live) for row in rows[: A_PAGE + 1]]
    context = {
        "name": name,
        "rounds": found[:A_PAGE],
        "typed": typed,
        "verdicts": VERDICTS,
        "winners": list(Winner),
        "older": found[A_PAGE - 1].round_id if len(found) > A_PAGE else None,
        "first": query_string(typed),
    }
    return show(request, "console/shadow_rounds.html", context)


@page(methods=_BOTH)
def shadow_round(request: HttpRequest, round_id: UUID) -> HttpResponse:
    """One round with both sides and its events; a person explains a mismatch here."""
    found, allowed = shadow_rounds.find_round(round_id), permit(request, "operate_incidents")
    if found is None:
        return refuse(request, 404, {"what": str(round_id)})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "explain_shadow_round")
    form = Explanation(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        days = told["days"]
        answer = explain_round(
            round_id=round_id,
            reason=told["reason"],
            triage=Triage(told["triage"]),
            verdict=RoundVerdict(found.round.verdict or "") if told["of_class"] else None,
            owner=told["owner"],
            link=told["link"],
            expires_at=shell_of(request).now + timedelta(days=days) if days else None,
            actor=actor_of(request),
        )
        if not isinstance(answer, Refusal):
            messages.success(request, _("Explained. It stands here with your name."))
            return redirect("console:shadow-round", round_id=round_id)
        if answer.outcome is not Outcome.INVALID:
            context = {"refusal": answer, "detail": answer.detail, "back": request.path}
            return refuse(request, 409, context)
        take_faults(form, answer)
    context = {
        "detail": found,
        "round": found.round,
        "verdict_told": VERDICTS.get(found.round.verdict or "", ""),
        "triages": TRIAGES,
        "form": form,
        "allowed": allowed,
    }
    status = 422 if form.is_bound else 200
    return show(request, "console/shadow_round.html", context, status=status)


@page(methods=_BOTH)
def demote(request: HttpRequest, name: str) -> HttpResponse:
    gate, allowed = promotion.read_promotion(queue=name), permit(request, "bump_epoch")
    if gate is None:
        return refuse(request, 404, {"what": name})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "demote_queue")
    form = Demotion(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = demote_queue(
            queue=name,
            to_stage=RolloutStage(told["to_stage"]),
            expected_stage=RolloutStage(told["shown_stage"]),
            reason=told["reason"],
            actor=actor_of(request),
        )
        if not isinstance(answer, Refusal):
            done = {"stage": answer.rollout_stage, "n": answer.scheduler_epoch}
            messages.success(request, _("Back in %(stage)s; the epoch is %(n)d.") % done)
            return redirect("console:shadow-queue", name=name)
        if answer.outcome is not Outcome.INVALID:
            return _stage_refused(request, told["shown_stage"], gate, answer)
        take_faults(form, answer)
    place = list(RolloutStage).index(RolloutStage(gate.rollout_stage))
    context: dict[str, Any] = {
        "name": name,
        "gate": gate,
        "earlier": [(str(each), STAGES[each]) for each in list(RolloutStage)[:place]],
        "chosen": form.data.get("to_stage") or str(list(RolloutStage)[max(0, place - 1)]),
        "form": form,
        "allowed": allowed,
    }
    status = 422 if form.is_bound else 200
    return show(request, "console/shadow_demote.html", context, status=status)


def _stage_refused(
    request: HttpRequest, shown: str, gate: promotion.Promotion, refusal: Refusal
) -> HttpResponse:
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": [(_("Rollout stage"), shown, gate.rollout_stage)]
        if shown != gate.rollout_stage
        else [],
        "back": request.path,
    }
    return refuse(request, 409, context)
