"""Queues, pools, downstreams and credentials over HTTP (contract 12, 15)."""

from typing import Any

import pytest

from coordinator.models import Credential, Event, Queue, StoredAnswer
from tests.world import fingerprint

from .callers import Api, Caller, new_key

QUEUE = {"name": "mails", "active_pool": "blue"}
DOWNSTREAM = {"name": "smtp", "kind": "smtp", "guarantee": "QUERY_ONLY"}
CREDENTIAL = {"name": "fleet", "pool": "blue", "queues": ["q", "q2"], "scopes": ["work", "submit"]}


# --- queues ----------------------------------------------------------------------------------------


def test_a_queue_is_created_with_its_policy_and_a_repeat_is_the_same_queue(api: Api) -> None:
    body = {**QUEUE, "default_ttl_seconds": 20, "max_ttl_seconds": 40, "max_attempts": 2}
    first, again = (api.admin.post("/queues", body) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.body == again.body
    assert (first.body["scheduler_epoch"], first.body["intake"]) == (1, "OPEN")
    assert first.body["rollout_stage"] == "CONDITIONAL_WRITES"
    assert Event.objects.filter(kind="QUEUE_CREATED", queue__name="mails").count() == 1


def test_a_name_that_another_policy_has_is_refused(api: Api) -> None:
    reply = api.admin.post("/queues", {"name": "q", "active_pool": "blue", "max_attempts": 9})
    assert (reply.status, reply.pointers) == (422, {"/name"})


def test_a_policy_that_contradicts_itself_is_told_field_by_field(api: Api) -> None:
    body = {
        **QUEUE,
        "active_pool": "nowhere",
        "default_ttl_seconds": 50,
        "max_ttl_seconds": 40,
        "max_lease_seconds": 30,
        "retry_backoff_seconds": 9,
        "retry_backoff_max_seconds": 8,
    }
    reply = api.admin.post("/queues", body)
    assert reply.status == 422
    assert reply.pointers == {
        "/active_pool", "/default_ttl_seconds", "/max_ttl_seconds", "/retry_backoff_seconds",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["", "a b", "a/b", "-a", "é", "x" * 101, "a\n"])
def test_a_name_that_would_not_fit_into_an_address_is_refused(name: str, api: Api) -> None:
    assert api.admin.post("/queues", {**QUEUE, "name": name}).pointers == {"/name"}


def test_a_policy_is_changed_and_the_event_tells_from_what_to_what(api: Api) -> None:
    reply = api.admin.send("PATCH", "/queues/q", {"max_attempts": 7, "max_ttl_seconds": 301})
    assert (reply.status, reply.body["max_attempts"], reply.body["max_ttl_seconds"]) == (
        200,
        7,
        301,
    )
    event = Event.objects.get(kind="POLICY_CHANGED")
    assert event.data["before"] == {"max_attempts": 5, "max_ttl_seconds": 300}
    assert event.data["after"] == {"max_attempts": 7, "max_ttl_seconds": 301}
    assert event.actor.startswith("operator:admin")
    assert event.data["address"] == "127.0.0.1"


def test_an_equal_policy_is_no_event(api: Api) -> None:
    assert api.admin.send("PATCH", "/queues/q", {"max_attempts": 5}).status == 200
    assert api.admin.send("PATCH", "/queues/q", {}).status == 200
    assert not Event.objects.filter(kind="POLICY_CHANGED").exists()


@pytest.mark.parametrize("field", ["scheduler_epoch", "intake", "rollout_stage", "name"])
def test_the_epoch_and_what_has_a_verb_of_its_own_cannot_be_patched(field: str, api: Api) -> None:
    before = fingerprint("queue")
    reply = api.admin.send("PATCH", "/queues/q", {field: 5})
    assert (reply.status, reply.pointers) == (422, {f"/{field}"})
    assert fingerprint("queue") == before


@pytest.mark.parametrize("value", [None, "5", 0, 1.5])
def test_a_policy_takes_whole_numbers_and_no_null(value: Any, api: Api) -> None:
    assert api.admin.send("PATCH", "/queues/q", {"max_attempts": value}).pointers == {
        "/max_attempts"
    }


def test_a_queue_that_is_not_there_is_404(api: Api) -> None:
    assert api.admin.send("PATCH", "/queues/nowhere", {"max_attempts": 1}).outcome == "NOT_FOUND"
    assert api.admin.get("/queues/nowhere").outcome == "NOT_FOUND"
    assert (
        api.admin.post("/queues/nowhere/intake", {"intake": "OPEN", "reason": "r"}).outcome
        == "NOT_FOUND"
    )


def test_intake_is_stopped_and_opened_with_a_reason(api: Api) -> None:
    for intake, kind in (("STOPPED", "INTAKE_STOPPED"), ("OPEN", "INTAKE_OPENED")):
        reply = api.operator.post("/queues/q/intake", {"intake": intake, "reason": "drill"})
        assert (reply.status, reply.body["intake"]) == (200, intake)
        assert Queue.objects.get(name="q").intake == intake
        assert Event.objects.get(kind=kind).data["reason"] == "drill"
    reply = api.operator.post("/queues/q/intake", {"intake": "CLOSED"})
    assert reply.pointers == {"/intake", "/reason"}


def test_queues_are_listed_by_name_in_pages(api: Api) -> None:
    page = api.operator.get("/queues?limit=1").body
    assert [queue["name"] for queue in page["results"]] == ["q"]
    following = api.operator.get(page["next"].removeprefix("http://testserver/api/v1")).body
    assert [queue["name"] for queue in following["results"]] == ["q2"]
    assert following["next"] is None


# --- pools and downstreams -----------------------------------------------------------------------------


def test_a_pool_is_created_once(api: Api) -> None:
    body = {"name": "green", "min_contract": "claim.v2"}
    first, again = (api.admin.post("/pools", body) for _ in range(2))
    assert (first.status, again.status, first.body == again.body) == (201, 201, True)
    assert api.admin.post("/pools", {"name": "green"}).pointers == {"/name"}
    assert api.admin.post("/pools", {"name": "x", "min_contract": "v1"}).pointers == {
        "/min_contract"
    }
    assert [pool["name"] for pool in api.viewer.get("/pools").body["results"]] == ["blue", "green"]


def test_a_downstream_is_registered_and_changed(api: Api) -> None:
    first, again = (api.admin.post("/downstreams", DOWNSTREAM) for _ in range(2))
    assert (first.status, again.status, first.body == again.body) == (201, 201, True)
    changed = api.admin.send(
        "PATCH",
        "/downstreams/smtp",
        {"guarantee": "IDEMPOTENT_KEY", "key_valid_seconds": 600, "refuses_late": True},
    )
    assert (changed.status, changed.body["guarantee"], changed.body["refuses_late"]) == (
        200,
        "IDEMPOTENT_KEY",
        True,
    )
    cleared = api.admin.send("PATCH", "/downstreams/smtp", {"key_valid_seconds": None})
    assert (cleared.status, cleared.pointers) == (422, {"/key_valid_seconds"})
    assert api.admin.send("PATCH", "/downstreams/nowhere", {}).outcome == "NOT_FOUND"
    assert api.admin.post("/downstreams", {**DOWNSTREAM, "kind": "http"}).pointers == {"/name"}
    assert [each["name"] for each in api.viewer.get("/downstreams").body["results"]] == ["smtp"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("guarantee", "MAYBE"),
        ("call_timeout_seconds", 0),
        ("settle_seconds", -1),
        ("required_approvers", 3),
        ("refuses_late", "yes"),
        ("key_valid_seconds", 0),
    ],
)
def test_a_downstream_that_makes_no_sense_is_refused(field: str, value: Any, api: Api) -> None:
    assert api.admin.post("/downstreams", {**DOWNSTREAM, field: value}).pointers == {f"/{field}"}


def test_a_downstream_that_dedupes_on_keys_says_for_how_long(api: Api) -> None:
    assert api.admin.post(
        "/downstreams", {**DOWNSTREAM, "guarantee": "IDEMPOTENT_KEY"}
    ).pointers == {"/key_valid_seconds"}


# --- credentials --------------------------------------------------------------------------------------------


def test_a_token_is_shown_once_stored_hashed_and_works(api: Api) -> None:
    reply = api.admin.keyed("/credentials", CREDENTIAL)
    assert reply.status == 201
    token = reply.body["token"]
    assert Caller(token).get("/me").body["queues"] == ["q", "q2"]
    row = Credential.objects.get(name="fleet")
    secret = token.rsplit("_", 1)[1]
    assert secret not in str(vars(row))
    assert secret not in str(list(StoredAnswer.objects.values()))
    assert secret not in str(list(Event.objects.values()))
    listed = api.admin.get("/credentials").body["results"]
    assert listed[0]["name"] == "fleet"
    assert "token" not in str(listed)


def test_a_lost_answer_is_asked_for_again_and_has_the_same_token(api: Api) -> None:
    key = new_key()
    first, again = (api.admin.post("/credentials", CREDENTIAL, key=key) for _ in range(2))
    assert first.body["token"] == again.body["token"]
    assert (first.body["replayed"], again.body["replayed"]) == (False, True)
    assert Credential.objects.filter(name="fleet").count() == 1
    other = api.admin.post("/credentials", {**CREDENTIAL, "scopes": ["gate"]}, key=key)
    assert other.outcome == "IDEMPOTENCY_CONFLICT"


def test_after_a_change_of_the_servers_secret_the_token_cannot_be_told_again(
    api: Api, settings: Any
) -> None:
    key = new_key()
    assert api.admin.post("/credentials", CREDENTIAL, key=key).body["token"]
    settings.SECRET_KEY = "another secret that is long enough to be one of a server"
    again = api.admin.post("/credentials", CREDENTIAL, key=key)
    assert (again.status, again.body["token"]) == (201, None)


def test_all_that_is_wrong_with_a_credential_is_told_at_once(api: Api) -> None:
    body = {
        "name": "n",
        "pool": "nowhere",
        "queues": ["q", "nowhere"],
        "scopes": ["work"],
        "expires_at": "2001-01-01T00:00:00Z",
    }
    assert api.admin.keyed("/credentials", body).pointers == {"/pool", "/queues/1", "/expires_at"}
    body = {"name": "", "pool": "blue", "queues": [], "scopes": ["root"]}
    assert api.admin.keyed("/credentials", body).pointers == {"/name", "/queues", "/scopes/0"}


def test_a_credential_is_revoked_at_once_and_a_repeat_changes_nothing(api: Api) -> None:
    made = api.admin.keyed("/credentials", CREDENTIAL).body
    path = f"/credentials/{made['credential']['credential_id']}"
    first, again = (api.admin.send("DELETE", path) for _ in range(2))
    assert (first.status, first.outcome, first.body == again.body) == (200, "REVOKED", True)
    assert Caller(made["token"]).get("/me").status == 401
    assert Event.objects.filter(kind="CREDENTIAL_REVOKED").count() == 1
    assert api.admin.send("DELETE", "/credentials/x").outcome == "NOT_FOUND"
