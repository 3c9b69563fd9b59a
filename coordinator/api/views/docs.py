"""The schema, and the page that shows it: everything on it comes from this host (contract 5)."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import cache_control

from coordinator.api.endpoint import JSON
from coordinator.api.problems import Fault, Problem, render_problem


@cache_control(no_cache=True)
def openapi(request: HttpRequest) -> HttpResponse:
    """The OpenAPI document. It tells nothing of the data, so that it needs no credential."""
    if not _reads(request):
        return _only_reads()
    # What makes the schema brings five megabytes of modules along, which most web processes are never asked for.
    from coordinator.api.schema import schema_bytes

    return HttpResponse(schema_bytes(), content_type=JSON)


@cache_control(no_cache=True)
def browse(request: HttpRequest) -> HttpResponse:
    return render(request, "coordinator/api_docs.html") if _reads(request) else _only_reads()


def _reads(request: HttpRequest) -> bool:
    return request.method in ("GET", "HEAD")


def _only_reads() -> HttpResponse:
    return render_problem(Problem(Fault.METHOD, "Read it.", headers={"Allow": "GET, HEAD"}))
