"""Every refusal of the API is a problem document with a stable type; a bug tells nothing of itself (contract 5)."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test import Client

from coordinator.api import problems
from coordinator.api.views import queues
from coordinator.outcomes import Current, FieldError, Outcome, Reason, Refusal, Retry
from tests.console.test_unavailable import held

from .callers import BASE, Api, make_world

# Contract 5's table, written out: outcome, status, retry.
TABLE = """
FENCED 409 reclaim
STALE_INPUT 409 never
CANCELLED 409 never
NOT_CLAIMABLE 409 after
STATE_VERSION_MISMATCH 409 after
MEMORY_CONFLICT 409 after
STALE_EVIDENCE 409 after
ALREADY_COMMITTED 409 never
ALREADY_REDEEMED 409 never
LEASE_LIMIT 409 never
PAYLOAD_CONFLICT 422 never
IDEMPOTENCY_CONFLICT 422 never
APPROVAL_REQUIRED 409 after
RECONCILE_FIRST 409 after
STAGE_FORBIDS 409 after
ABSENCE_NOT_SEALED 409 after
ALREADY_SETTLED 409 never
SERIAL_BUSY 409 after
GATE_CLOSED 409 after
INTAKE_STOPPED 503 after
WRONG_POOL 403 never
INCIDENT_OPEN 409 after
WRONG_STEP 409 never
NOT_DRAINED 409 after
FORBIDDEN 403 never
FENCE_MISSING 428 never
INVALID 422 never
NOT_FOUND 404 never
"""


def test_each_outcome_has_the_status_and_retry_of_the_contract() -> None:
    told = {
        (outcome.value, str(kind.status.value), Refusal(outcome, "").retry.value)
        for outcome, kind in problems.OUTCOMES.items()
    }
    assert told == {tuple(line.split()) for line in TABLE.strip().splitlines()}
    assert set(problems.OUTCOMES) == set(Outcome)


def test_types_are_distinct_and_each_is_explained_where_it_points(client: Client) -> None:
    kinds = [*problems.OUTCOMES.values(), *problems.FAULTS.values()]
    assert len({kind.type for kind in kinds}) == len(kinds)
    assert set(problems.FAULTS) == set(problems.Fault)
    for kind in kinds:
        told = client.get(kind.type).json()
        assert (told["type"], told["status"], told["title"]) == (kind.type, kind.status, kind.title)
    assert client.get(f"{BASE}/problems/no-such").status_code == 404
    assert client.post(f"{BASE}/problems").status_code == 405


def test_a_refusal_carries_all_that_it_knows() -> None:
    refusal = Refusal(
        Outcome.FENCED,
        "late",
        reason=Reason.STALE_GENERATION,
        retry_as=Retry.NEVER,
        evidence_recorded=True,
        current=Current(7, 3, 0, 12),
        errors=(FieldError("/a", "b"),),
        extra={"task_state": "COMMITTED"},
    )
    response = problems.render_refusal(refusal)
    assert response.status_code == 409
    assert response["Content-Type"] == "application/problem+json"
    import json

    assert json.loads(response.content) == {
        "type": "/api/v1/problems/fenced",
        "title": "Another attempt or a newer epoch took this one's place",
        "status": 409,
        "detail": "late",
        "outcome": "FENCED",
        "reason": "STALE_GENERATION",
        "retry": "never",
        "evidence_recorded": True,
        "current": {
            "scheduler_epoch": 7,
            "claim_generation": 3,
            "cancel_generation": 0,
            "state_version": 12,
        },
        "errors": [{"pointer": "/a", "detail": "b"}],
        "task_state": "COMMITTED",
    }


@pytest.mark.parametrize(
    "path", ["/nothing", "/tasks/", "/queues/q/claim", "//tasks", "/%00", "/../x"]
)
@pytest.mark.parametrize("signed", [True, False])
def test_an_unknown_route_is_a_problem(path: str, signed: bool, api: Api) -> None:
    reply = (api.worker if signed else api.nobody).get(path)
    assert (reply.status, reply.type) == (404, "no-such-route")
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.headers["X-Request-Id"]


def test_a_route_of_another_version_is_a_problem_too(client: Client) -> None:
    for path in ("/api/v2/tasks", "/api/", "/api"):
        assert client.get(path).headers["Content-Type"] == "application/problem+json"


def test_a_wrong_method_says_which_there_are(api: Api) -> None:
    for caller in (api.operator, api.nobody):
        reply = caller.send("DELETE", "/queues")
        assert (reply.status, reply.type) == (405, "method-not-allowed")
        assert set(reply.headers["Allow"].split(", ")) == {"GET", "POST", "HEAD"}


def test_head_answers_as_get_does_without_the_body(api: Api) -> None:
    reply = api.operator.send("HEAD", "/queues")
    assert (reply.status, reply.body) == (200, b"")


def test_a_callers_request_id_comes_back_and_is_in_the_events(api: Api) -> None:
    reply = api.operator.post(
        "/queues/q/intake", {"intake": "STOPPED", "reason": "r"}, X_Request_Id="my-request-0001"
    )
    assert reply.headers["X-Request-Id"] == "my-request-0001"
    from coordinator.models import Event

    assert Event.objects.get(kind="INTAKE_STOPPED").request_id == "my-request-0001"


def test_answers_are_never_stored_nor_run_by_a_browser(api: Api) -> None:
    for reply in (
        api.operator.get("/queues"),
        api.operator.get("/nothing"),
        api.nobody.get("/queues"),
    ):
        assert reply.headers["Cache-Control"] == "no-store"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]


def test_a_bug_is_a_500_with_the_request_id_and_nothing_of_its_inside(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise ZeroDivisionError("the secret inside")

    monkeypatch.setattr(queues, "all_queues", broken)
    reply = api.operator.get("/queues", X_Request_Id="find-me-in-logs")
    assert (reply.status, reply.type, reply.body["retry"]) == (500, "internal-error", "same")
    assert reply.body["request_id"] == "find-me-in-logs"
    assert "secret" not in str(reply.body)
    assert "ZeroDivision" not in str(reply.body)


@pytest.fixture
def locked_queue(api: Api) -> Iterator[None]:
    """Somebody holds the gate of `q` for longer than anyone waits."""
    from coordinator.models import Queue

    parameters = connection.get_connection_params()
    wanted = {
        name: parameters[name]
        for name in ("host", "port", "user", "password", "dbname")
        if parameters.get(name)
    }
    with psycopg.connect(psycopg.conninfo.make_conninfo("", **wanted)) as holder:
        holder.execute("SELECT pg_advisory_xact_lock(1, %s)", (Queue.objects.get(name="q").pk,))
        yield


@pytest.mark.slow
def test_a_database_that_is_too_busy_is_503_with_retry_after(locked_queue: None, api: Api) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = 20")
    try:
        reply = api.worker.keyed("/queues/q/claims", {"scheduler_epoch": 1, "owner": "w"})
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert (reply.status, reply.type, reply.body["retry"]) == (503, "unavailable", "same")
    assert int(reply.headers["Retry-After"]) >= 1
    assert reply.outcome is None


@pytest.mark.django_db(transaction=True)
def test_a_list_that_takes_too_long_is_503_and_says_what_makes_it_shorter() -> None:
    caller = make_world().operator
    with held("coordinator_task", timeout="statement_timeout"):
        reply = caller.get("/tasks?kind=rare")
    assert (reply.status, reply.type, reply.body["retry"]) == (503, "unavailable", "same")
    assert "Narrow it (queue, state, run, task)" in reply.body["detail"]


@pytest.mark.parametrize("signed", [True, False])
def test_a_host_that_is_not_ours_is_a_problem(signed: bool, api: Api) -> None:
    reply = (api.worker if signed else api.nobody).get("/me", Host="evil.example")
    assert reply.status == 400
    assert reply.headers["Content-Type"] == "application/problem+json"


def test_health_tells_no_more_than_that_it_is_well(client: Client, api: Api) -> None:
    for path in ("/healthz", "/readyz", f"{BASE}/healthz", f"{BASE}/readyz"):
        reply = client.get(path)
        assert (reply.status_code, list(reply.json())) == (200, ["status"])
