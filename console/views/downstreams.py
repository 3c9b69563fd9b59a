"""`/downstreams`: what each outside system guarantees, what is unsettled there, and whether it can be asked."""

from dataclasses import asdict
from typing import Any

import orjson
from django.contrib import messages
from django.core import signing
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _

from console.access_forms import take_faults
from console.downstream_forms import DownstreamForm, as_initial
from console.guarantees import NAMES, SECOND_ARRIVAL, sentences_of
from console.pages import forbid, page, refuse, show
from console.people import actor_of, permit
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import downstreams, events
from coordinator.selectors.console_counts import in_time
from coordinator.selectors.console_downstreams import count_unsettled
from coordinator.selectors.downstreams import DownstreamRecord
from coordinator.services.downstreams import change_downstream, register_downstream
from coordinator.services.trial_look_ups import try_look_up
from coordinator.site.adapters import registered_adapters

MOST = 200
EVENTS_SHOWN = 20
_BOTH = ("GET", "HEAD", "POST")
_KINDS = ["DOWNSTREAM_REGISTERED", "DOWNSTREAM_CHANGED", "DOWNSTREAM_ASKED"]


@page()
def downstream_list(request: HttpRequest) -> HttpResponse:
    rows = downstreams.all_downstreams().order_by("name")[: MOST + 1]
    found = [downstreams.downstream_record(row) for row in rows]
    unsettled, adapters = count_unsettled(), registered_adapters()
    listed = [
        (each, sentences_of(each), unsettled.get(each.name), _can_be_asked(adapters, each.name))
        for each in found[:MOST]
    ]
    context = {
        "listed": listed,
        "more": len(found) > MOST,
        "may_administer": permit(request, "administer"),
    }
    return show(request, "console/downstreams.html", context, every_seconds=10)


@page()
def downstream(request: HttpRequest, name: str) -> HttpResponse:
    found = downstreams.find_downstream(name)
    if found is None:
        return refuse(request, 404, {"what": name})
    return show(request, "console/downstream.html", _of(request, found))


@page(methods=_BOTH)
def register(request: HttpRequest) -> HttpResponse:
    allowed = permit(request, "administer")
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "register_downstream")
    form = DownstreamForm(request.POST or None, registering=True)
    if request.method == "POST" and form.is_valid():
        answer = register_downstream(
            name=form.cleaned_data["name"],
            actor=actor_of(request),
            reason=form.cleaned_data["reason"],
            **form.described,
        )
        if isinstance(answer, DownstreamRecord):
            messages.success(request, _("Registered. Slots may name it from now on."))
            return redirect("console:downstream", name=answer.name)
        take_faults(form, answer)
    return _form(request, form, None, allowed)


@page(methods=_BOTH)
def change(request: HttpRequest, name: str) -> HttpResponse:
    found, allowed = downstreams.find_downstream(name), permit(request, "administer")
    if found is None:
        return refuse(request, 404, {"what": name})
    if request.method == "POST" and not allowed:
        return forbid(request, allowed, "change_downstream")
    form = DownstreamForm(request.POST or None, registering=False)
    if request.method == "POST" and form.is_valid():
        shown = _read_shown(request.POST.get("shown", ""), found)
        answer: DownstreamRecord | Refusal = (
            change_downstream(
                name=name,
                changes=form.described,
                actor=actor_of(request),
                reason=form.cleaned_data["reason"],
                shown=shown,
            )
            if shown
            else Refusal(Outcome.STATE_VERSION_MISMATCH, _("The form is not one of this page."))
        )
        if isinstance(answer, DownstreamRecord):
            messages.success(request, _("Changed. Effects that are bound keep what they have."))
            return redirect("console:downstream", name=name)
        if answer.outcome is Outcome.STATE_VERSION_MISMATCH:
            return _changed_meanwhile(request, shown, name, answer)
        take_faults(form, answer)
    return _form(request, form, found, allowed)


@page(needs="reconcile", methods=("POST",))
def ask(request: HttpRequest, name: str) -> HttpResponse:
    """Try the look-up. It settles nothing; what was said stands on the page and in the history."""
    found, adapter = downstreams.find_downstream(name), registered_adapters().get(name)
    if found is None:
        return refuse(request, 404, {"what": name})
    if adapter is None or not adapter.can_be_asked:
        told = _("No adapter that can be asked is registered for it.")
        return refuse(request, 409, {"detail": told, "back": _page_of(request)})
    asked = try_look_up(downstream=name, adapter=adapter, actor=actor_of(request))
    if isinstance(asked, Refusal):
        return refuse(request, 409, {"detail": asked.detail, "back": _page_of(request)})
    return show(request, "console/downstream.html", {**_of(request, found), "asked": asked})


def _of(request: HttpRequest, found: DownstreamRecord) -> dict[str, Any]:
    history = events.list_events(events.EventFilters(without_task=True))
    history = history.filter(kind__in=_KINDS, data__name=found.name)[:EVENTS_SHOWN]
    told = in_time(lambda: [events.event_record(row) for row in history])
    return {
        "downstream": found,
        "sentences": sentences_of(found),
        "unsettled": count_unsettled().get(found.name),
        "askable": _can_be_asked(registered_adapters(), found.name),
        "may_administer": permit(request, "administer"),
        "may_ask": permit(request, "reconcile"),
        "events": told or [],
    }


def _form(
    request: HttpRequest, form: DownstreamForm, found: DownstreamRecord | None, allowed: Any
) -> HttpResponse:
    context = {
        "form": form,
        "values": form.data if form.is_bound else as_initial(found),
        "downstream": found,
        "shown": _write_shown(found) if found else "",
        "guarantees": SECOND_ARRIVAL,
        "allowed": allowed,
    }
    status = 422 if form.is_bound else 200
    return show(request, "console/downstream_form.html", context, status=status)


def _write_shown(found: DownstreamRecord) -> str:
    """What the page shows, signed, to come back with the decision."""
    return signing.dumps(orjson.dumps(asdict(found)).decode(), salt="tenure.downstream")


def _read_shown(text: str, now: DownstreamRecord) -> DownstreamRecord | None:
    try:
        told = orjson.loads(signing.loads(text, salt="tenure.downstream"))
    except signing.BadSignature:
        return None
    if set(told) != set(asdict(now)) or told["name"] != now.name:
        return None
    told |= {"created_at": now.created_at, "secret_pointers": tuple(told["secret_pointers"])}
    return DownstreamRecord(**told)


def _changed_meanwhile(
    request: HttpRequest, shown: DownstreamRecord | None, name: str, refusal: Refusal
) -> HttpResponse:
    now = downstreams.find_downstream(name)
    changes = [
        (str(word), str(getattr(shown, field)), str(getattr(now, field)))
        for field, word in NAMES.items()
        if shown and now
    ]
    context = {
        "refusal": refusal,
        "detail": refusal.detail,
        "changes": changes,
        "back": request.path,
    }
    return refuse(request, 409, context)


def _can_be_asked(adapters: Any, name: str) -> bool:
    return name in adapters and bool(adapters[name].can_be_asked)


def _page_of(request: HttpRequest) -> str:
    return request.path.removesuffix("/ask")
