"""`/tasks/bulk`: a set of tasks that is frozen at the review, then worked through, with an outcome for each."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.filters import as_uuid, wanted_tasks
from console.forms import Reason
from console.pages import forbid, page, refuse, show
from console.people import actor_of, permit
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.console_bulks import Bulk, list_bulks, read_bulk
from coordinator.services.bulk_steps import CHANGED, DONE
from coordinator.services.bulks import (
    CANNOT,
    MAX_TASKS,
    STOPPED,
    Verb,
    review_bulk,
    start_bulk,
    stop_bulk,
)

_BOTH = ("GET", "HEAD", "POST")
_FILTER = "f-"
#: The order in which outcomes are told; others follow by name.
_ORDER = ("", DONE, CHANGED, STOPPED, CANNOT)


@page()
def bulk_list(request: HttpRequest) -> HttpResponse:
    context = {"bulks": list_bulks()}
    return show(request, "console/bulks.html", context, every_seconds=10)


@page(methods=("POST",))
def review(request: HttpRequest) -> HttpResponse:
    """Freeze what was selected, or what the filter finds now; nothing is done to it yet."""
    allowed = permit(request, "cancel")
    if not allowed:
        return forbid(request, allowed, "review_bulk")
    verb = request.POST.get("verb", "")
    if verb not in set(Verb):
        return refuse(request, 404, {"what": verb})
    typed = {
        name.removeprefix(_FILTER): str(value)
        for name, value in request.POST.items()
        if name.startswith(_FILTER)
    }
    wanted = wanted_tasks(typed)
    all_of_it = request.POST.get("all") == "1"
    picked = [found for found in map(as_uuid, request.POST.getlist("task")[:MAX_TASKS]) if found]
    answer = review_bulk(
        verb=Verb(verb),
        wanted=wanted.tasks if all_of_it else None,
        task_ids=picked,
        asked=wanted.link() if all_of_it else "",
        actor=actor_of(request),
    )
    if isinstance(answer, Refusal):
        detail = _("No task was selected, or the filter leads through too many. Choose again.")
        return refuse(request, 409, {"detail": detail, "back": f"/tasks{wanted.link()}"})
    return redirect("console:task-bulk", bulk_id=answer.bulk_id)


@page(methods=_BOTH)
def bulk(request: HttpRequest, bulk_id: UUID) -> HttpResponse:
    """The review until it is started, then its progress; the address stays the same."""
    found, allowed = read_bulk(bulk_id), permit(request, "cancel")
    if found is None:
        return refuse(request, 404, {"what": str(bulk_id)})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "start_bulk")
    form = Reason(request.POST or None)
    if request.method == "POST" and form.is_valid():
        answer = start_bulk(
            bulk_id=bulk_id, reason=form.cleaned_data["reason"], actor=actor_of(request)
        )
        if not isinstance(answer, Refusal):
            return redirect("console:task-bulk", bulk_id=bulk_id)
        return _refused(request, answer)
    context = {**_of(request, found), "allowed": allowed, "form": form}
    if found.facts.state == "REVIEWED":
        status = 422 if form.is_bound else 200
        return show(request, "console/bulk_review.html", context, status=status)
    every = 2 if found.facts.state == "RUNNING" else 15
    return show(request, "console/bulk.html", context, every_seconds=every)


@page(methods=_BOTH)
def stop(request: HttpRequest, bulk_id: UUID) -> HttpResponse:
    found, allowed = read_bulk(bulk_id), permit(request, "cancel")
    if found is None:
        return refuse(request, 404, {"what": str(bulk_id)})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "stop_bulk")
    form = Reason(request.POST or None)
    if request.method == "POST" and form.is_valid():
        answer = stop_bulk(
            bulk_id=bulk_id, reason=form.cleaned_data["reason"], actor=actor_of(request)
        )
        if isinstance(answer, Refusal):
            return _refused(request, answer)
        messages.success(request, _("Stopped. What is done stays done."))
        return redirect("console:task-bulk", bulk_id=bulk_id)
    context = {**_of(request, found), "allowed": allowed, "form": form}
    return show(request, "console/bulk_stop.html", context, status=422 if form.is_bound else 200)


def _of(request: HttpRequest, found: Bulk) -> dict[str, Any]:
    outcomes = sorted(found.counts, key=lambda o: (_ORDER.index(o) if o in _ORDER else 99, o))
    return {
        "bulk": found,
        "mine": found.facts.operator == request.user.pk,
        "most": MAX_TASKS,
        "parts": [
            (outcome, found.counts[outcome], found.rows.get(outcome, ())) for outcome in outcomes
        ],
    }


def _refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if refusal.outcome is Outcome.FORBIDDEN:
        return refuse(request, 403, {"why": _("Only who reviewed this set may start it.")})
    context = {"refusal": refusal, "detail": refusal.detail, "back": "/tasks"}
    return refuse(request, 409, context)
