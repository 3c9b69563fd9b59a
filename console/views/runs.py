"""`/runs`: the list, and one run as a drawing, as lists, as lineage."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse

from console.filters import as_number, run_state
from console.graphs import FOLD_ABOVE, draw_dag
from console.pages import page, refuse, show
from console.people import permit
from coordinator.secrets import mask_text
from coordinator.selectors import console_runs, lineage, runs
from coordinator.states import RunState

LISTED = 100
LINEAGE_SHOWN = 200


@page()
def run_list(request: HttpRequest) -> HttpResponse:
    state, queue = run_state(request.GET.get("state")), request.GET.get("queue", "")
    held = [
        number
        for number in map(as_number, request.GET.get("held", "").split(","))
        if number is not None
    ]
    listing = console_runs.list_runs(
        state=state,
        queue=queue,
        before=as_number(request.GET.get("before")),
        after=as_number(request.GET.get("after")),
        held=held,
    )
    typed = {
        name: value for name, value in (("state", str(state or "")), ("queue", queue)) if value
    }
    context = {"page": listing, "typed": typed, "states": list(RunState)}
    poll = {"held": ",".join(str(row.id) for row in listing.rows)}
    return show(request, "console/runs.html", context, every_seconds=10, poll=poll)


@page()
def run_graph(request: HttpRequest, run_id: UUID) -> HttpResponse:
    run = runs.find_run(run_id)
    if run is None:
        return refuse(request, 404, {"what": str(run_id)})
    unfold = request.GET.get("unfold") == "1"
    graph = runs.read_graph(run)
    context = {
        **_run_context(request, run),
        "tab": "graph",
        "drawing": draw_dag(graph, unfold=unfold),
        "unfold": unfold,
        "may_unfold": len(graph.nodes) <= FOLD_ABOVE,
        "nodes": graph.nodes[:LISTED],
        "more_nodes": max(0, len(graph.nodes) - LISTED),
    }
    return show(request, "console/run.html", context, every_seconds=_cadence(run))


@page()
def run_lineage(request: HttpRequest, run_id: UUID) -> HttpResponse:
    run = runs.find_run(run_id)
    if run is None:
        return refuse(request, 404, {"what": str(run_id)})
    commits = lineage.read_lineage(run).commits
    context = {
        **_run_context(request, run),
        "tab": "lineage",
        "commits": commits[:LINEAGE_SHOWN],
        "more_commits": max(0, len(commits) - LINEAGE_SHOWN),
    }
    return show(request, "console/run.html", context, every_seconds=_cadence(run))


def _run_context(request: HttpRequest, run: Any) -> dict[str, Any]:
    progress = runs.progress_of([run])[run.pk]
    shown = permit(request, "view_payload") and run.metadata != "{}"
    return {
        "run": run,
        "states": progress,
        "committed": progress.get("COMMITTED", 0),
        "metadata": mask_text(run.metadata) if shown else None,
        "may_reveal": permit(request, "reveal_secrets"),
        "may_cancel": permit(request, "cancel"),
    }


def _cadence(run: Any) -> int:
    """A finished run may be reopened; a large one costs more to read."""
    if run.state != RunState.ACTIVE:
        return 15
    return 3 if run.node_count <= FOLD_ABOVE else 10
