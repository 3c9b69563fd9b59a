"""`/tasks/bulk`: a set of tasks that is frozen at the review, then worked through, with an outcome for each."""

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from console.bindings import differences
from console.bulk_words import words_of
from console.filters import as_uuid, wanted_tasks
from console.forms import BulkDecision, SnoozeStart
from console.pages import forbid, page, refuse, shell_of, show
from console.people import actor_of, permit
from console.preferences import read_preferences
from console.service_words import in_words
from console.templatetags.console import spaced
from coordinator.outcomes import Outcome, Refusal
from coordinator.seen import BulkSeen
from coordinator.selectors.console_bulks import JOBS_SHOWN, Bulk, list_bulks, read_bulk
from coordinator.services.bulk_steps import CHANGED
from coordinator.services.bulk_undoing import undo_bulk
from coordinator.services.bulks import (
    CANNOT,
    DONE,
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
    found = list_bulks(before=as_uuid(request.GET.get("before")))
    context = {
        "bulks": [(*row, words_of(row[0].verb).verb) for row in found[:JOBS_SHOWN]],
        "older": found[JOBS_SHOWN - 1][0].bulk_id if len(found) > JOBS_SHOWN else None,
    }
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
    if all_of_it and not wanted.is_understood:
        detail = _("The filter has a fault; mend it first. Nothing was reviewed.")
        return refuse(request, 409, {"detail": detail, "back": f"/tasks{wanted.link()}"})
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
    form = _form(request, found)
    if request.method == "POST" and form.is_valid():
        answer = start_bulk(
            bulk_id=bulk_id,
            reason=form.cleaned_data["reason"],
            not_before=form.cleaned_data.get("not_before"),
            actor=actor_of(request),
            seen=form.cleaned_data["seen"],
        )
        if not isinstance(answer, Refusal):
            return redirect("console:task-bulk", bulk_id=bulk_id)
        if answer.outcome is not Outcome.INVALID or "until" not in form.fields:
            return _changed(request, bulk_id, form.cleaned_data["seen"], answer)
        form.add_error("until", in_words(answer.errors[0].detail))
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
    form = BulkDecision(request.POST or None)
    if request.method == "POST" and form.is_valid():
        told = form.cleaned_data
        answer = stop_bulk(
            bulk_id=bulk_id, reason=told["reason"], actor=actor_of(request), seen=told["seen"]
        )
        if isinstance(answer, Refusal):
            return _changed(request, bulk_id, told["seen"], answer)
        messages.success(request, _("Stopped. What is done stays done."))
        return redirect("console:task-bulk", bulk_id=bulk_id)
    context = {**_of(request, found), "allowed": allowed, "form": form}
    return show(request, "console/bulk_stop.html", context, status=422 if form.is_bound else 200)


@page(methods=("POST",))
def undo(request: HttpRequest, bulk_id: UUID) -> HttpResponse:
    """Take a snooze back as a whole, by a job of its own; reversible, and so without a form (console design, 3.5)."""
    allowed = permit(request, "cancel")
    if not allowed:
        return forbid(request, allowed, "undo_bulk")
    answer = undo_bulk(bulk_id=bulk_id, actor=actor_of(request))
    if isinstance(answer, Refusal):
        if answer.outcome is Outcome.NOT_FOUND:
            return refuse(request, 404, {"what": str(bulk_id)})
        return _refused(request, answer)
    return redirect("console:task-bulk", bulk_id=answer.bulk_id)


def _form(request: HttpRequest, found: Bulk) -> BulkDecision:
    if found.facts.verb != Verb.SNOOZE:
        return BulkDecision(request.POST or None)
    zone = read_preferences(request).tzinfo
    return SnoozeStart(request.POST or None, now=shell_of(request).now, zone=zone)


def _of(request: HttpRequest, found: Bulk) -> dict[str, Any]:
    outcomes = sorted(found.counts, key=lambda o: (_ORDER.index(o) if o in _ORDER else 99, o))
    words = words_of(found.facts.verb)
    return {
        "bulk": found,
        "seen": found.facts.seen,
        "words": words,
        "act": words.act(found.waiting, spaced(found.waiting)),
        "undoable": found.facts.verb == Verb.SNOOZE
        and found.counts.get(DONE, 0) > 0
        and not found.waiting
        and found.undone_by is None,
        "mine": found.facts.operator == request.user.pk,
        "most": MAX_TASKS,
        "parts": [
            (outcome, found.counts[outcome], found.rows.get(outcome, ())) for outcome in outcomes
        ],
    }


def _changed(request: HttpRequest, bulk_id: UUID, seen: BulkSeen, refusal: Refusal) -> HttpResponse:
    """As `_refused`, with what has become of the job since the form was shown."""
    found = read_bulk(bulk_id)
    if found is None:
        return refuse(request, 404, {"what": str(bulk_id)})
    if refusal.outcome is Outcome.FORBIDDEN or found.facts.seen == seen:
        return _refused(request, refusal)
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": differences(request, seen, found.facts.seen),
        "back": reverse("console:task-bulk", args=[bulk_id]),
    }
    return refuse(request, 409, context)


def _refused(request: HttpRequest, refusal: Refusal) -> HttpResponse:
    if refusal.outcome is Outcome.FORBIDDEN:
        return refuse(request, 403, {"why": _("Only who reviewed this set may start it.")})
    context = {"refusal": refusal, "detail": refusal.detail, "back": "/tasks"}
    return refuse(request, 409, context)
