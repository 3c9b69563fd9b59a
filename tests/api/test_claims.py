"""Claiming over HTTP: by queue and by id, repeated, refused, and hinted at (contract 7; C20, C22)."""

from typing import Any
from uuid import UUID, uuid4

from coordinator.models import Attempt, Event, Task
from coordinator.services.epochs import bump_epoch
from tests.world import fingerprint, lapse

from .callers import TESTS, Api, Caller, attempt_path, commit_body, new_key, node, worker

CLAIMS = "/queues/q/claims"
BODY = {"scheduler_epoch": 1, "owner": "w-1"}


def test_a_claim_hands_out_the_task_with_its_fence_input_and_lease(api: Api) -> None:
    tasks = api.submit(node("a", priority=1), node("b"))
    reply = api.worker.keyed(CLAIMS, {**BODY, "ttl_seconds": 30})
    assert reply.status == 200
    assert reply.headers["Cache-Control"] == "no-store"
    (claim,) = reply.body["claims"]
    assert claim["fence"] == {
        "task_id": tasks["a"],
        "attempt_id": claim["fence"]["attempt_id"],
        "scheduler_epoch": 1,
        "claim_generation": 1,
        "cancel_generation": 0,
    }
    assert claim["input"] == {"n": "a"}
    assert (claim["owner"], claim["node_id"], claim["kind"]) == ("w-1", "a", "step")
    assert 25 < claim["lease_seconds"] <= 30
    assert claim["lease_expires_at"].endswith("Z")
    assert (claim["parents"], claim["effects"]) == ({}, [])


def test_a_batch_is_served_by_priority_and_only_of_the_kinds_asked_for(api: Api) -> None:
    api.submit(node("low"), node("high", priority=9), node("other", kind="else", priority=99))
    reply = api.worker.keyed(CLAIMS, {**BODY, "limit": 5, "kinds": ["step"]})
    assert [claim["node_id"] for claim in reply.body["claims"]] == ["high", "low"]


def test_nothing_to_do_is_an_empty_list(api: Api) -> None:
    reply = api.worker.keyed(CLAIMS, BODY)
    assert (reply.status, reply.body["claims"], reply.body["scheduler_epoch"]) == (200, [], 1)


def test_a_parents_result_reaches_the_childs_claim(api: Api) -> None:
    api.submit(node("a"), node("b", "a"))
    committed = api.worker.post(
        attempt_path(claim := api.claim(), "commit"), commit_body(claim, {"x": [1.5, "é"]})
    )
    assert committed.body["released"] == ["b"]
    parent = api.claim()["parents"]["a"]
    assert parent["result"] == {"x": [1.5, "é"]}
    assert parent["result_commit_id"] == committed.body["result_commit_id"]


def test_a_lost_answer_is_asked_for_again_and_is_the_same_grant(api: Api) -> None:
    api.submit(node("a"), node("b"))
    key = new_key()
    first = api.worker.post(CLAIMS, BODY, key=key)
    again = api.worker.post(CLAIMS, BODY, key=key)
    assert again.body["replayed"] is True
    assert again.body["claims"][0]["fence"] == first.body["claims"][0]["fence"]
    assert Attempt.objects.count() == 1


def test_a_grant_that_is_lost_by_then_is_listed_as_superseded(api: Api) -> None:
    api.submit()
    key = new_key()
    first = api.worker.post(CLAIMS, BODY, key=key).body["claims"][0]
    lapse(UUID(first["fence"]["task_id"]))
    assert api.rival.keyed(CLAIMS, {**BODY, "owner": "r"}).body["claims"]
    again = api.worker.post(CLAIMS, BODY, key=key)
    assert (again.body["claims"], again.body["superseded"]) == ([], [first["fence"]["attempt_id"]])


def test_an_empty_answer_is_not_kept(api: Api) -> None:
    key = new_key()
    assert api.worker.post(CLAIMS, BODY, key=key).body["claims"] == []
    api.submit()
    assert len(api.worker.post(CLAIMS, BODY, key=key).body["claims"]) == 1


def test_the_same_key_with_another_body_is_a_conflict_and_in_another_scope_is_not(api: Api) -> None:
    api.submit(node("a"), node("b"), node("c"))
    key = new_key()
    assert api.worker.post(CLAIMS, BODY, key=key).status == 200
    conflict = api.worker.post(CLAIMS, {**BODY, "limit": 2}, key=key)
    assert (conflict.status, conflict.outcome, conflict.body["retry"]) == (
        422,
        "IDEMPOTENCY_CONFLICT",
        "never",
    )
    assert api.worker.post(CLAIMS, {**BODY, "owner": "w-2"}, key=key).body["claims"]
    assert api.rival.post(CLAIMS, BODY, key=key).body["claims"]


def test_the_order_of_fields_does_not_make_another_body(api: Api) -> None:
    api.submit()
    key = new_key()
    api.worker.send("POST", CLAIMS, raw=b'{"owner":"w-1","scheduler_epoch":1}', key=key)
    again = api.worker.send("POST", CLAIMS, raw=b'{"scheduler_epoch": 1, "owner": "w-1"}', key=key)
    assert again.body["replayed"] is True


def test_an_old_epoch_is_fenced_and_told_the_current_one(api: Api) -> None:
    api.submit()
    bump_epoch(queue="q", expected_epoch=1, reason="test", actor=TESTS)
    before = fingerprint()
    reply = api.worker.keyed(CLAIMS, BODY)
    assert (reply.status, reply.outcome, reply.body["reason"]) == (409, "FENCED", "STALE_EPOCH")
    assert reply.body["current"] == {"scheduler_epoch": 2}
    assert (reply.body["retry"], reply.body["evidence_recorded"]) == ("reclaim", True)
    assert fingerprint() == before


def test_an_epoch_from_the_future_is_fenced_as_ahead_and_raises_an_alarm(api: Api) -> None:
    api.submit()
    reply = api.worker.keyed(CLAIMS, {**BODY, "scheduler_epoch": 99})
    assert (reply.outcome, reply.body["reason"]) == ("FENCED", "AHEAD")
    assert Event.objects.filter(kind="ALARM").exists()


def test_a_stopped_intake_is_503_with_retry_after(api: Api) -> None:
    api.submit()
    api.operator.post("/queues/q/intake", {"intake": "STOPPED", "reason": "maintenance"})
    reply = api.worker.keyed(CLAIMS, BODY)
    assert (reply.status, reply.outcome, reply.body["retry"]) == (503, "INTAKE_STOPPED", "after")
    assert int(reply.headers["Retry-After"]) >= 1
    api.operator.post("/queues/q/intake", {"intake": "OPEN", "reason": "done"})
    assert api.worker.keyed(CLAIMS, BODY).body["claims"]


def test_another_pool_and_an_older_contract_are_403(api: Api) -> None:
    api.admin.post("/pools", {"name": "green", "min_contract": "claim.v2"})
    api.admin.send("PATCH", "/queues/q", {"active_pool": "green"})
    reply = api.worker.keyed(CLAIMS, BODY)
    assert (reply.status, reply.outcome) == (403, "WRONG_POOL")
    green = worker("green")
    from coordinator.models import Credential

    Credential.objects.filter(name="green").update(pool_id="green")
    assert green.keyed(CLAIMS, BODY).outcome == "WRONG_POOL"
    assert green.post(CLAIMS, BODY, key=new_key(), X_Claim_Contract="claim.v2").status == 200


# --- by id --------------------------------------------------------------------------------------


def by_id(caller: Caller, task: str, version: int = 1, **fields: Any) -> Any:
    return caller.keyed(
        f"/tasks/{task}/claims", {**BODY, "expected_state_version": version, **fields}
    )


def test_a_task_is_claimed_by_id_as_it_was_seen(api: Api) -> None:
    tasks = api.submit(node("a"), node("b"))
    reply = by_id(api.worker, tasks["b"])
    assert (reply.status, reply.body["node_id"]) == (201, "b")


def test_a_task_that_changed_since_is_a_version_mismatch(api: Api) -> None:
    tasks = api.submit()
    reply = by_id(api.worker, tasks["a"], version=7)
    assert (reply.status, reply.outcome, reply.body["retry"]) == (
        409,
        "STATE_VERSION_MISMATCH",
        "after",
    )


def test_a_blocked_task_is_not_claimable(api: Api) -> None:
    tasks = api.submit(node("a"), node("b", "a"))
    reply = by_id(api.worker, tasks["b"])
    assert (reply.status, reply.outcome, reply.body["task_state"]) == (
        409,
        "NOT_CLAIMABLE",
        "BLOCKED",
    )


def test_an_unknown_task_is_404_in_any_spelling_of_its_id(api: Api) -> None:
    for text in (str(uuid4()), uuid4().hex, f"{{{uuid4()}}}", f"urn:uuid:{uuid4()}", "nonsense"):
        assert by_id(api.worker, text).outcome == "NOT_FOUND"


def test_a_known_task_is_found_in_any_usual_spelling_of_its_id(api: Api) -> None:
    tasks = api.submit()
    for text in (tasks["a"].upper(), tasks["a"].replace("-", "")):
        assert api.worker.get(f"/tasks/{text}").status == 200


def test_c22_a_duplicate_delivery_never_ends_the_healthy_holders_work(api: Api) -> None:
    tasks = api.submit()
    claim = api.claim()
    before = Task.objects.values().get()
    refused = by_id(api.rival, tasks["a"], version=claim["state_version"], owner="r")
    assert (refused.status, refused.outcome) == (409, "NOT_CLAIMABLE")
    guessed = {**claim["fence"], "claim_generation": 2}
    error = {"type": "E", "message": "already running"}
    for fence in ({}, guessed):
        failed = api.rival.post(
            attempt_path(claim, "fail"), {"fence": fence, "error": error, "retryable": False}
        )
        assert failed.status in (403, 428)
    assert Task.objects.values().get() == before
    assert Event.objects.filter(kind="FAILED").count() == 0
    assert api.worker.post(attempt_path(claim, "commit"), commit_body(claim)).outcome == "COMMITTED"
    assert api.rival.keyed(CLAIMS, {**BODY, "owner": "r"}).body["claims"] == []


def test_c20_a_write_that_landed_is_not_done_again_by_its_repeat(api: Api) -> None:
    key = new_key()
    body = {"queue": "q", "nodes": [node("a")]}
    first, again = (api.operator.post("/runs", body, key=key) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert first.body["run_id"] == again.body["run_id"]
    assert again.body["replayed"] is True
    claim = api.claim()
    commits = [api.worker.post(attempt_path(claim, "commit"), commit_body(claim)) for _ in range(2)]
    assert [reply.body["replayed"] for reply in commits] == [False, True]
    assert commits[0].body["result_commit_id"] == commits[1].body["result_commit_id"]
    assert (Task.objects.count(), Attempt.objects.count()) == (1, 1)


# --- hints --------------------------------------------------------------------------------------


def test_a_hint_tells_at_once_of_work_and_of_none(transactional_db: None, api: Api) -> None:
    assert api.worker.get("/queues/q/hint").body["may_have_work"] is False
    api.submit()
    assert api.worker.get("/queues/q/hint?wait_seconds=30").body["may_have_work"] is True


def test_a_hint_is_asked_for_some_kinds(transactional_db: None, api: Api) -> None:
    api.submit(node("a", kind="merge"))
    told = {
        kinds: api.worker.get(f"/queues/q/hint?kinds={kinds}").body["may_have_work"]
        for kinds in ("merge", "review", "review,merge")
    }
    assert told == {"merge": True, "review": False, "review,merge": True}
    assert api.worker.get("/queues/q/hint?kinds=").pointers == {"/kinds"}


def test_a_wait_beyond_the_longest_is_refused(api: Api) -> None:
    reply = api.worker.get("/queues/q/hint?wait_seconds=31")
    assert (reply.status, reply.pointers) == (400, {"/wait_seconds"})
