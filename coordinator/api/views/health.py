"""Whether the process answers and whether it may be sent requests; neither needs a credential (contract 12)."""

from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

from coordinator.api.problems import Fault, Problem, render_problem
from coordinator.services.identity import standing_hold

_migrated = False


def healthz(_request: HttpRequest) -> HttpResponse:
    return _well({"status": "ok"})


def readyz(request: HttpRequest) -> HttpResponse:
    """200 once the database is reachable, migrated and the one that it says it is; else a 503 that tells no more."""
    try:
        ready = _is_ready()
    except DatabaseError:
        ready = False
    if ready:
        return _well({"status": "ready"})
    return render_problem(
        Problem(Fault.UNAVAILABLE, "Not ready yet."), request_id=getattr(request, "request_id", "")
    )


def _is_ready() -> bool:
    global _migrated  # noqa: PLW0603 (a schema is never migrated back under a running server)
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    if not _migrated:
        executor = MigrationExecutor(connection)
        _migrated = not executor.migration_plan(executor.loader.graph.leaf_nodes())
    return _migrated and not standing_hold()


def _well(body: dict[str, str]) -> HttpResponse:
    return JsonResponse(body, headers={"Cache-Control": "no-store"})
