"""Shadow and rollout on the wire (contract 13)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from coordinator.actors import system
from coordinator.models import Event, Queue
from coordinator.services.shadow_verdicts import settle_rounds
from tests.console.scene import any_time
from tests.shadow.feeds import let_windows_pass

from .callers import Api, Caller, worker

LONG_AGO = datetime.now(UTC) - timedelta(days=2)


@pytest.fixture
def feed(api: Api) -> Caller:
    Queue.objects.filter(name="q").update(rollout_stage="SHADOW", promotion_rounds=2)
    return worker("feed", scopes=("shadow",))


def event(event_id: str, kind: str, owner: str, after: float, **fields: Any) -> dict[str, Any]:
    at = (LONG_AGO + timedelta(seconds=after)).isoformat()
    told = {"source": "celery", "event_id": event_id, "task_key": "t", "event": kind}
    return {**told, "owner": owner, "at": at, **fields}


def a_double_claim(key: str = "t") -> list[dict[str, Any]]:
    told = [
        event(f"{key}1", "CLAIMED", "A", 0, lease_seconds=60),
        event(f"{key}2", "CLAIMED", "B", 30),
        event(f"{key}3", "COMMITTED", "A", 40, result_digest="sha256:" + "a" * 64),
    ]
    return [{**one, "task_key": key} for one in told]


def agreeing(key: str) -> list[dict[str, Any]]:
    told = [event(f"{key}1", "CLAIMED", "A", 0), event(f"{key}2", "COMMITTED", "A", 9)]
    return [{**one, "task_key": key} for one in told]


def send(feed: Caller, *events: dict[str, Any], **fields: Any) -> Any:
    reply = feed.post("/shadow/events", {"queue": "q", "events": list(events), **fields})
    assert reply.status == 200, reply
    return reply.body


def settle() -> None:
    let_windows_pass()
    settle_rounds(actor=system("shadow"))


def let_expire(explained_until: datetime) -> None:
    """Let the instant until which somebody has explained a class have passed."""
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_shadowexplanation SET expires_at = clock_timestamp() - interval '1 second'"
            " WHERE expires_at = %s",
            [explained_until],
        )
        assert cursor.rowcount == 1
        cursor.execute("SET LOCAL session_replication_role = origin")


def test_a_feed_sends_events_and_people_read_the_verdict(api: Api, feed: Caller) -> None:
    told = send(feed, *a_double_claim(), lost=2)
    assert told == {
        "queue": "q", "received": 3, "new": 3, "duplicate": 0, "conflicting": 0, "too_late": 0, "refused": 0,
        "faults": [], "outcome": "RECEIVED",
    }  # fmt: skip
    assert send(feed, *a_double_claim(), lost=5)["duplicate"] == 3
    settle()
    (found,) = api.viewer.get("/shadow/rounds?queue=q&mismatch=true").body["results"]
    assert (found["verdict"], found["task_key"], found["explained"]) == ("DOUBLE_CLAIM", "t", False)
    detail = api.viewer.get(f"/shadow/rounds/{found['round_id']}").body
    assert [one["event"] for one in detail["events"]] == ["CLAIMED", "CLAIMED", "COMMITTED"]
    assert detail["round"]["mismatches"][0]["claim_v1"].startswith("NOT_CLAIMABLE")
    summary = api.viewer.get("/queues/q/shadow").body
    assert (summary["sample"], summary["mismatched"], summary["unexplained"]) == (1, 1, 1)
    assert summary["rate"] == 1.0
    assert summary["matrix"] == [{"legacy": "FIRST", "claim_v1": "FIRST", "rounds": 1}]
    assert summary["classes"][0]["exemplar"] == found["round_id"]
    assert sum(summary["classes"][0]["trend"]) == 1
    assert (summary["sources"][0]["lost"], summary["noise"]) == (2, 0.0)


def test_every_fault_of_a_batch_is_told_at_once_by_its_pointer(feed: Caller) -> None:
    bad = [
        event("1", "CLAIMED", "A", 0) | {"at": "yesterday", "lease_seconds": -1},
        event("2", "EATEN", "A", 0),
        event("3", "CLAIMED", "A", 0) | {"extra": 1},
        {"source": "celery"},
    ]
    reply = feed.post("/shadow/events", {"queue": "q", "events": bad})
    assert reply.status == 422
    assert {"/events/0/at", "/events/0/lease_seconds", "/events/1/event", "/events/2/extra",
            "/events/3/task_key"} <= reply.pointers  # fmt: skip
    many = [event(str(number), "CLAIMED", "A", 0) for number in range(1_001)]
    reply = feed.post("/shadow/events", {"queue": "q", "events": many})
    assert (reply.status, reply.pointers) == (422, {"/events"})
    assert feed.post("/shadow/events", {"queue": "q2", "events": many[:1]}).status == 404


def test_a_mismatch_closes_the_gate_until_a_person_has_explained_it(api: Api, feed: Caller) -> None:
    send(feed, *a_double_claim(), *agreeing("fine"))
    settle()
    gate = api.viewer.get("/queues/q/promotion").body
    assert (gate["open"], gate["next_stage"]) == (False, "IDEMPOTENT_READS")
    assert "unexplained_mismatches" in gate["blocking"]
    assert "settled_rounds" not in gate["blocking"]
    told = next(one for one in gate["criteria"] if one["name"] == "unexplained_mismatches")
    assert (told["value"], told["threshold"]) == (1, 0)
    (found,) = api.viewer.get(told["link"].removeprefix("/api/v1")).body["results"]
    path = f"/shadow/rounds/{found['round_id']}/explain"
    assert api.operator.post(path, {"reason": ""}).pointers == {"/reason"}
    reply = api.operator.post(path, {"reason": "visibility timeout too short", "triage": "BUG"})
    assert (reply.status, reply.outcome) == (200, "EXPLAINED")
    gate = api.viewer.get("/queues/q/promotion").body
    assert "unexplained_mismatches" not in gate["blocking"]
    said = api.viewer.get(f"/shadow/rounds/{found['round_id']}").body
    assert said["round"]["explained"]
    assert said["explanations"][0]["reason"] == "visibility timeout too short"
    assert said["explanations"][0]["operator"].startswith("operator:operator-")
    assert Event.objects.get(kind="SHADOW_EXPLAINED").data["triage"] == "BUG"


def test_a_class_is_explained_with_an_expiry_and_is_open_again_after_it(
    api: Api, feed: Caller
) -> None:
    send(feed, *a_double_claim("t1"), *a_double_claim("t2"))
    settle()
    found = api.viewer.get("/shadow/rounds?verdict=DOUBLE_CLAIM").body["results"]
    path = f"/shadow/rounds/{found[0]['round_id']}/explain"
    body = {"reason": "known", "class": "DOUBLE_CLAIM"}
    later = (datetime.now(UTC) + timedelta(days=90)).isoformat()
    for wrong in ({}, {"expires_at": LONG_AGO.isoformat()}, {"expires_at": later}):
        assert api.operator.post(path, body | wrong).pointers == {"/expires_at"}
    soon = (datetime.now(UTC) + timedelta(days=1)).isoformat()
    other = body | {"class": "LOST", "expires_at": soon}
    assert api.operator.post(path, other).pointers == {"/class"}
    assert api.operator.post(path, body | {"expires_at": soon}).status == 200
    listed = "/shadow/rounds?queue=q&explained=true"
    assert [one["explained"] for one in api.viewer.get(listed).body["results"]] == [True, True]
    summary = api.viewer.get("/queues/q/shadow").body
    assert (summary["unexplained"], summary["classes"][0]["explanation"]["reason"]) == (0, "known")
    sooner = datetime.now(UTC) + timedelta(hours=1)
    assert api.operator.post(path, body | {"expires_at": sooner.isoformat()}).status == 200
    let_expire(sooner)
    assert api.viewer.get("/queues/q/shadow").body["unexplained"] == 2
    assert api.viewer.get(listed).body["results"] == []


def test_there_is_nothing_to_explain_where_both_agree_or_the_round_is_open(
    api: Api, feed: Caller
) -> None:
    send(feed, *agreeing("fine"))
    (found,) = api.viewer.get("/shadow/rounds").body["results"]
    path = f"/shadow/rounds/{found['round_id']}/explain"
    assert api.operator.post(path, {"reason": "r"}).outcome == "ALREADY_SETTLED"
    settle()
    assert api.operator.post(path, {"reason": "r"}).outcome == "ALREADY_SETTLED"
    missing = "/shadow/rounds/00000000-0000-0000-0000-000000000000"
    assert api.operator.post(f"{missing}/explain", {"reason": "r"}).status == 404
    assert api.viewer.get(missing).status == 404
    assert api.viewer.get("/queues/nowhere/shadow").status == 404
    assert api.viewer.get("/queues/nowhere/promotion").status == 404
