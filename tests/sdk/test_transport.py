"""What the client does when the network is not kind (contract 5; field case C20)."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import tenure
from tenure import Client, RetryPolicy
from tests.sdk.scripted import Lost, Reply, in_turn, problem, scripted

TOKEN = "tnr_w_abcd_never-to-be-seen"
QUICK = RetryPolicy(tries=4, first_pause_seconds=0.001, longest_pause_seconds=0.002)
RUN = {
    "run_id": "r1",
    "state": "ACTIVE",
    "tasks": [{"node_id": "a", "task_id": "t1", "state": "READY"}],
}
TASK = {
    "task_id": "t1",
    "run_id": "r1",
    "node_id": "a",
    "kind": "k",
    "queue": "q",
    "state": "READY",
    "state_version": 3,
}
NODES = [{"node_id": "a", "kind": "k", "input": {}}]


def test_a_submission_whose_answers_are_lost_is_sent_again_with_the_same_key_and_bytes() -> None:
    replies = in_turn(Lost(), Reply(502, b"<html>", {"Content-Type": "text/html"}), Reply(201, RUN))
    with scripted(replies) as server, Client(server.url, TOKEN, retry=QUICK) as client:
        run = client.submit_run(queue="q", nodes=NODES)
        assert run.run_id == "r1"
        assert run.tries == 3
        assert client.sent == {"requests": 3, "retries": 2}
    assert len({seen.key for seen in server.seen}) == 1
    assert len({seen.body for seen in server.seen}) == 1
    assert 16 <= len(server.seen[0].key or "") <= 255


def test_each_logical_call_has_a_key_of_its_own_unless_the_caller_names_one() -> None:
    with scripted(in_turn(Reply(201, RUN))) as server, Client(server.url, TOKEN) as client:
        client.submit_run(queue="q", nodes=NODES)
        client.submit_run(queue="q", nodes=NODES)
        client.submit_run(queue="q", nodes=NODES, key="nightly-review-2026-11-30")
    first, second, third = [seen.key for seen in server.seen]
    assert first != second
    assert third == "nightly-review-2026-11-30"


def test_a_write_that_has_no_key_and_could_act_twice_is_never_sent_again() -> None:
    with scripted(in_turn(Lost(), Reply(200, TASK))) as server, Client(server.url, TOKEN) as client:
        with pytest.raises(tenure.Unreachable, match="may have landed") as caught:
            client.reopen("t1", reason="again", expected_state_version=3)
    assert caught.value.tries == 1
    assert len(server.seen) == 1


def test_a_call_that_is_safe_by_its_nature_is_repeated_without_a_key() -> None:
    cancelled = Reply(200, {"outcome": "CANCELLED", "cancel_generation": 1, "effects": []})
    with scripted(in_turn(Lost(), cancelled)) as server:
        with Client(server.url, TOKEN, retry=QUICK) as client:
            receipt = client.cancel_task("t1", reason="wrong folder")
    assert receipt.tries == 2
    assert [seen.key for seen in server.seen] == [None, None]
    assert server.seen[0].body == server.seen[1].body


def test_the_number_of_tries_is_bounded_and_told() -> None:
    with (
        scripted(in_turn(Reply(503, {}))) as server,
        Client(server.url, TOKEN, retry=QUICK) as client,
    ):
        with pytest.raises(tenure.Unreachable) as caught:
            client.run("r1")
    assert caught.value.tries == 4
    assert len(server.seen) == 4


def test_a_refused_connection_ends_as_unreachable() -> None:
    with scripted(in_turn(Lost())) as server:
        url = server.url
    with Client(url, TOKEN, retry=QUICK) as client, pytest.raises(tenure.Unreachable):
        client.run("r1")


def test_retry_after_is_never_undercut() -> None:
    busy = Reply(503, {}, {"Retry-After": "1"})
    with scripted(in_turn(busy, Reply(200, TASK))) as server:
        with Client(server.url, TOKEN, retry=QUICK) as client:
            client.task("t1")
    first, second = [seen.at for seen in server.seen]
    assert second - first >= 1.0


def test_a_retry_after_beyond_our_patience_is_told_instead_of_slept_through() -> None:
    with scripted(in_turn(Reply(503, {}, {"Retry-After": "7200"}))) as server:
        with Client(server.url, TOKEN) as client, pytest.raises(tenure.Unreachable) as caught:
            client.task("t1")
    assert caught.value.retry_after_seconds == 7200
    assert len(server.seen) == 1


def test_throttling_is_waited_for_and_then_told_as_such() -> None:
    with scripted(in_turn(problem(429, retry_after=0))) as server:
        with Client(server.url, TOKEN, retry=QUICK) as client, pytest.raises(tenure.Throttled):
            client.task("t1")
    assert len(server.seen) == 4


def test_a_stopped_intake_is_an_answer_and_not_a_fault_of_the_network() -> None:
    stopped = problem(503, "INTAKE_STOPPED", retry="after", retry_after=30)
    with scripted(in_turn(stopped)) as server, Client(server.url, TOKEN, retry=QUICK) as client:
        with pytest.raises(tenure.IntakeStopped) as caught:
            client.submit_run(queue="q", nodes=NODES)
    assert caught.value.retry_after_seconds == 30
    assert len(server.seen) == 1


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (problem(409, "FENCED", reason="STALE_EPOCH"), tenure.Fenced),
        (problem(409, "CANCELLED"), tenure.Cancelled),
        (problem(409, "STALE_INPUT"), tenure.StaleInput),
        (problem(409, "NOT_CLAIMABLE"), tenure.NotClaimable),
        (problem(409, "STATE_VERSION_MISMATCH"), tenure.StateVersionMismatch),
        (problem(409, "MEMORY_CONFLICT"), tenure.MemoryConflict),
        (problem(409, "RECONCILE_FIRST"), tenure.ReconcileFirst),
        (problem(409, "ALREADY_COMMITTED"), tenure.AlreadyCommitted),
        (problem(409, "LEASE_LIMIT"), tenure.LeaseLimit),
        (problem(422, "IDEMPOTENCY_CONFLICT"), tenure.IdempotencyConflict),
        (problem(422), tenure.InvalidInput),
        (problem(428), tenure.FenceMissing),
        (problem(401), tenure.Unauthorized),
        (problem(403), tenure.Forbidden),
        (problem(403, "WRONG_POOL"), tenure.WrongPool),
        (problem(404), tenure.NotFound),
        (problem(413), tenure.TooLarge),
        (problem(500), tenure.ServerFault),
        (problem(409, "SOMETHING_NEW"), tenure.Problem),
    ],
)
def test_every_refusal_is_an_exception_of_its_own_and_not_repeated(
    reply: Reply, kind: type[tenure.Problem]
) -> None:
    with scripted(in_turn(reply)) as server, Client(server.url, TOKEN, retry=QUICK) as client:
        with pytest.raises(tenure.Problem) as caught:
            client.task("t1")
    assert type(caught.value) is kind
    assert len(server.seen) == 1


def test_a_refused_body_tells_every_fault_with_its_place() -> None:
    errors = [
        {"pointer": "/nodes/0/kind", "detail": "must not be empty"},
        {"pointer": "/nodes/1/replay", "detail": "unknown"},
    ]
    with (
        scripted(in_turn(problem(422, errors=errors))) as server,
        Client(server.url, TOKEN) as client,
    ):
        with pytest.raises(tenure.InvalidInput) as caught:
            client.submit_run(queue="q", nodes=NODES)
    assert [error.pointer for error in caught.value.errors] == ["/nodes/0/kind", "/nodes/1/replay"]
    assert "/nodes/1/replay: unknown" in str(caught.value)


@pytest.mark.parametrize(
    "reply",
    [
        Reply(200, b"<html>Sign in</html>", {"Content-Type": "text/html"}),
        Reply(301, b"", {"Location": "https://elsewhere.example/api/v1/tasks/t1"}),
        Reply(418, {}),
        Reply(200, ["not", "an", "object"]),
        Reply(200, {**TASK, "state_version": None, "ready_at": "soon"}),
        Reply(200, {"task_id": "t1"}),
    ],
)
def test_a_stranger_that_answers_is_told_apart_from_a_coordinator(reply: Reply) -> None:
    with scripted(in_turn(reply)) as server, Client(server.url, TOKEN, retry=QUICK) as client:
        with pytest.raises(tenure.UnexpectedAnswer):
            client.task("t1")
    assert len(server.seen) == 1


def test_members_that_we_do_not_know_are_no_fault() -> None:
    with scripted(in_turn(Reply(200, {**TASK, "invented_later": {"x": 1}}))) as server:
        with Client(server.url, TOKEN) as client:
            assert client.task("t1").state == "READY"


def test_pages_are_followed_on_our_own_address_only() -> None:
    pages: list[Any] = [
        {"next": "http://elsewhere.example/api/v1/tasks?cursor=abc&queue=q", "results": [TASK]},
        {"next": None, "results": [{**TASK, "task_id": "t2"}]},
    ]
    with scripted(in_turn(*(Reply(200, page) for page in pages))) as server:
        with Client(server.url, TOKEN) as client:
            assert [task.task_id for task in client.tasks(queue="q")] == ["t1", "t2"]
    assert [seen.path for seen in server.seen] == [
        "/api/v1/tasks?limit=200&queue=q",
        "/api/v1/tasks?cursor=abc&queue=q",
    ]


def test_every_request_names_the_contract_and_carries_the_token_in_its_header_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with scripted(in_turn(Lost(), Reply(200, TASK), problem(403))) as server:
        with Client(server.url, TOKEN, retry=QUICK) as client:
            client.task("t1")
            with pytest.raises(tenure.Forbidden) as caught:
                client.task("t1")
            shown = f"{client!r} {caught.value} {caught.value.details}"
    for seen in server.seen:
        assert seen.headers["X-Claim-Contract"] == "claim.v1"
        assert seen.headers["Authorization"] == f"Bearer {TOKEN}"
        assert TOKEN not in seen.path
    assert TOKEN not in caplog.text
    assert TOKEN not in shown


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "ftp://host", "http://user:secret@host", "http://"]
)
def test_an_address_that_cannot_work_is_refused_at_once_and_repeats_no_secret(url: str) -> None:
    with pytest.raises(ValueError, match="coordinator's address") as caught:
        Client(url, TOKEN)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "two words", "line\nbreak", "päss"])
def test_a_token_that_cannot_travel_is_refused_without_being_repeated(token: str) -> None:
    with pytest.raises(ValueError, match="token must be") as caught:
        Client("http://127.0.0.1", token)
    assert not token or token not in str(caught.value)


@pytest.mark.parametrize("typed", ["{}", "{}/", "{}/api/v1", "{}/api/v1/"])
def test_the_address_may_be_given_with_or_without_the_base_path(typed: str) -> None:
    with scripted(in_turn(Reply(200, TASK))) as server:
        with Client(typed.format(server.url), TOKEN) as client:
            client.task("t1")
    assert server.seen[0].path == "/api/v1/tasks/t1"


def test_an_id_cannot_leave_its_place_in_the_path() -> None:
    with scripted(in_turn(Reply(200, TASK))) as server, Client(server.url, TOKEN) as client:
        client.task("../queues?x=1#y")
    assert server.seen[0].path == "/api/v1/tasks/..%2Fqueues%3Fx%3D1%23y"
