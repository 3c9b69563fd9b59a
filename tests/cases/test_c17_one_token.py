"""C17 — one token for everything.

Steps 1 and 3 (each kind of caller against every operation) are the table of tests/api/test_access.py; here are the
steps that need a story: another worker's true fence, an administrator's task, a fence after its time, a token in a URL.
"""

import json
import logging
from typing import Any

import pytest

from tests.api.callers import Api, Caller, attempt_path, commit_body, new_key, node
from tests.history import nothing_moves

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def verbs(claim: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Everything that a worker can do with a fence."""
    fence = claim["fence"]
    return {
        "renew": {"fence": fence, "owner": claim["owner"]},
        "stage": {"fence": fence, "result": 1},
        "commit": commit_body(claim),
        "fail": {"fence": fence, "error": {"type": "E", "message": "m"}, "retryable": False},
        "release": {"fence": fence},
    }


def what_a_person_does(claim: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """Step 1: the operations that no worker's token may do."""
    task_id = claim["fence"]["task_id"]
    return [
        ("POST", f"/tasks/{task_id}/cancel", {"reason": "x"}),
        ("POST", f"/runs/{claim['run_id']}/cancel", {"reason": "x"}),
        (
            "POST",
            f"/tasks/{task_id}/revise",
            {"expected_state_version": 2, "input": 1, "reason": "x"},
        ),
        ("POST", f"/tasks/{task_id}/reopen", {"expected_state_version": 2, "reason": "x"}),
        ("PATCH", "/queues/q", {"active_pool": "green"}),
        ("POST", "/queues/q/intake", {"intake": "STOPPED", "reason": "x"}),
        ("POST", "/queues", {"name": "mine", "active_pool": "blue"}),
        ("POST", "/pools", {"name": "mine"}),
        (
            "POST",
            "/credentials",
            {"name": "mine", "pool": "blue", "queues": ["q"], "scopes": ["work"]},
        ),
        ("GET", "/credentials", {}),
    ]


def test_c17_1_and_4_an_administrators_task_lends_its_worker_nothing(api: Api) -> None:
    reply = api.admin.keyed("/runs", {"queue": "q", "nodes": [node("a")]})
    assert reply.status == 201
    claim = api.claim()
    with nothing_moves():
        for method, path, body in what_a_person_does(claim):
            reply = api.worker.send(method, path, body or None, key=new_key())
            assert reply.status == 403, (path, reply)
        reply = api.worker.keyed("/queues/q2/claims", {"scheduler_epoch": 1, "owner": "w-1"})
        assert reply.status in (403, 404)


def test_c17_2_another_workers_true_fence_is_refused_and_its_lease_unchanged(api: Api) -> None:
    claim = api.submitted_claim()
    with nothing_moves():
        for caller in (api.rival, api.stranger):
            for verb, body in verbs(claim).items():
                reply = caller.post(attempt_path(claim, verb), body)
                assert reply.status in (403, 404), (verb, reply)
    assert api.worker.post(attempt_path(claim, "commit"), commit_body(claim)).status == 200


def test_c17_3_a_person_claims_and_commits_nothing(api: Api) -> None:
    claim = api.submitted_claim()
    with nothing_moves():
        for caller in (api.operator, api.admin, api.approver, api.viewer):
            reply = caller.keyed("/queues/q/claims", {"scheduler_epoch": 1, "owner": "me"})
            assert reply.status == 403
            for verb, body in verbs(claim).items():
                assert caller.post(attempt_path(claim, verb), body).status == 403
        for method, path, body in what_a_person_does(claim):
            if method != "GET":
                assert api.viewer.send(method, path, body, key=new_key()).status == 403


def test_c17_5_a_fence_after_its_task_has_ended_or_for_another_task_is_refused(api: Api) -> None:
    api.submit(node("a"), node("b"))
    first, second = api.claim(), api.claim()
    api.worker.post(attempt_path(first, "commit"), commit_body(first))
    with nothing_moves():
        for verb, body in verbs(first).items():
            reply = api.worker.post(attempt_path(first, verb), body)
            assert reply.status == 409 or reply.body["replayed"], (verb, reply)
        for verb, body in verbs(first).items():  # the first one's fence at the second one's address
            reply = api.worker.post(attempt_path(second, verb), body)
            assert reply.status in (409, 422), (verb, reply)


@pytest.mark.parametrize("place", ["?token={}", "?access_token={}", "?anything={}"])
def test_c17_6_a_token_in_a_url_is_refused_and_stands_nowhere(
    api: Api, caplog: pytest.LogCaptureFixture, place: str
) -> None:
    token = api.worker.token
    assert token is not None
    secret = token.rsplit("_", 1)[-1]
    with caplog.at_level(logging.DEBUG), nothing_moves():
        reply = Caller().get("/queues" + place.format(token))
        assert reply.status in (400, 401), reply
        assert secret not in json.dumps(reply.body)
        reply = api.worker.get("/queues" + place.format(token))  # not even beside a good header
        assert reply.status == 400
    assert secret not in caplog.text


def test_c17_6_no_page_of_the_api_shows_a_secret(api: Api) -> None:
    token = api.worker.token
    assert token is not None
    secret = token.rsplit("_", 1)[-1]
    for path in ("/credentials", "/me", "/queues", "/runs", "/tasks"):
        for caller in (api.admin, api.worker):
            assert secret not in json.dumps(caller.get(path).body)
