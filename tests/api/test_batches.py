"""Batches: an answer for each item, in order, and one bad item never spoils another (contract 7)."""

from typing import Any

import pytest

from coordinator.models import CanonicalCommit
from tests.world import fingerprint

from .callers import Api, attempt_path, commit_body, node


def claims(api: Api, count: int) -> list[dict[str, Any]]:
    api.submit(*(node(f"n{i:03}", priority=count - i) for i in range(count)))
    reply = api.worker.keyed(
        "/queues/q/claims", {"scheduler_epoch": 1, "owner": "w-1", "limit": count}
    )
    found: list[dict[str, Any]] = reply.body["claims"]
    assert len(found) == count
    return found


def commits(api: Api, *items: Any) -> Any:
    return api.worker.post("/queues/q/commits", {"commits": list(items)})


def test_a_hundred_results_are_committed_in_order(api: Api) -> None:
    held = claims(api, 100)
    reply = commits(api, *(commit_body(claim, {"of": claim["node_id"]}) for claim in held))
    assert reply.status == 200
    assert [item["outcome"] for item in reply.body["results"]] == ["COMMITTED"] * 100
    by_id = {str(commit.result_commit_id): commit for commit in CanonicalCommit.objects.all()}
    for claim, item in zip(held, reply.body["results"], strict=True):
        assert by_id[item["result_commit_id"]].result == f'{{"of":"{claim["node_id"]}"}}'


def test_one_bad_item_of_each_kind_and_the_good_ones_between_are_committed(api: Api) -> None:
    a, b, c, d, e = claims(api, 5)
    fence = {**c["fence"], "claim_generation": 99}
    reply = commits(
        api,
        commit_body(a),
        {**commit_body(b), "colour": "red", "input_digest": 5},
        {**commit_body(c), "fence": fence},
        {"input_digest": d["input_digest"], "result": 1},
        {**commit_body(d), "input_digest": "sha256:" + "0" * 64},
        commit_body(e, {"n": 2**60}),
        commit_body(e),
    )
    assert reply.status == 200
    told = reply.body["results"]
    assert [item["outcome"] for item in told] == [
        "COMMITTED", "INVALID", "FENCED", "FENCE_MISSING", "STALE_INPUT", "INVALID", "COMMITTED",
    ]  # fmt: skip
    assert {error["pointer"] for error in told[1]["errors"]} == {
        "/commits/1/colour",
        "/commits/1/input_digest",
    }
    assert (told[2]["reason"], told[2]["status"], told[2]["retry"]) == ("AHEAD", 409, "never")
    assert (told[3]["status"], told[3]["errors"][0]["pointer"]) == (428, "/commits/3/fence")
    assert told[4]["current"]["claim_generation"] == 1
    assert {error["pointer"] for error in told[5]["errors"]} == {"/commits/5/result/n"}
    assert CanonicalCommit.objects.count() == 2


def test_the_same_attempt_twice_in_one_batch_is_committed_once(api: Api) -> None:
    (claim,) = claims(api, 1)
    told = commits(
        api, commit_body(claim), commit_body(claim), commit_body(claim, {"other": 1})
    ).body["results"]
    assert told[0]["outcome"] == "COMMITTED"
    assert told[1]["outcome"] in ("COMMITTED", "ALREADY_COMMITTED")
    assert told[2]["outcome"] == "ALREADY_COMMITTED"
    assert CanonicalCommit.objects.count() == 1


def test_leases_are_renewed_together_each_with_its_own_answer(api: Api) -> None:
    a, b = claims(api, 2)
    api.operator.post(f"/tasks/{b['fence']['task_id']}/cancel", {"reason": "r"})
    reply = api.worker.post(
        "/queues/q/renewals",
        {
            "renewals": [
                {
                    "fence": a["fence"],
                    "owner": "w-1",
                    "ttl_seconds": 90,
                    "usage": {"input_tokens": 3},
                },
                {"fence": b["fence"], "owner": "w-1"},
                {"fence": a["fence"], "owner": "w-1", "ttl_seconds": -1},
            ]
        },
    )
    renewed, cancelled, invalid = reply.body["results"]
    assert (renewed["outcome"], 80 < renewed["lease_seconds"] <= 90) == ("RENEWED", True)
    assert (cancelled["outcome"], cancelled["status"]) == ("CANCELLED", 409)
    assert (invalid["outcome"], invalid["errors"][0]["pointer"]) == (
        "INVALID",
        "/renewals/2/ttl_seconds",
    )


@pytest.mark.parametrize(
    "body", [{}, {"commits": []}, {"commits": "x"}, {"commits": [1]}, {"commits": None}, []]
)
def test_a_body_that_is_wrong_as_a_whole_is_422(body: Any, api: Api) -> None:
    assert api.worker.post("/queues/q/commits", body).status == 422


def test_a_field_beside_the_batch_refuses_the_whole(api: Api) -> None:
    (claim,) = claims(api, 1)
    before = fingerprint()
    reply = api.worker.post("/queues/q/commits", {"commits": [commit_body(claim)], "commit": []})
    assert (reply.status, reply.pointers) == (422, {"/commit"})
    assert fingerprint() == before


def test_a_hundred_and_one_items_are_too_many(api: Api) -> None:
    (claim,) = claims(api, 1)
    reply = commits(api, *[commit_body(claim)] * 101)
    assert (reply.status, reply.pointers) == (422, {"/commits"})
    assert CanonicalCommit.objects.count() == 0


def test_items_of_another_queue_or_worker_are_refused_one_by_one(api: Api) -> None:
    a, b = claims(api, 2)
    told = api.rival.post("/queues/q/commits", {"commits": [commit_body(a), commit_body(b)]})
    assert [item["outcome"] for item in told.body["results"]] == ["FORBIDDEN", "FORBIDDEN"]
    assert all("current" not in item for item in told.body["results"])
    assert (
        api.stranger.post("/queues/q/commits", {"commits": [commit_body(a)]}).outcome == "FORBIDDEN"
    )
    elsewhere = api.stranger.post("/queues/q2/commits", {"commits": [commit_body(a)]}).body[
        "results"
    ]
    assert elsewhere[0]["outcome"] in ("FORBIDDEN", "NOT_FOUND")


def test_a_batch_and_a_single_call_are_the_same_call(api: Api) -> None:
    (claim,) = claims(api, 1)
    single = api.worker.post(attempt_path(claim, "commit"), commit_body(claim))
    (item,) = commits(api, commit_body(claim)).body["results"]
    assert item["replayed"] is True
    assert item["result_commit_id"] == single.body["result_commit_id"]
