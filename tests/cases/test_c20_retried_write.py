"""C20 — the client library retries a write that had landed.

The library's own resending, behind a proxy that drops replies, is in tests/sdk/test_field_cases.py (steps 1-4 and 6);
here is what the server promises it: the same request again is the same answer, long afterwards too.
"""

from typing import Any
from uuid import uuid4

import pytest

from coordinator.models import Attempt, CanonicalCommit, Task
from tests.api.callers import Api, Reply, attempt_path, commit_body, new_key, node
from tests.cases.moving_clock import advance
from tests.history import nothing_moves

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

DAY = 86_400


def told(reply: Reply) -> dict[str, Any]:
    """An answer without what may differ in a repeat: that it is one, and the remaining seconds."""
    body = dict(reply.body)
    body.pop("replayed", None)
    for claim in body.get("claims", ()):
        claim.pop("lease_seconds")
    return body


def test_c20_1_to_3_each_write_sent_three_times_happens_once(api: Api) -> None:
    run = {"queue": "q", "nodes": [node("a"), node("b", "a")]}
    key = new_key()
    created = [api.operator.post("/runs", run, key=key) for _ in range(3)]
    assert {reply.status for reply in created} == {201}
    assert told(created[0]) == told(created[1]) == told(created[2])
    assert Task.objects.count() == 2

    wanted = {"scheduler_epoch": 1, "owner": "w-1", "limit": 5}
    key = new_key()
    claims = [api.worker.post("/queues/q/claims", wanted, key=key) for _ in range(3)]
    assert {reply.status for reply in claims} == {200}
    assert told(claims[0])["claims"] == told(claims[1])["claims"] == told(claims[2])["claims"]
    assert Attempt.objects.count() == 1

    (claim,) = claims[0].body["claims"]
    commits = [api.worker.post(attempt_path(claim, "commit"), commit_body(claim)) for _ in range(3)]
    assert [reply.body["replayed"] for reply in commits] == [False, True, True]
    assert told(commits[0]) == told(commits[1]) == told(commits[2])
    assert CanonicalCommit.objects.count() == 1

    child = api.operator.get(f"/tasks?run_id={created[0].body['run_id']}&state=READY").body
    (task,) = child["results"]
    cancels = [
        api.operator.post(f"/tasks/{task['task_id']}/cancel", {"reason": "x"}) for _ in range(3)
    ]
    assert {reply.status for reply in cancels} == {200}
    assert told(cancels[0]) == told(cancels[1]) == told(cancels[2])


def test_c20_4_the_same_id_with_another_body_is_a_conflict(api: Api) -> None:
    api.submit(node("a"), node("b"))
    key = new_key()
    body = {"scheduler_epoch": 1, "owner": "w-1"}
    assert api.worker.post("/queues/q/claims", body, key=key).status == 200
    with nothing_moves():
        reply = api.worker.post("/queues/q/claims", {**body, "limit": 2}, key=key)
        assert (reply.status, reply.outcome) == (422, "IDEMPOTENCY_CONFLICT")
    # The id is the caller's own: the same text from another one is another id.
    assert len(api.rival.post("/queues/q/claims", body, key=key).body["claims"]) == 1


@pytest.mark.parametrize("later", [DAY + 3600, 31 * DAY])
def test_c20_5_sent_again_long_afterwards_it_is_still_no_second_task(
    api: Api, later: float
) -> None:
    body = {"queue": "q", "kind": "step", "node_id": "a", "input": {}}
    key = str(uuid4())
    first = api.operator.post("/tasks", body, key=key)
    assert first.status == 201, first
    advance(later)
    again = api.operator.post("/tasks", body, key=key)
    assert again.status in (200, 201)
    assert again.body["task_id"] == first.body["task_id"]
    assert Task.objects.count() == 1
