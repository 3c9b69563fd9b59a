"""Incidents over HTTP: the whole rollback, and each fault of a request by its pointer (contract 5, 12)."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection

from coordinator.models import Event
from coordinator.services.credentials import create_credential
from coordinator.services.queues import ensure_pool

from .callers import TESTS, Api, Caller, attempt_path, commit_body, new_key, person


@pytest.fixture
def second(api: Api) -> Caller:
    return person("operator")


@pytest.fixture
def green(api: Api) -> Caller:
    ensure_pool(name="green", actor=TESTS)
    _, token = create_credential(
        name="green", pool="green", queues=["q", "q2"], scopes=["work"], actor=TESTS
    )
    return Caller(token)


def opened(api: Api, **body: Any) -> str:
    reply = api.operator.keyed("/incidents", {"queue": "q", "reason": "bad deploy"} | body)
    assert reply.status == 201, reply
    return f"/incidents/{reply.body['incident_id']}"


def run_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('tenure.point', 'prune', true)")
        cursor.execute(
            "UPDATE coordinator_incidenthold SET lease_expires_at = clock_timestamp() - interval '1 second'"
        )


BUMP = {"expected_epoch": 1, "confirm": "q"}


def test_the_whole_rollback(api: Api, second: Caller, green: Caller) -> None:
    claim = api.submitted_claim()
    api.worker.post(attempt_path(claim, "stage"), {"fence": claim["fence"], "result": 1})
    incident = opened(api)
    told = api.viewer.get(incident).body
    assert (told["state"], told["version"], told["reason"]) == ("STOPPED", 1, "bad deploy")
    assert told["queues"][0]["intake"] == "STOPPED"
    preview = api.viewer.get(f"{incident}/preview").body
    assert (preview["epochs"], preview["confirm"], preview["revoked"]) == ({"q": 1}, "q", 1)
    assert preview["claims"][0]["attempt_id"] == claim["fence"]["attempt_id"]
    assert preview["staged_results"] == 1

    assert api.viewer.post(f"{incident}/bump", BUMP).status == 403
    bumped = second.post(f"{incident}/bump", BUMP | {"expected_version": 1})
    assert (bumped.status, bumped.body["state"], bumped.body["revoked"]) == (200, "BUMPED", 1)
    assert second.post(f"{incident}/bump", BUMP).body == bumped.body | {"replayed": True}
    late = api.worker.post(attempt_path(claim, "commit"), commit_body(claim))
    assert (late.outcome, late.body["reason"]) == ("FENCED", "STALE_EPOCH")

    gate = api.viewer.get(f"{incident}/gate").body
    counts = (gate["active_leases"], gate["unknown_effects"], gate["pending_results"])
    assert (counts, gate["open"]) == ((1, 0, 1), False)
    assert {row["kind"] for row in gate["blocking"]} == {"lease", "result"}
    assert gate["oldest_holder"]["owner"] == "w-1"
    closed = second.post(f"{incident}/switch", {"to_pool": "green"})
    assert (closed.status, closed.outcome, closed.body["retry"]) == (409, "NOT_DRAINED", "after")
    assert closed.body["pending_results"] == 1
    kept = second.post(f"{incident}/candidates", {"decision": "KEEP", "reason": "to compare"})
    assert (kept.status, kept.body["decided"]) == (200, 1)
    run_out()
    assert api.viewer.get(incident).body["state"] == "DRAINED"
    assert second.post(f"{incident}/switch", {"to_pool": "green"}).body["state"] == "SWITCHED"
    for body, pointer in (
        ({"percent": 10}, "/expected_version"),
        ({"percent": 101, "expected_version": 1}, "/percent"),
        ({"percent": True, "expected_version": 1}, "/percent"),
    ):
        faulty = api.operator.post(f"{incident}/resume", body)
        assert (faulty.status, faulty.pointers) == (422, {pointer})
    assert api.viewer.post(f"{incident}/resume", {"percent": 10}).status == 403
    version = api.viewer.get(incident).body["version"]
    part = api.operator.post(f"{incident}/resume", {"percent": 10, "expected_version": version})
    assert (part.status, part.body["step"], part.body["share"]) == (200, "CANARY", 10)
    stale = second.post(f"{incident}/resume", {"percent": 50, "expected_version": version})
    assert (stale.status, stale.outcome) == (409, "STATE_VERSION_MISMATCH")
    assert api.viewer.get("/queues/q").body["intake_share"] == 10
    (canary,) = api.viewer.get(incident).body["canaries"]
    assert (canary["share"], canary["held"]) == (10, False)
    resumed = api.operator.post(f"{incident}/resume", {})
    assert (resumed.status, resumed.body["state"]) == (200, "CLOSED")

    ask = {"scheduler_epoch": 2, "owner": "w"}
    wrong = api.worker.keyed("/queues/q/claims", ask)
    assert (wrong.status, wrong.outcome) == (403, "WRONG_POOL")
    assert len(green.keyed("/queues/q/claims", ask).body["claims"]) == 1
    steps = [step["step"] for step in api.viewer.get(incident).body["steps"]]
    assert steps == ["STOPPED", "BUMPED", "DRAINED", "SWITCHED", "CLOSED"]
    (listed,) = api.viewer.get("/incidents?open=false&queue=q").body["results"]
    assert listed["incident_id"] in incident
    assert api.viewer.get("/incidents?open=true").body["results"] == []


def test_opening_needs_a_key_and_repeats_its_answer(api: Api) -> None:
    body = {"queue": "q", "reason": "bad deploy"}
    missing = api.operator.post("/incidents", body)
    assert (missing.status, missing.type) == (400, "idempotency-key-missing")
    key = new_key()
    first = api.operator.post("/incidents", body, key=key)
    again = api.operator.post("/incidents", body, key=key)
    assert (first.status, again.status) == (201, 201)
    assert again.body == first.body | {"replayed": True}
    other = api.operator.keyed("/incidents", body)
    assert (other.status, other.outcome) == (409, "INCIDENT_OPEN")
    assert other.body["incident_id"] == first.body["incident_id"]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"reason": "r"}, "/queue"),
        ({"queue": "q", "all": True, "reason": "bad deploy"}, "/queue"),
        ({"queue": "q", "queues": ["q"], "reason": "bad deploy"}, "/queue"),
        ({"queue": "nowhere", "reason": "bad deploy"}, "/queue"),
        ({"queues": ["q", "nowhere"], "reason": "bad deploy"}, "/queues"),
        ({"queues": [], "reason": "bad deploy"}, "/queues"),
        ({"queue": "q"}, "/reason"),
        ({"queue": "q", "reason": ""}, "/reason"),
        ({"queue": "q", "reason": "  "}, "/reason"),
        ({"queue": "q", "reason": "bad deploy", "epoch": 1}, "/epoch"),
    ],
)
def test_a_faulty_opening_names_its_field(api: Api, body: dict[str, Any], pointer: str) -> None:
    reply = api.operator.keyed("/incidents", body)
    assert (reply.status, reply.outcome) == (422, "INVALID")
    assert pointer in reply.pointers
    assert not Event.objects.filter(kind="INCIDENT_OPENED").exists()


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"confirm": "q"}, "/expected_epoch"),
        ({"expected_epoch": "1", "confirm": "q"}, "/expected_epoch"),
        ({"expected_epoch": -1, "confirm": "q"}, "/expected_epoch"),
        ({"expected_epoch": 1, "expected_epochs": {"q": 1}, "confirm": "q"}, "/expected_epoch"),
        ({"expected_epochs": {"other": 1}, "confirm": "q"}, "/expected_epochs"),
        ({"expected_epochs": {"q": "1"}, "confirm": "q"}, "/expected_epochs/q"),
        ({"expected_epoch": 1}, "/confirm"),
        ({"expected_epoch": 1, "confirm": "Q"}, "/confirm"),
        ({"expected_epoch": 1, "confirm": "q "}, "/confirm"),
        ({"expected_epoch": 1, "confirm": "q", "expected_version": 0}, "/expected_version"),
        ({"expected_epoch": 1, "confirm": "q", "reason": 7}, "/reason"),
    ],
)
def test_a_faulty_bump_names_its_field(
    api: Api, second: Caller, body: dict[str, Any], pointer: str
) -> None:
    reply = second.post(f"{opened(api)}/bump", body)
    assert (reply.status, reply.outcome) == (422, "INVALID")
    assert pointer in reply.pointers
    assert not Event.objects.filter(kind="EPOCH_BUMPED").exists()


def test_a_lone_operator_types_a_reason_and_raises_an_alarm(api: Api) -> None:
    incident = opened(api)
    alone = api.operator.post(f"{incident}/bump", BUMP)
    assert (alone.status, alone.pointers) == (422, {"/reason"})
    bumped = api.operator.post(f"{incident}/bump", BUMP | {"reason": "nobody else is awake"})
    assert (bumped.status, bumped.body["alone"]) == (200, True)
    (alarm,) = Event.objects.filter(kind="ALARM")
    assert (alarm.data["alarm"], alarm.data["reason"]) == ("LONE_BUMP", "nobody else is awake")


def test_several_queues_are_bumped_by_the_epoch_of_each(api: Api, second: Caller) -> None:
    incident = opened(api, queue=None, queues=["q2", "q"])
    one = second.post(f"{incident}/bump", {"expected_epoch": 1, "confirm": "q, q2"})
    assert one.pointers == {"/expected_epoch"}
    body = {"expected_epochs": {"q": 1, "q2": 1}, "confirm": "q, q2"}
    stale = second.post(f"{incident}/bump", body | {"expected_epochs": {"q": 1, "q2": 2}})
    assert (stale.status, stale.outcome) == (409, "STATE_VERSION_MISMATCH")
    assert stale.body["epochs"] == {"q2": 1}
    reply = second.post(f"{incident}/bump", body)
    assert [queue["scheduler_epoch"] for queue in reply.body["queues"]] == [2, 2]


def test_a_skipped_step_says_what_comes_next(api: Api) -> None:
    incident = opened(api)
    for step, body in (("switch", {"to_pool": "blue"}), ("resume", {})):
        reply = api.operator.post(f"{incident}/{step}", body)
        assert (reply.status, reply.outcome, reply.body["retry"]) == (409, "WRONG_STEP", "after")
        assert (reply.body["state"], reply.body["evidence_recorded"]) == ("STOPPED", True)
        assert "BUMPED" in reply.body["detail"]
    aborted = api.operator.post(f"{incident}/abort", {"reason": "false alarm"})
    assert (aborted.status, aborted.body["state"]) == (200, "ABORTED")
    late = api.viewer.get(f"{incident}/preview")
    assert (late.status, late.outcome) == (409, "WRONG_STEP")


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("bump", BUMP), ("candidates", {"decision": "KEEP", "reason": "why"}),
        ("switch", {"to_pool": "blue"}), ("resume", {}), ("abort", {"reason": "why"}),
    ],
)  # fmt: skip
def test_an_unknown_incident_is_not_found(api: Api, verb: str, body: dict[str, Any]) -> None:
    for unknown in (str(uuid4()), "7", "..%2f"):
        assert api.operator.post(f"/incidents/{unknown}/{verb}", body).status == 404


def test_an_unknown_incident_is_not_read(api: Api) -> None:
    for path in ("", "/gate", "/preview"):
        for unknown in (str(uuid4()), "7"):
            assert api.viewer.get(f"/incidents/{unknown}{path}").status == 404


def test_workers_see_nothing_of_incidents(api: Api) -> None:
    incident = opened(api)
    for path in ("/incidents", incident, f"{incident}/gate", f"{incident}/preview"):
        assert api.worker.get(path).status == 403


def test_the_report_is_json_or_markdown_as_it_is_asked_for(api: Api) -> None:
    incident = opened(api)
    path = f"{incident}/report"
    story = api.viewer.get(path)
    assert story.headers["Content-Type"] == "application/json"
    assert story.body["incident"]["state"] == "STOPPED"
    assert story.body["timeline"][0]["kind"] == "INCIDENT_OPENED"
    asked: list[tuple[str, dict[str, str]]] = [
        ("?format=markdown", {}),
        ("", {"Accept": "text/markdown"}),
        ("?format=markdown", {"Accept": "application/json"}),
    ]
    for query, headers in asked:
        document = api.viewer.get(path + query, **headers)
        assert document.headers["Content-Type"] == "text/markdown; charset=utf-8"
        assert document.headers["Cache-Control"] == "no-store"
        assert document.body.startswith(b"# Incident ")
    for query, headers in [("?format=json", {"Accept": "text/markdown"}), ("", {"Accept": "*/*"})]:
        told = api.viewer.get(path + query, **headers)
        assert told.headers["Content-Type"] == "application/json"
    wrong = api.viewer.get(f"{path}?format=pdf")
    assert (wrong.status, wrong.pointers) == (400, {"/format"})
    assert api.viewer.get(f"/incidents/{uuid4()}/report").status == 404
