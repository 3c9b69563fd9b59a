"""What an attempt may send over HTTP, and what it is told when it is late (contract 3, 7)."""

import json
from typing import Any
from uuid import UUID

import pytest

from coordinator import digests
from coordinator.models import Attempt, CanonicalCommit, Queue, StagedResult, Task
from coordinator.services.epochs import bump_epoch
from tests.world import fingerprint, lapse

from .callers import TESTS, Api, Reply, attempt_path, commit_body, node

ERROR = {"type": "ValueError", "message": "no", "detail": {"line": 3}}


def bodies(claim: dict[str, Any]) -> dict[str, dict[str, Any]]:
    fence = claim["fence"]
    return {
        "renew": {"fence": fence, "owner": "w-1"},
        "commit": commit_body(claim),
        "fail": {"fence": fence, "error": ERROR, "retryable": True},
        "release": {"fence": fence},
    }


def refused(reply: Reply, outcome: str, reason: str | None = None) -> None:
    assert (reply.status, reply.outcome, reply.body["reason"]) == (409, outcome, reason), reply
    assert reply.headers["Content-Type"] == "application/problem+json"
    assert reply.body["evidence_recorded"] is True
    assert set(reply.body["current"]) == {
        "scheduler_epoch", "claim_generation", "cancel_generation", "state_version",
    }  # fmt: skip


# --- works -------------------------------------------------------------------------------------


def test_a_lease_is_renewed(api: Api) -> None:
    claim = api.submitted_claim()
    reply = api.worker.post(
        attempt_path(claim, "renew"), {**bodies(claim)["renew"], "ttl_seconds": 120}
    )
    assert (reply.status, reply.outcome) == (200, "RENEWED")
    assert 110 < reply.body["lease_seconds"] <= 120


def test_a_ttl_is_capped_to_the_queues_longest(api: Api) -> None:
    claim = api.submitted_claim()
    reply = api.worker.post(
        attempt_path(claim, "renew"), {**bodies(claim)["renew"], "ttl_seconds": 10_000}
    )
    assert reply.body["lease_seconds"] <= 300


def test_a_result_is_committed_once_and_a_repeat_is_told_so(api: Api) -> None:
    claim = api.submitted_claim()
    first, again = (
        api.worker.post(attempt_path(claim, "commit"), commit_body(claim, [1, 2])) for _ in range(2)
    )
    assert (first.status, first.body["replayed"], again.body["replayed"]) == (200, False, True)
    assert CanonicalCommit.objects.get().result == "[1,2]"
    other = api.worker.post(attempt_path(claim, "commit"), commit_body(claim, [3]))
    assert (other.status, other.outcome, other.body["retry"]) == (409, "ALREADY_COMMITTED", "never")


def test_null_is_a_result(api: Api) -> None:
    claim = api.submitted_claim()
    body = {"fence": claim["fence"], "input_digest": claim["input_digest"], "result": None}
    assert api.worker.post(attempt_path(claim, "commit"), body).outcome == "COMMITTED"
    assert CanonicalCommit.objects.get().result == "null"


def test_a_staged_result_is_committed_by_its_digest(api: Api) -> None:
    claim = api.submitted_claim()
    staged = api.worker.post(
        attempt_path(claim, "stage"), {"fence": claim["fence"], "result": {"b": 1, "a": 2}}
    )
    assert (staged.status, staged.outcome, staged.body["canonical_candidate"]) == (
        200,
        "STAGED",
        True,
    )
    assert staged.body["result_digest"] == digests.sha256(b'{"a":2,"b":1}')
    body = {
        "fence": claim["fence"],
        "input_digest": claim["input_digest"],
        "result_digest": staged.body["result_digest"],
    }
    assert api.worker.post(attempt_path(claim, "commit"), body).outcome == "COMMITTED"


def test_a_commit_without_any_result_is_refused_by_its_field(api: Api) -> None:
    claim = api.submitted_claim()
    body = {"fence": claim["fence"], "input_digest": claim["input_digest"]}
    reply = api.worker.post(attempt_path(claim, "commit"), body)
    assert (reply.status, reply.pointers) == (422, {"/result_digest"})


def test_a_digest_that_is_not_the_results_is_refused(api: Api) -> None:
    claim = api.submitted_claim()
    before = fingerprint()
    body = commit_body(claim, result_digest="sha256:" + "0" * 64)
    assert api.worker.post(attempt_path(claim, "commit"), body).pointers == {"/result_digest"}
    assert fingerprint() == before


def test_memory_is_written_with_the_commit_and_read_afterwards(api: Api) -> None:
    claim = api.submitted_claim()
    memory = [
        {"namespace": "plan", "key": "a/b", "expected_version": 0, "value": {"z": 1, "a": [2.50]}}
    ]
    assert (
        api.worker.post(attempt_path(claim, "commit"), commit_body(claim, memory=memory)).outcome
        == "COMMITTED"
    )
    told = api.operator.get("/memory/plan/a/b").body
    assert (told["version"], told["value"]) == (1, {"a": [2.5], "z": 1})
    assert api.viewer.get("/memory/plan/a/b").outcome == "FORBIDDEN"
    assert api.operator.get("/memory/plan/c").outcome == "NOT_FOUND"


def test_a_memory_version_that_moved_leaves_the_attempt_current(api: Api) -> None:
    api.submit(node("a"), node("b"))
    first, second = api.claim(), api.claim()
    memory = [{"namespace": "n", "key": "k", "expected_version": 0, "value": 1}]
    assert (
        api.worker.post(attempt_path(first, "commit"), commit_body(first, memory=memory)).status
        == 200
    )
    reply = api.worker.post(attempt_path(second, "commit"), commit_body(second, memory=memory))
    assert (reply.status, reply.outcome, reply.body["retry"]) == (409, "MEMORY_CONFLICT", "after")
    memory[0]["expected_version"] = 1
    assert (
        api.worker.post(attempt_path(second, "commit"), commit_body(second, memory=memory)).status
        == 200
    )


def test_a_failed_attempt_is_tried_again_or_ends_the_task(api: Api) -> None:
    claim = api.submitted_claim()
    retried = api.worker.post(attempt_path(claim, "fail"), bodies(claim)["fail"])
    assert (retried.status, retried.outcome) == (200, "RETRY_SCHEDULED")
    assert retried.body["not_before"].endswith("Z")
    again = api.worker.post(attempt_path(claim, "fail"), bodies(claim)["fail"])
    assert (again.outcome, again.body["replayed"]) == ("RETRY_SCHEDULED", True)
    claim = api.submitted_claim()
    ended = api.worker.post(
        attempt_path(claim, "fail"), {**bodies(claim)["fail"], "retryable": False}
    )
    assert (ended.status, ended.outcome) == (200, "FAILED")


def test_a_released_task_is_there_for_others_at_once(api: Api) -> None:
    claim = api.submitted_claim()
    assert (
        api.worker.post(attempt_path(claim, "release"), bodies(claim)["release"]).outcome
        == "RELEASED"
    )
    assert api.claim()["fence"]["claim_generation"] == 2


def test_usage_is_kept_even_of_a_refused_call(api: Api) -> None:
    claim = api.submitted_claim()
    lapse(UUID(claim["fence"]["task_id"]))
    api.claim(owner="other")
    usage = {"input_tokens": 7, "output_tokens": 8, "compute_seconds": 1.5, "cost_usd": 0.25}
    refused(
        api.worker.post(attempt_path(claim, "commit"), commit_body(claim, usage=usage)),
        "FENCED",
        "STALE_GENERATION",
    )
    ledger = api.operator.get(f"/tasks/{claim['fence']['task_id']}/attempts").body["results"]
    assert (ledger[0]["state"], ledger[0]["usage"]) == ("FENCED", usage)


# --- late, stale, cancelled ----------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["renew", "commit", "fail", "release"])
def test_after_a_take_over_the_old_owner_is_fenced(verb: str, api: Api) -> None:
    claim = api.submitted_claim()
    lapse(UUID(claim["fence"]["task_id"]))
    api.claim()
    before = fingerprint("task", "canonicalcommit", "memoryfact", "stagedresult", "run")
    reply = api.worker.post(attempt_path(claim, verb), bodies(claim)[verb])
    refused(reply, "FENCED", "STALE_GENERATION")
    assert (reply.body["retry"], reply.body["current"]["claim_generation"]) == ("reclaim", 2)
    assert fingerprint("task", "canonicalcommit", "memoryfact", "stagedresult", "run") == before


@pytest.mark.parametrize("verb", ["renew", "commit", "fail", "release"])
def test_after_a_bump_the_old_epoch_is_fenced(verb: str, api: Api) -> None:
    claim = api.submitted_claim()
    bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=TESTS)
    refused(
        api.worker.post(attempt_path(claim, verb), bodies(claim)[verb]), "FENCED", "STALE_EPOCH"
    )


@pytest.mark.parametrize("verb", ["renew", "commit", "fail", "release"])
def test_after_a_cancel_the_worker_is_told_so(verb: str, api: Api) -> None:
    claim = api.submitted_claim()
    path = f"/tasks/{claim['fence']['task_id']}/cancel"
    assert api.operator.post(path, {"reason": "not wanted"}).outcome == "CANCELLED"
    refused(api.worker.post(attempt_path(claim, verb), bodies(claim)[verb]), "CANCELLED")


@pytest.mark.parametrize("verb", ["renew", "commit", "fail", "release"])
def test_after_a_revision_the_input_is_stale(verb: str, api: Api) -> None:
    claim = api.submitted_claim()
    body = {"expected_state_version": claim["state_version"], "input": {"n": 2}, "reason": "typo"}
    revised = api.operator.keyed(f"/tasks/{claim['fence']['task_id']}/revise", body)
    assert revised.status == 201
    refused(api.worker.post(attempt_path(claim, verb), bodies(claim)[verb]), "STALE_INPUT")


def test_another_input_digest_is_stale_input(api: Api) -> None:
    claim = api.submitted_claim()
    body = {**commit_body(claim), "input_digest": "sha256:" + "1" * 64}
    refused(api.worker.post(attempt_path(claim, "commit"), body), "STALE_INPUT")
    assert Task.objects.get().state == "CLAIMED"


@pytest.mark.parametrize("field", ["scheduler_epoch", "claim_generation", "cancel_generation"])
def test_a_fence_from_the_future_is_ahead_and_changes_nothing(field: str, api: Api) -> None:
    claim = api.submitted_claim()
    before = fingerprint()
    fence = {**claim["fence"], field: 99}
    reply = api.worker.post(attempt_path(claim, "renew"), {"fence": fence, "owner": "w-1"})
    refused(reply, "FENCED", "AHEAD")
    assert reply.body["retry"] == "never"
    assert fingerprint() == before


def test_another_owner_than_the_attempts_is_fenced(api: Api) -> None:
    claim = api.submitted_claim()
    reply = api.worker.post(
        attempt_path(claim, "renew"), {"fence": claim["fence"], "owner": "somebody"}
    )
    assert (reply.status, reply.outcome) == (409, "FENCED")


def test_a_late_attempt_may_put_its_result_aside_and_nothing_else_moves(api: Api) -> None:
    claim = api.submitted_claim()
    lapse(UUID(claim["fence"]["task_id"]))
    api.claim()
    before = fingerprint("task", "canonicalcommit")
    reply = api.worker.post(
        attempt_path(claim, "stage"), {"fence": claim["fence"], "result": "late"}
    )
    assert (reply.status, reply.body["canonical_candidate"]) == (200, False)
    assert StagedResult.objects.get().canonical_candidate is False
    assert fingerprint("task", "canonicalcommit") == before


def test_the_address_and_the_fence_must_name_the_same_attempt(api: Api) -> None:
    api.submit(node("a"), node("b"))
    first, second = api.claim(), api.claim()
    reply = api.worker.post(attempt_path(first, "commit"), commit_body(second))
    assert reply.status in (404, 409, 422)
    assert CanonicalCommit.objects.count() == 0


def test_the_longest_lease_is_a_limit_but_a_commit_still_works(api: Api) -> None:
    claim = api.submitted_claim()
    Queue.objects.update(max_lease_seconds=300)
    from django.db import connection

    from tests.world import guarded

    with guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_attempt SET started_at = clock_timestamp() - interval '400 seconds'"
        )
    reply = api.worker.post(attempt_path(claim, "renew"), bodies(claim)["renew"])
    assert (reply.status, reply.outcome, reply.body["retry"]) == (409, "LEASE_LIMIT", "never")
    assert api.worker.post(attempt_path(claim, "commit"), commit_body(claim)).outcome == "COMMITTED"


def test_an_attempt_that_is_none_is_404(api: Api) -> None:
    claim = api.submitted_claim()
    nobody = {**claim["fence"], "attempt_id": "01900000-0000-7000-8000-00000000dead"}
    for verb, body in bodies({**claim, "fence": nobody}).items():
        reply = api.worker.post(f"/attempts/{nobody['attempt_id']}/{verb}", body)
        assert (reply.status, reply.outcome) == (404, "NOT_FOUND"), verb


@pytest.mark.parametrize("verb", ["renew", "stage", "commit", "fail", "release"])
@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_another_method_is_405_and_says_which_there_are(verb: str, method: str, api: Api) -> None:
    reply = api.worker.send(method, f"/attempts/{'0' * 32}/{verb}")
    assert (reply.status, reply.type, reply.headers["Allow"]) == (405, "method-not-allowed", "POST")


# --- blobs ---------------------------------------------------------------------------------------


def put(api: Api, claim: dict[str, Any], name: str, data: bytes, **headers: Any) -> Reply:
    return api.worker.send(
        "PUT",
        attempt_path(claim, f"blobs/{name}"),
        raw=data,
        Claim_Fence=json.dumps(claim["fence"]),
        **headers,
    )


def test_a_blob_is_streamed_read_and_committed_by_name(api: Api) -> None:
    claim = api.submitted_claim()
    data = bytes(range(256)) * 1_000
    stored = put(api, claim, "out/picture 1.png", data, content_type="image/png")
    assert (stored.status, stored.body["blob_digest"]) == (200, digests.sha256(data))
    read = api.worker.get(attempt_path(claim, "blobs/out/picture 1.png"))
    assert read.body == data
    assert read.headers["Content-Type"] == "application/octet-stream"
    assert read.headers["Content-Disposition"].startswith("attachment")
    body = commit_body(claim, {"blob": "out/picture 1.png"})
    assert api.worker.post(attempt_path(claim, "commit"), body).outcome == "COMMITTED"


def test_a_blob_never_changes_and_a_repeat_is_the_same_answer(api: Api) -> None:
    claim = api.submitted_claim()
    assert put(api, claim, "b", b"one").body == put(api, claim, "b", b"one").body
    other = put(api, claim, "b", b"two")
    assert (other.status, other.pointers) == (422, {"/name"})


def test_a_blob_larger_than_configured_is_413_and_leaves_nothing(
    api: Api, settings: Any, tmp_path: Any
) -> None:
    settings.MAX_BLOB_BYTES = 10
    claim = api.submitted_claim()
    before = fingerprint()
    assert (put(api, claim, "b", b"x" * 11).status, put(api, claim, "b", b"x" * 10).status) == (
        413,
        200,
    )
    assert fingerprint() != before


def test_a_blob_of_nobody_or_of_another_queue_is_404(api: Api) -> None:
    claim = api.submitted_claim()
    put(api, claim, "b", b"x")
    assert api.worker.get(attempt_path(claim, "blobs/c")).status == 404
    assert api.stranger.get(attempt_path(claim, "blobs/b")).status == 404
    assert api.viewer.get(attempt_path(claim, "blobs/b")).status == 403
    assert api.operator.get(attempt_path(claim, "blobs/b")).body == b"x"


def test_a_late_attempts_blob_is_taken_as_evidence(api: Api) -> None:
    claim = api.submitted_claim()
    lapse(UUID(claim["fence"]["task_id"]))
    api.claim()
    assert put(api, claim, "late", b"x").status == 200
    assert Attempt.objects.filter(state="EXPIRED").count() == 1
