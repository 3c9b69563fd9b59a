"""What a person decides about a task, a run or a queue: asked on a page of its own, bound to what was seen.

GET shows the object, the consequence and the form; POST calls the service. Who may not decide
sees the form disabled, with the reason; the server refuses them whatever the page shows.
"""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import orjson
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from console.bindings import differences
from console.forms import IntakeDecision, Revision, RunDecision, TaskDecision, new_action_key
from console.pages import forbid, page, refuse, show
from console.people import actor_of, permit
from console.service_words import in_words
from console.visible import pretty_json, visible_in_attribute
from coordinator import digests
from coordinator.outcomes import Outcome, Refusal
from coordinator.secrets import mask_text, unmask
from coordinator.seen import RunSeen
from coordinator.selectors import console_task, events, queues, runs
from coordinator.services import cancels, epochs, revisions
from coordinator.services.answers import RequestKey
from coordinator.states import CANCELLABLE_TASK, Intake, TaskState

_BOTH = ("GET", "HEAD", "POST")
_REOPENABLE = frozenset({TaskState.CANCELLED, TaskState.FAILED})
_REVISABLE = CANCELLABLE_TASK | {TaskState.COMMITTED, TaskState.FAILED}
EVENTS_SINCE = 20


@page(methods=_BOTH)
def cancel(request: HttpRequest, task_id: UUID) -> HttpResponse:
    def act(form: TaskDecision) -> object:
        return cancels.cancel_task(
            task_id=task_id,
            expected_state_version=form.cleaned_data["expected_state_version"],
            reason=form.cleaned_data["reason"],
            actor=actor_of(request),
        )

    return _decide(request, task_id, "cancel", TaskDecision, act)


@page(methods=_BOTH)
def reopen(request: HttpRequest, task_id: UUID) -> HttpResponse:
    def act(form: TaskDecision) -> object:
        return revisions.reopen_task(
            task_id=task_id,
            expected_state_version=form.cleaned_data["expected_state_version"],
            reason=form.cleaned_data["reason"],
            actor=actor_of(request),
        )

    return _decide(request, task_id, "reopen", TaskDecision, act)


@sensitive_post_parameters("input")
@page(methods=_BOTH)
def revise(request: HttpRequest, task_id: UUID) -> HttpResponse:
    def act(form: TaskDecision) -> object:
        told = form.cleaned_data
        digest = digests.sha256(f"{told['expected_state_version']}\n{form.data['input']}".encode())
        return revisions.revise_task(
            task_id=task_id,
            expected_state_version=told["expected_state_version"],
            input=told["input"],
            reason=told["reason"],
            actor=actor_of(request),
            request=RequestKey(
                f"console:{request.user.pk}:revise:{task_id}", told["action_key"], digest
            ),
        )

    return _decide(request, task_id, "revise", Revision, act)


@page(methods=_BOTH)
def cancel_run(request: HttpRequest, run_id: UUID) -> HttpResponse:
    run = runs.find_run(run_id)
    if run is None:
        return refuse(request, 404, {"what": str(run_id)})
    allowed = permit(request, "cancel")
    form = RunDecision(request.POST or None)
    context = {
        "run": run,
        "states": runs.progress_of([run])[run.pk],
        "seen": runs.see_run(run.pk, run.state),
        "allowed": allowed,
        "form": form,
    }
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "cancel_run")
    if request.method != "POST" or not form.is_valid():
        return _ask(request, "console/decide_run.html", context)
    answer = cancels.cancel_run(
        run_id=run_id,
        reason=form.cleaned_data["reason"],
        actor=actor_of(request),
        seen=form.cleaned_data["seen"],
    )
    if isinstance(answer, Refusal):
        return _refused_run(request, run_id, form.cleaned_data["seen"], answer)
    messages.success(request, _("Cancelled: %(n)d tasks of this run.") % {"n": len(answer.tasks)})
    return redirect("console:run", run_id=run_id)


@page(methods=_BOTH)
def intake(request: HttpRequest, name: str) -> HttpResponse:
    queue = queues.find_queue(name=name)
    if queue is None:
        return refuse(request, 404, {"what": name})
    allowed = permit(request, "operate_incidents")
    form = IntakeDecision(request.POST or None)
    wanted = Intake.STOPPED if queue.intake == Intake.OPEN else Intake.OPEN
    context = {"queue": queue, "wanted": wanted, "allowed": allowed, "form": form}
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "set_intake")
    if request.method != "POST" or not form.is_valid():
        return _ask(request, "console/decide_intake.html", context)
    if form.cleaned_data["shown_intake"] != queue.intake:
        changes = [(_("Intake"), form.cleaned_data["shown_intake"], queue.intake)]
        return refuse(request, 409, {"changes": changes, "back": request.path, "subject": name})
    answer = epochs.set_intake(
        queue=name,
        intake=Intake(form.cleaned_data["intake"]),
        reason=form.cleaned_data["reason"],
        actor=actor_of(request),
    )
    if isinstance(answer, Refusal):
        return refuse(
            request, 409, {"detail": answer.detail, "back": request.path, "subject": name}
        )
    messages.success(request, _("The intake is %(intake)s.") % {"intake": answer.intake})
    return redirect("console:queue", name=name)


# --- a decision about a task ------------------------------------------------------------------


def _decide(
    request: HttpRequest,
    task_id: UUID,
    verb: str,
    form_class: type[TaskDecision],
    act: Callable[[TaskDecision], object],
) -> HttpResponse:
    task = console_task.read_task(task_id)
    if task is None:
        return refuse(request, 404, {"what": str(task_id)})
    allowed = permit(request, "cancel")
    if allowed and verb == "revise":
        allowed = permit(request, "view_payload")
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, f"{verb}_task")
    form = form_class(request.POST or None)
    if request.method == "POST" and form.is_valid() and verb == "revise":
        _fill_in(form, task_id)
    if request.method != "POST" or not form.is_valid():
        return _ask(request, "console/decide_task.html", _task_context(task, verb, allowed, form))
    answer = act(form)
    if isinstance(answer, Refusal):
        return _refused(request, task_id, verb, form, answer)
    return _receipt(request, task_id, verb, answer)


def _fill_in(form: TaskDecision, task_id: UUID) -> None:
    """What stands behind the masks of the input that was shown; a mask that was touched is a fault."""
    stored = console_task.read_input(task_id, whole=True)
    if stored is None:
        return
    value, left = unmask(form.cleaned_data["input"], orjson.loads(stored.text))
    form.cleaned_data["input"] = value
    if left:
        told = _("A masked value was changed or moved: %(places)s. Type the value itself.")
        form.add_error("input", told % {"places": ", ".join(left[:5])})


def _task_context(
    task: console_task.TaskFacts, verb: str, allowed: Any, form: TaskDecision
) -> dict[str, Any]:
    context = {
        "task": task,
        "verb": verb,
        "allowed": allowed,
        "form": form,
        "possible": task.state
        in {"cancel": CANCELLABLE_TASK, "reopen": _REOPENABLE, "revise": _REVISABLE}[verb],
    }
    if verb == "revise" and allowed:
        payload = console_task.read_input(task.task_id, whole=True)
        context["input"] = pretty_json(mask_text(payload.text).text) if payload else ""
    return context


def _ask(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """The form, with its faults (422) where it was sent and not understood."""
    faulty = context["form"].is_bound
    status = 422 if faulty else 200
    return show(request, template, {**context, "action_key": new_action_key()}, status=status)


def _receipt(request: HttpRequest, task_id: UUID, verb: str, answer: object) -> HttpResponse:
    match answer:
        case cancels.Cancelled():
            told = _("Cancelled. Its cancel generation is %(n)d.") % {"n": answer.cancel_generation}
        case revisions.Reopened():
            told = _("Reopened: it is %(state)s, with a fresh allowance of attempts.") % {
                "state": answer.state
            }
        case revisions.Revised():
            task_id = answer.task_id
            told = _("Revised: this is revision %(n)d.") % {"n": answer.revision}
        case _:
            raise AssertionError(f"{verb} answered {answer!r}")
    messages.success(request, told)
    return redirect("console:task", task_id=task_id)


def _refused(
    request: HttpRequest, task_id: UUID, verb: str, form: TaskDecision, refusal: Refusal
) -> HttpResponse:
    """409 with what changed since the person looked; the form is not kept, the decision is to be made anew."""
    task = console_task.read_task(task_id)
    if task is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": str(task_id)})
    if refusal.outcome is Outcome.INVALID:
        for error in refusal.errors:
            name = error.pointer.strip("/").split("/")[0]
            form.add_error(name if name in form.fields else None, in_words(error.detail))
        return _ask(
            request,
            "console/decide_task.html",
            _task_context(task, verb, permit(request, "cancel"), form),
        )
    shown = form.cleaned_data
    changes = [
        (_("State"), shown["shown_state"], task.state),
        (_("State version"), str(shown["expected_state_version"]), str(task.state_version)),
        (_("Owner"), shown["shown_owner"] or "—", task.owner or "—"),
        (_("Generation"), str(shown["shown_generation"]), str(task.claim_generation)),
    ]
    since = events.list_events(events.EventFilters(task_id=task_id))
    since = since.filter(state_version__gt=shown["expected_state_version"]).exclude(kind="REFUSED")
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": changes,
        "events": [events.event_record(row) for row in since[:EVENTS_SINCE]],
        "back": request.path,
        "subject": visible_in_attribute(task.node_id),
        "task": task,
    }
    return refuse(request, 409, context)


def _refused_run(
    request: HttpRequest, run_id: UUID, seen: RunSeen, refusal: Refusal
) -> HttpResponse:
    run = runs.find_run(run_id)
    if run is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": str(run_id)})
    now = runs.see_run(run.pk, run.state)
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": [] if now == seen else differences(request, seen, now),
        "back": request.path,
        "subject": "",
    }
    return refuse(request, 409, context)
