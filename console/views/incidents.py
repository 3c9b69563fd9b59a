"""`/incidents`: the guarded rollback, one page a step. Nothing advances by itself, nothing is skipped (contract 12)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.commands import Terminal, origin_of, terminal
from console.filters import as_uuid
from console.forms import new_action_key
from console.incident_commands import incident_step
from console.incident_forms import Abort, Bump, Candidates, Declaration, Resume, Switch
from console.incident_steps import (
    BUMP,
    DRAIN,
    REPORT,
    RESUME,
    STOP,
    SWITCH,
    at_hand,
    conditions_of,
    first_part,
    is_open,
    stages_of,
)
from console.pages import forbid, page, refuse, shell_of, show
from console.people import Permit, actor_of, permit
from console.service_words import in_words
from coordinator import digests
from coordinator.intake_shares import WHOLE
from coordinator.outcomes import Outcome, Refusal
from coordinator.record_masks import masked_record
from coordinator.selectors import console_incidents
from coordinator.selectors.incident_gates import Gate, read_gate
from coordinator.selectors.incident_markdown import render_markdown
from coordinator.selectors.incident_previews import preview_bump
from coordinator.selectors.incident_reports import tell_incident
from coordinator.selectors.incidents import IncidentRecord, confirmation, read_incident
from coordinator.services import (
    canaries,
    incident_bumps,
    incident_candidates,
    incident_switches,
    incidents,
)
from coordinator.services.answers import RequestKey
from coordinator.services.incident_candidates import CandidatesDecided
from coordinator.services.incident_hearings import StepTaken
from coordinator.states import CandidateRuling

_BOTH = ("GET", "HEAD", "POST")
EVERY_SECONDS: Final = 2


@page()
def incident_list(request: HttpRequest) -> HttpResponse:
    listing = console_incidents.page_incidents(before=as_uuid(request.GET.get("before")))
    context = {"listing": listing, "may_operate": permit(request, "operate_incidents")}
    return show(request, "console/incidents.html", context, every_seconds=10)


@page(methods=_BOTH)
def declare(request: HttpRequest) -> HttpResponse:
    """Step 1. The intake stops the moment the form is sent; sent twice, it is the same incident."""
    allowed, names = permit(request, "operate_incidents"), shell_of(request).queue_names
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "open_incident")
    form = Declaration(request.POST or None, names=names)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        asked = orjson.dumps([form.wanted, told["reason"]])
        answer = incidents.open_incident(
            queues=form.wanted,
            reason=told["reason"],
            actor=actor_of(request),
            request=RequestKey(
                f"console:{request.user.pk}:incident", told["action_key"], digests.sha256(asked)
            ),
        )
        if isinstance(answer, StepTaken):
            messages.success(request, _("The incident is open. No claim is granted any more."))
            return redirect("console:incident-step", incident_id=answer.incident_id, number=STOP)
        if answer.outcome is not Outcome.INVALID:
            back = {"detail": answer.detail, "refusal": answer, "back": request.path}
            return refuse(request, 409, back)
        for error in answer.errors:
            form.add_error("queues", in_words(error.detail))
    context = {
        "form": form,
        "names": names,
        "chosen": request.POST.getlist("queues") or request.GET.getlist("queue"),
        "allowed": allowed,
        "action_key": request.POST.get("action_key") or new_action_key(),
    }
    return show(request, "console/incident_new.html", context, status=422 if form.is_bound else 200)


@page()
def incident(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """To the step that is at hand."""
    found = read_incident(incident_id)
    if found is None:
        return refuse(request, 404, {"what": str(incident_id)})
    return redirect("console:incident-step", incident_id=incident_id, number=at_hand(found))


@page(methods=_BOTH)
def step(request: HttpRequest, incident_id: UUID, number: int) -> HttpResponse:
    found = read_incident(incident_id)
    if found is None or not STOP - 1 <= number <= REPORT:
        return refuse(request, 404, {"what": str(incident_id)})
    if not is_open(found, number):
        return _locked(request, found, number)
    if request.method == "POST":
        return _take(request, found, number)
    return _show(request, found, number, None)


@page(methods=_BOTH)
def abort(request: HttpRequest, incident_id: UUID) -> HttpResponse:
    """Call it off: the intake of each queue is put back as it was."""
    found, allowed = read_incident(incident_id), permit(request, "operate_incidents")
    if found is None:
        return refuse(request, 404, {"what": str(incident_id)})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "abort_incident")
    form = Abort(request.POST or None)
    if request.method == "POST" and form.is_valid():
        return _answered(
            request,
            found,
            STOP,
            form,
            incidents.abort_incident(**_asked(request, found, form.cleaned_data)),
        )
    context = {
        "incident": found,
        "form": form,
        "allowed": allowed,
        "action_key": new_action_key(),
    }
    return show(
        request, "console/incident_abort.html", context, status=422 if form.is_bound else 200
    )


@page()
def report(request: HttpRequest, incident_id: UUID, form: str) -> HttpResponse:
    """The whole story to take along: `md` or `json`, as the API gives it but for what is masked."""
    told = tell_incident(incident_id)
    story = masked_record(told) if told else None
    if story is None or form not in ("md", "json"):
        return refuse(request, 404, {"what": f"{incident_id}.{form}"})
    if form == "md":
        response = HttpResponse(render_markdown(story), content_type="text/markdown; charset=utf-8")
    else:
        body = orjson.dumps(story, option=orjson.OPT_INDENT_2 | orjson.OPT_UTC_Z)
        response = HttpResponse(body, content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="incident-{incident_id}.{form}"'
    return response


# --- taking a step ----------------------------------------------------------------------------


def _take(request: HttpRequest, found: IncidentRecord, number: int) -> HttpResponse:
    """Only the steps that do something are taken; each by its own service, which decides."""
    act = _ACTS.get(number)
    if act is None:
        return _show(request, found, number, None)
    allowed = _may_take(request, number)
    if not allowed:
        return forbid(request, allowed, "bump_incident" if number == BUMP else "operate_incident")
    form = _form(found, number, request.POST)
    if not form.is_valid():
        return _show(request, found, number, form)
    if number == BUMP and _is_lone(request, found) and not form.cleaned_data["alone"]:
        return forbid(request, Permit(False, _needs_second()), "bump_incident")
    return _answered(request, found, number, form, act(request, found, form.cleaned_data))


def _asked(request: HttpRequest, found: IncidentRecord, told: dict[str, Any]) -> dict[str, Any]:
    return {
        "incident_id": found.incident_id,
        "actor": actor_of(request),
        "reason": told["reason"],
        "expected_version": told["expected_version"],
    }


def _bump(request: HttpRequest, found: IncidentRecord, told: dict[str, Any]) -> Any:
    return incident_bumps.bump_incident(
        expected_epoch=told["epochs"], confirm=_confirm(found), **_asked(request, found, told)
    )


def _decide(request: HttpRequest, found: IncidentRecord, told: dict[str, Any]) -> Any:
    return incident_candidates.decide_candidates(
        decision=CandidateRuling(told["decision"]), **_asked(request, found, told)
    )


def _switch(request: HttpRequest, found: IncidentRecord, told: dict[str, Any]) -> Any:
    return incident_switches.switch_pool(to_pool=told["to_pool"], **_asked(request, found, told))


def _resume(request: HttpRequest, found: IncidentRecord, told: dict[str, Any]) -> Any:
    asked, percent = _asked(request, found, told), told["percent"]
    if percent < WHOLE:
        return canaries.let_in(percent=percent, **asked)
    return incidents.resume_intake(**asked)


_ACTS: Final[dict[int, Callable[[HttpRequest, IncidentRecord, dict[str, Any]], Any]]] = {
    BUMP: _bump,
    DRAIN: _decide,
    SWITCH: _switch,
    RESUME: _resume,
}
_FIELDS: Final = {"confirm": "phrase", "expected_epochs": "epochs", "to_pool": "to_pool"}


def _form(found: IncidentRecord, number: int, data: Any = None) -> Any:
    match number:
        case 3:
            return Bump(data, phrase_wanted=_confirm(found))
        case 4:
            return Candidates(data)
        case 5:
            return Switch(data)
        case _:
            return Resume(data)


def _answered(
    request: HttpRequest, found: IncidentRecord, number: int, form: Any, answer: object
) -> HttpResponse:
    match answer:
        case Refusal(outcome=Outcome.INVALID):
            for error in answer.errors:
                name = error.pointer.strip("/").split("/")[0]
                name = _FIELDS.get(name, name)
                form.add_error(name if name in form.fields else None, in_words(error.detail))
            return _show(request, found, number, form)
        case Refusal():
            return _changed(request, found, number, answer)
        case StepTaken() | CandidatesDecided():
            messages.success(request, _receipt(answer))
            target = (
                REPORT if isinstance(answer, StepTaken) and answer.state == "ABORTED" else number
            )
            return redirect("console:incident-step", incident_id=found.incident_id, number=target)
        case _:
            raise AssertionError(f"step {number} answered {answer!r}")


def _receipt(answer: StepTaken | CandidatesDecided) -> str:
    if isinstance(answer, CandidatesDecided):
        return _("Decided about %(n)d results: %(decision)s.") % {
            "n": answer.decided,
            "decision": answer.decision,
        }
    match answer.step:
        case "BUMPED":
            return _(
                "The epoch is raised. Claims revoked: %(revoked)d. Effects UNKNOWN: %(unknown)d."
                " Approvals VOID: %(void)d."
            ) % {
                "revoked": answer.revoked,
                "unknown": answer.unknown_effects,
                "void": answer.voided_approvals,
            }
        case "SWITCHED":
            return _("Switched: %(pool)s is the active pool.") % {
                "pool": answer.queues[0].active_pool
            }
        case "CANARY" if answer.share:
            return _("%(n)d %% of the tasks are let in.") % {"n": answer.share}
        case "CANARY":
            return _("Nothing is let in any more.")
        case "CLOSED":
            return _("The intake is open again. The incident is CLOSED.")
        case _:
            return _("Called off. The intake of each queue is as it was before.")


def _locked(request: HttpRequest, found: IncidentRecord, number: int) -> HttpResponse:
    """The page of a step that may not be taken yet: 409, with what holds it back."""
    gate = read_gate(found.incident_id)
    if found.state == "BUMPED" and gate is not None and not gate.open:
        detail = _(
            "Of the old epoch %(leases)d leases still run, %(effects)d effects may be out and"
            " %(results)d results wait for a decision."
        ) % {
            "leases": gate.active_leases,
            "effects": gate.unknown_effects,
            "results": gate.pending_results,
        }
    else:
        detail = _("The incident is %(state)s. Each step opens when the one before it is done.") % {
            "state": found.state
        }
    context = {
        "detail": detail,
        "changes": _changes(request, found) if "expected_version" in request.POST else [],
        "back": f"/incidents/{found.incident_id}",
        "incident": found,
    }
    if (
        request.method != "POST"
    ):  # else a decision was sent, and is told not to have been carried out
        context["step"] = number
    return refuse(request, 409, context)


def _changed(
    request: HttpRequest, before: IncidentRecord, number: int, refusal: Refusal
) -> HttpResponse:
    now = read_incident(before.incident_id) or before
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": _changes(request, now),
        "back": f"/incidents/{before.incident_id}/step/{min(number, at_hand(now))}",
        "incident": now,
    }
    return refuse(request, 409, context)


def _changes(request: HttpRequest, now: IncidentRecord) -> list[tuple[str, str, str]]:
    """What the form had of the incident, and what is; nothing where both are alike."""
    shown = request.POST
    changes = [
        (_("State"), shown.get("shown_state", ""), now.state),
        (_("Version"), shown.get("expected_version", ""), str(now.version)),
    ]
    return changes if any(was != is_ for _name, was, is_ in changes) else []


# --- showing ----------------------------------------------------------------------------------


def _show(request: HttpRequest, found: IncidentRecord, number: int, form: Any) -> HttpResponse:
    now = shell_of(request).now
    gate = read_gate(found.incident_id) if number in (DRAIN, SWITCH) else None
    claims = (
        console_incidents.count_claims_since(found.incident_id, found.opened_at)
        if number == STOP and found.state == "STOPPED"
        else None
    )
    stages = stages_of(found, now)
    me = actor_of(request).label
    context = {
        "incident": found,
        "number": number,
        "stage": stages[number - 1],
        "stages": stages,
        "conditions": conditions_of(found, number, gate=gate, claims=claims, me=me),
        "at_hand": at_hand(found),
        "next": number + 1 if number < REPORT and is_open(found, number + 1) else None,
        "gate": gate,
        "form": form,
        "allowed": _may_take(request, number),
        "lone": _is_lone(request, found),
        "action_key": new_action_key(),
        "bound_version": f"{found.version}",
        "names": ", ".join(lane.name for lane in found.queues),
        "terminal": _terminal(request, found, number),
        **_of_step(found, number, gate),
    }
    ended = found.ended_at is not None
    return show(
        request,
        "console/incident_step.html",
        context,
        every_seconds=15 if ended else EVERY_SECONDS,
        status=422 if form is not None else 200,
    )


def _terminal(request: HttpRequest, found: IncidentRecord, number: int) -> Terminal:
    """The step's own commands, bound to what the page shows."""
    epochs = {lane.name: lane.scheduler_epoch for lane in found.queues}
    bound = {"version": found.version, "epochs": epochs, "confirm": _confirm(found)}
    bound["percent"] = first_part(found)
    over = (
        STOP < number < at_hand(found)
    )  # it can't be taken again: only the incident is left to be read
    shown = incident_step(found.incident_id, 1 if over else number, **bound)  # type: ignore[arg-type]
    under_way = not over and found.ended_at is None and STOP < number < REPORT
    return replace(terminal(shown, origin_of(request)), is_open=under_way)


def _of_step(found: IncidentRecord, number: int, gate: Gate | None) -> dict[str, Any]:
    """What only one of the pages needs."""
    names = [lane.name for lane in found.queues]
    match number:
        case 2 | 3 if found.state == "STOPPED":
            epochs = {lane.name: lane.scheduler_epoch for lane in found.queues}
            return {
                "preview": preview_bump(found.incident_id),
                "phrase": _confirm(found),
                "epochs_json": orjson.dumps(epochs).decode(),
            }
        case 4:
            results = [each for each in gate.blocking if each.kind == "result"] if gate else []
            return {"undecided": results}
        case 5:
            pools = console_incidents.pools_to_switch_to(names)
            return {"pools": pools, "active": {lane.active_pool for lane in found.queues}}
        case 6:
            return {"canary": console_incidents.read_canary(found), "percent": first_part(found)}
        case 7:
            return {"story": masked_record(tell_incident(found.incident_id))}
        case _:
            return {}


def _confirm(found: IncidentRecord) -> str:
    return confirmation([lane.name for lane in found.queues], covers_all=found.covers_all)


def _is_lone(request: HttpRequest, found: IncidentRecord) -> bool:
    return found.opened_by == actor_of(request).label


def _needs_second() -> str:
    return _(
        "You opened this incident; somebody else must raise the epoch, or you say that you are alone."
    )


def _may_take(request: HttpRequest, number: int) -> Permit:
    return permit(request, "bump_epoch" if number == BUMP else "operate_incidents")
