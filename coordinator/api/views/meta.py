"""What the API says of itself: its problems, its schema, and that a route is none."""

from typing import Any

from django.http import HttpRequest, HttpResponse

from coordinator.api.endpoint import JSON, encode
from coordinator.api.problems import FAULTS, OUTCOMES, Fault, Kind, Problem, render_problem
from coordinator.outcomes import DEFAULT_RETRY


def unknown_route(request: HttpRequest, **_path: Any) -> HttpResponse:
    return render_problem(
        Problem(Fault.NO_ROUTE, f"{request.path} is no route of this API; /api/v1/docs lists them.")
    )


def problem_types(request: HttpRequest, slug: str = "") -> HttpResponse:
    """What each `type` of a problem means; needs no credential, because it tells nothing of the data."""
    if request.method not in ("GET", "HEAD"):
        return render_problem(Problem(Fault.METHOD, "Read it.", headers={"Allow": "GET, HEAD"}))
    told = {kind.slug: _told(kind, outcome) for outcome, kind in OUTCOMES.items()}
    told |= {kind.slug: _told(kind, None) for kind in FAULTS.values()}
    if slug and slug not in told:
        return unknown_route(request)
    body = told[slug] if slug else {"results": list(told.values())}
    return HttpResponse(encode(body), content_type=JSON, headers={"Cache-Control": "no-store"})


def _told(kind: Kind, outcome: Any) -> dict[str, Any]:
    return {
        "type": kind.type,
        "status": kind.status.value,
        "title": kind.title,
        "outcome": outcome,
        "retry": DEFAULT_RETRY[outcome] if outcome else None,
    }
