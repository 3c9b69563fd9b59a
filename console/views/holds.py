"""Letting a task go that a restore holds: a person's word, asked for on a page of its own (contract 12)."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.forms import TaskDecision, new_action_key
from console.pages import forbid, page, refuse, show
from console.people import Permit, actor_of, permit
from console.service_words import in_words
from console.visible import visible_in_attribute
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import console_task
from coordinator.selectors.console_task import TaskFacts
from coordinator.services.restore_holds import release_restore_hold


@page(methods=("GET", "HEAD", "POST"))
def release(request: HttpRequest, task_id: UUID) -> HttpResponse:
    """The form is disabled, with the reason, for who may not settle effects; the server refuses them anyway."""
    task = console_task.read_task(task_id)
    if task is None:
        return refuse(request, 404, {"what": str(task_id)})
    allowed = permit(request, "reconcile")
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "release_restore_hold")
    form = TaskDecision(request.POST or None)
    if request.method != "POST" or not form.is_valid():
        return _ask(request, task, allowed, form)
    answer = release_restore_hold(
        task_id=task_id,
        expected_state_version=form.cleaned_data["expected_state_version"],
        reason=form.cleaned_data["reason"],
        actor=actor_of(request),
    )
    if not isinstance(answer, Refusal):
        messages.success(request, _("Released: it is %(state)s.") % {"state": answer.state})
        return redirect("console:task", task_id=task_id)
    if answer.outcome is Outcome.INVALID:
        for error in answer.errors:
            name = error.pointer.strip("/")
            form.add_error(name if name in form.fields else None, in_words(error.detail))
        return _ask(request, task, allowed, form)
    return _refused(request, task_id, form, answer)


def _ask(
    request: HttpRequest, task: TaskFacts, allowed: Permit, form: TaskDecision
) -> HttpResponse:
    context: dict[str, Any] = {
        "task": task,
        "hold": console_task.read_restore_hold(task.task_id),
        "allowed": allowed,
        "form": form,
        "action_key": new_action_key(),
    }
    status = 422 if form.is_bound else 200
    return show(request, "console/decide_release.html", context, status=status)


def _refused(
    request: HttpRequest, task_id: UUID, form: TaskDecision, refusal: Refusal
) -> HttpResponse:
    """409 with what changed since the person looked; the decision is to be made anew."""
    task = console_task.read_task(task_id)
    if task is None or refusal.outcome is Outcome.NOT_FOUND:
        return refuse(request, 404, {"what": str(task_id)})
    shown = form.cleaned_data
    changes = [
        (_("State"), shown["shown_state"], task.state),
        (_("State version"), str(shown["expected_state_version"]), str(task.state_version)),
    ]
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": changes,
        "back": request.path,
        "subject": visible_in_attribute(task.node_id),
        "task": task,
    }
    return refuse(request, 409, context)
