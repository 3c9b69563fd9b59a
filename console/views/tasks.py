"""`/tasks`: the list with its filters, and one task under its tabs."""

from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import reverse

from console.bulk_words import all_words
from console.candidates import compare_candidates
from console.cases import Case
from console.columns import Column
from console.files import Item, file_of
from console.filters import as_number, as_uuid
from console.listings import read_listing, wanted_of
from console.masks import shown_masked
from console.neighbourhoods import draw_neighbourhood
from console.pages import page, refuse, shell_of, show
from console.people import permit
from console.preferences import read_preferences
from console.saved_views import SHOWN, read_views
from console.sentences import tell
from console.timelines import draw_timeline
from coordinator.selectors import (
    console_attempts,
    console_effect,
    console_task,
    events,
    explain,
    tasks,
)
from coordinator.selectors.console_tasks import TaskListRow
from coordinator.selectors.saved_views import MAX_FACETS, Facets, read_facets
from coordinator.selectors.task_exports import export_tasks
from coordinator.selectors.task_filters import STRETCH
from coordinator.states import CANCELLABLE_TASK, TaskState

EVENTS_A_PAGE = 100
_REVISABLE = CANCELLABLE_TASK | {TaskState.COMMITTED, TaskState.FAILED}
_REOPENABLE = frozenset({TaskState.CANCELLED, TaskState.FAILED})


@page()
def task_list(request: HttpRequest) -> HttpResponse:
    listing = read_listing(request)
    context = {
        "listing": listing,
        "wanted": listing.wanted,
        "all_columns": list(Column),
        "stretch": STRETCH,
        "verbs": all_words(),
        "queue_facets": [(name, None) for name in shell_of(request).queue_names[:MAX_FACETS]],
        "facets_query": request.GET.urlencode(),
        "may_cancel": permit(request, "cancel"),
    }
    return show(request, "console/tasks.html", context, every_seconds=10, poll=listing.poll)


@page()
def task_facets(request: HttpRequest) -> HttpResponse:
    """Views, queues and kinds with their counts: read apart from the list, which never waits for them."""
    wanted = wanted_of(request.GET)
    queues = list(shell_of(request).queue_names)
    found = read_facets(wanted.tasks, queues) if wanted.is_understood else Facets({}, {})
    context = {
        "wanted": wanted,
        "views": read_views(shown=SHOWN, counted=True),
        "queue_facets": list(found.queues.items()),
        "kind_facets": list(found.kinds.items()),
    }
    return show(request, "console/tasks/facets.html", context)


@page()
def task_export(request: HttpRequest, form: str) -> HttpResponseBase:
    """`form` is `ndjson` or `csv`: the tasks of the filter, whatever columns the page shows."""
    wanted = wanted_of(request.GET)
    if not wanted.is_understood:
        name, fault = next(iter(wanted.faults.items()))
        return refuse(request, 404, {"what": f"{name}: {fault}"})
    found = export_tasks(wanted.tasks, before=as_uuid(request.GET.get("before")))
    made = file_of("tasks", form, map(_exported, found), list(TaskListRow.__dataclass_fields__))
    return made or refuse(request, 404, {"what": form})


def _exported(row: TaskListRow | UUID) -> Item:
    """A row of the file, or where it would go on. Shallow: a file has a hundred thousand of them."""
    if isinstance(row, UUID):
        return str(row)
    return {name: getattr(row, name) for name in TaskListRow.__dataclass_fields__}


@page()
def task_attempts(request: HttpRequest, task_id: UUID) -> HttpResponse:
    return _task(request, task_id, "attempts")


@page()
def task_candidates(request: HttpRequest, task_id: UUID) -> HttpResponse:
    chosen = request.GET.get("with", "")
    readable = bool(permit(request, "view_payload"))
    return _task(
        request,
        task_id,
        "candidates",
        compared=compare_candidates(task_id, chosen, readable=readable),
    )


@page()
def task_effects(request: HttpRequest, task_id: UUID) -> HttpResponse:
    ledger = console_effect.effects_of_task(
        task_id, with_payload=bool(permit(request, "view_payload"))
    )
    return _task(request, task_id, "effects", ledger=ledger)


@page()
def task_graph(request: HttpRequest, task_id: UUID) -> HttpResponse:
    return _task(request, task_id, "graph")


@page()
def task_events(request: HttpRequest, task_id: UUID) -> HttpResponse:
    kind, before = request.GET.get("kind", ""), as_number(request.GET.get("before"))
    rows = events.list_events(events.EventFilters(task_id=task_id, kind=kind or None))
    if before:
        rows = rows.filter(id__lt=before)
    found = [events.event_record(row) for row in rows[: EVENTS_A_PAGE + 1]]
    return _task(
        request,
        task_id,
        "events",
        events=found[:EVENTS_A_PAGE],
        kind=kind,
        kinds=console_task.read_event_kinds(task_id),
        older=found[EVENTS_A_PAGE - 1].id if len(found) > EVENTS_A_PAGE else None,
    )


@page(needs="view_payload")
def task_input(request: HttpRequest, task_id: UUID) -> HttpResponse:
    payloads = {
        "input": shown_masked(console_task.read_input(task_id, whole=True)),
        "result": shown_masked(console_task.read_result(task_id, whole=True)),
    }
    may_reveal = permit(request, "reveal_secrets")
    return _task(request, task_id, "input", payloads=payloads, may_reveal=may_reveal)


@page()
def task_raw(request: HttpRequest, task_id: UUID) -> HttpResponse:
    task = tasks.find_task(task_id)
    attempts = [tasks.attempt_record(row) for row in tasks.list_attempts(task_id)[:50]]
    record = asdict(tasks.task_record(task)) if task else {}
    record.pop("input", None)  # a permission of its own; the tab beside this one has it
    return _task(request, task_id, "raw", record=record, attempt_records=attempts)


def _task(request: HttpRequest, task_id: UUID, tab: str, **of_tab: Any) -> HttpResponse:
    """The part that every tab has, and the tab's own."""
    task, history = console_task.read_task(task_id), console_attempts.read_history(task_id)
    explanation = explain.explain_task(task_id)
    if task is None or history is None or explanation is None:
        return refuse(request, 404, {"what": str(task_id)})
    now, neighbours = shell_of(request).now, console_task.read_neighbours(task_id)
    case = Case(
        task=task,
        explanation=explanation,
        neighbours=neighbours,
        last_change=console_task.read_last_change(task_id),
        late_refusals=sum(mark.repeats + 1 for mark in history.refusals),
        last_error=history.attempts[0].error if history.attempts else None,
        now=now,
        zone=read_preferences(request).tzinfo,
    )
    context = {
        "task": task,
        "verdict": tell(case),
        "history": history,
        "timeline": draw_timeline(history, now=now) if tab == "attempts" else None,
        "neighbours": neighbours,
        "drawing": draw_neighbourhood(task, neighbours) if tab == "graph" else None,
        "parts": console_task.count_parts(task_id),
        "hold": console_task.read_restore_hold(task_id),
        "tab": tab,
        "tab_url": request.path,
        "may_cancel": permit(request, "cancel"),
        "may_view_payload": permit(request, "view_payload"),
        "cancellable": task.state in CANCELLABLE_TASK,
        "reopenable": task.state in _REOPENABLE,
        "revisable": task.state in _REVISABLE,
        "here": request.build_absolute_uri(reverse("console:task", args=[task_id])),
        **of_tab,
    }
    settled = task.state in (TaskState.COMMITTED, TaskState.SUPERSEDED, TaskState.CANCELLED)
    return show(request, "console/task.html", context, every_seconds=15 if settled else 3)
