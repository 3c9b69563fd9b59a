"""Runs and tasks over HTTP: submitted, read, paged, cancelled, revised, reopened (contract 6, 10, 11)."""

import functools
import operator
from typing import Any
from uuid import UUID, uuid4

import pytest

from coordinator.models import Task
from tests.world import fingerprint, lapse

from .callers import Api, attempt_path, commit_body, new_key, node, worker

REASON = {"reason": "because"}


def commit_next(api: Api, result: Any = None) -> dict[str, Any]:
    claim = api.claim()
    reply = api.worker.post(attempt_path(claim, "commit"), commit_body(claim, result))
    assert reply.outcome == "COMMITTED", reply
    return claim


# --- submitted ---------------------------------------------------------------------------------


def test_a_run_is_submitted_by_a_person_and_by_a_worker_with_the_scope(api: Api) -> None:
    body = {
        "queue": "q",
        "name": "nightly",
        "metadata": {"by": "cron"},
        "nodes": [node("a"), node("b", "a")],
    }
    for caller in (api.operator, worker("submitter", scopes=("submit",))):
        reply = caller.keyed("/runs", body)
        assert (reply.status, reply.body["state"]) == (201, "ACTIVE")
        assert [(task["node_id"], task["state"]) for task in reply.body["tasks"]] == [
            ("a", "READY"),
            ("b", "BLOCKED"),
        ]


def test_a_worker_submits_only_into_its_queues(api: Api) -> None:
    submitter = worker("submitter", scopes=("submit",))
    before = fingerprint()
    for path, body in (("/runs", {"nodes": [node("a")]}), ("/tasks", {"kind": "k", "input": 1})):
        assert submitter.keyed(path, {"queue": "q2", **body}).outcome == "FORBIDDEN"
    assert fingerprint() == before


def test_an_unknown_queue_is_told_by_its_field(api: Api) -> None:
    reply = api.operator.keyed("/runs", {"queue": "nowhere", "nodes": [node("a")]})
    assert (reply.status, reply.pointers) == (422, {"/queue"})


def test_a_single_task_is_answered_as_a_task_and_so_is_its_repeat(api: Api) -> None:
    key, body = new_key(), {"queue": "q", "kind": "mail", "input": {"to": "x"}, "priority": 3}
    first, again = (api.operator.post("/tasks", body, key=key) for _ in range(2))
    assert (first.status, again.status) == (201, 201)
    assert (first.body["task_id"], first.body["input"]) == (again.body["task_id"], {"to": "x"})
    assert (first.body["node_id"], first.body["priority"], first.headers["ETag"]) == (
        "task",
        3,
        '"1"',
    )


def test_the_same_key_with_another_run_is_a_conflict(api: Api) -> None:
    key = new_key()
    assert api.operator.post("/runs", {"queue": "q", "nodes": [node("a")]}, key=key).status == 201
    before = fingerprint()
    conflict = api.operator.post("/runs", {"queue": "q", "nodes": [node("b")]}, key=key)
    assert (conflict.status, conflict.outcome) == (422, "IDEMPOTENCY_CONFLICT")
    assert api.admin.post("/runs", {"queue": "q", "nodes": [node("b")]}, key=key).status == 201
    assert fingerprint() != before


# --- read --------------------------------------------------------------------------------------


def test_a_run_tells_its_progress_and_ends_committed(api: Api) -> None:
    api.submit(node("a"), node("b", "a"))
    run = api.operator.get("/runs").body["results"][0]["run_id"]
    assert api.operator.get(f"/runs/{run}").body["progress"] == {"READY": 1, "BLOCKED": 1}
    commit_next(api)
    commit_next(api)
    told = api.operator.get(f"/runs/{run}").body
    assert (told["state"], told["progress"]) == ("COMMITTED", {"COMMITTED": 2})
    assert told["finished_at"].endswith("Z")


def test_the_lineage_names_the_commits_that_each_commit_was_made_from(api: Api) -> None:
    api.submit(node("a"), node("b", "a"))
    commit_next(api)
    commit_next(api)
    run = api.operator.get("/runs").body["results"][0]["run_id"]
    first, second = api.viewer.get(f"/runs/{run}/lineage").body["commits"]
    assert second["parents"] == [
        {
            "node_id": "a",
            "result_commit_id": first["result_commit_id"],
            "result_digest": first["result_digest"],
        }
    ]


def test_a_tasks_etag_is_its_state_version_and_saves_the_body(api: Api) -> None:
    tasks = api.submit()
    path = f"/tasks/{tasks['a']}"
    first = api.operator.get(path)
    assert first.headers["ETag"] == '"1"'
    same = api.operator.get(path, If_None_Match='"0", "1"')
    assert (same.status, same.body, same.headers["ETag"]) == (304, b"", '"1"')
    assert same.headers["Cache-Control"] == "no-store"
    for tags in ('W/"1"', "*"):
        assert api.operator.get(path, If_None_Match=tags).status == 304
    api.claim()
    changed = api.operator.get(path, If_None_Match='"1"')
    assert (changed.status, changed.body["state"], changed.headers["ETag"]) == (
        200,
        "CLAIMED",
        '"2"',
    )


def test_the_ledger_tells_each_grant_in_order_with_how_it_ended(api: Api) -> None:
    claim = api.submitted_claim()
    lapse(UUID(claim["fence"]["task_id"]))
    api.claim(owner="second")
    told = api.viewer.get(f"/tasks/{claim['fence']['task_id']}/attempts").body["results"]
    assert [(each["owner"], each["state"], each["claim_generation"]) for each in told] == [
        ("w-1", "EXPIRED", 1),
        ("second", "STARTED", 2),
    ]
    assert told[0]["worker"] == "worker"


def test_the_history_of_a_task_is_told_in_order_and_by_whom(api: Api) -> None:
    tasks = api.submit()
    commit_next(api)
    events = api.viewer.get(f"/tasks/{tasks['a']}/events").body["results"]
    assert [event["kind"] for event in events] == ["SUBMITTED", "CLAIMED", "COMMITTED"]
    assert events[0]["actor"].startswith("operator:")
    assert events[2]["actor"].startswith("worker:worker")
    assert events[0]["request_id"]


def test_the_candidates_of_a_task_stand_beside_its_canonical_result(api: Api) -> None:
    claim = api.submitted_claim()
    api.worker.post(attempt_path(claim, "stage"), {"fence": claim["fence"], "result": "draft"})
    api.worker.post(attempt_path(claim, "commit"), commit_body(claim, "final"))
    told = api.operator.get(f"/tasks/{claim['fence']['task_id']}/candidates").body["results"]
    assert [(each["result"], each["canonical"]) for each in told] == [
        ("final", True),
        ("draft", False),
    ]


def test_a_blocked_task_explains_whom_it_waits_for(api: Api) -> None:
    tasks = api.submit(node("a"), node("b", "a"))
    told = api.viewer.get(f"/tasks/{tasks['b']}/explain").body
    assert told["claimable"] is False
    assert told["reasons"][0]["code"] == "BLOCKED_BY"
    assert "`a`" in told["reasons"][0]["detail"]
    assert api.viewer.get(told["reasons"][0]["link"].removeprefix("/api/v1")).body["node_id"] == "a"


@pytest.mark.parametrize(
    "path", ["/tasks/{}", "/tasks/{}/attempts", "/tasks/{}/events", "/tasks/{}/candidates", "/tasks/{}/explain",
             "/runs/{}", "/runs/{}/lineage"],
)  # fmt: skip
def test_what_is_not_there_is_404(path: str, api: Api) -> None:
    for name in (str(uuid4()), "x"):
        reply = api.operator.get(path.format(name))
        assert (reply.status, reply.outcome) == (404, "NOT_FOUND")


def test_tasks_are_filtered_by_what_the_address_says(api: Api) -> None:
    api.submit(node("a"), node("b", "a", kind="other"))
    run = api.operator.get("/runs").body["results"][0]["run_id"]
    api.claim(owner="o 1")

    def found(query: str) -> list[str]:
        return [task["node_id"] for task in api.operator.get(f"/tasks?{query}").body["results"]]

    assert found("state=BLOCKED") == ["b"]
    assert found("kind=other") == ["b"]
    assert found("owner=o%201") == ["a"]
    assert found(f"run_id={run}&queue=q") == ["b", "a"]
    assert found("node_id=a&state=CLAIMED") == ["a"]
    assert found("queue=q2") == []


def test_pages_follow_each_other_both_ways_without_gaps_or_repeats(api: Api) -> None:
    api.submit(*(node(f"n{i:02}") for i in range(11)))
    path = last = "/tasks?limit=4&queue=q"
    forward: list[list[str]] = []
    back: list[list[str]] = []
    while path:
        page = api.operator.get(path).body
        forward.append([task["node_id"] for task in page["results"]])
        last, path = path, (page["next"] or "").removeprefix("http://testserver/api/v1")
    assert [len(names) for names in forward] == [4, 4, 3]
    assert sorted(functools.reduce(operator.iadd, forward, [])) == [f"n{i:02}" for i in range(11)]
    path = last
    while path:
        page = api.operator.get(path).body
        back.insert(0, [task["node_id"] for task in page["results"]])
        path = (page["previous"] or "").removeprefix("http://testserver/api/v1")
    assert back == forward


def test_a_page_begins_where_the_last_ended_though_rows_came_in_between(api: Api) -> None:
    api.submit(node("a"), node("b"), node("c"))
    page = api.operator.get("/tasks?limit=2").body
    api.submit(node("later"))
    following = api.operator.get(page["next"].removeprefix("http://testserver/api/v1")).body
    assert [task["node_id"] for task in following["results"]] == ["a"]


def test_a_list_costs_one_query_however_long_it_is(
    api: Api, django_assert_max_num_queries: Any
) -> None:
    api.submit(*(node(f"n{i}") for i in range(30)))
    api.operator.get("/tasks")
    with django_assert_max_num_queries(1):
        assert len(api.operator.get("/tasks").body["results"]) == 30


# --- cancelled, revised, reopened ------------------------------------------------------------------


def test_a_task_is_cancelled_once_and_a_repeat_gets_the_same_receipt(api: Api) -> None:
    tasks = api.submit()
    first, again = (api.operator.post(f"/tasks/{tasks['a']}/cancel", REASON) for _ in range(2))
    assert (first.status, first.body) == (
        200,
        {"outcome": "CANCELLED", "cancel_generation": 1, "effects": []},
    )
    assert again.body == first.body


def test_a_committed_task_is_not_cancelled(api: Api) -> None:
    tasks = api.submit()
    commit_next(api)
    before = fingerprint()
    reply = api.operator.post(f"/tasks/{tasks['a']}/cancel", REASON)
    assert (reply.status, reply.outcome) == (409, "ALREADY_COMMITTED")
    assert fingerprint() == before


def test_a_cancel_of_what_changed_since_is_a_version_mismatch(api: Api) -> None:
    tasks = api.submit()
    reply = api.operator.post(
        f"/tasks/{tasks['a']}/cancel", {**REASON, "expected_state_version": 9}
    )
    assert (reply.status, reply.outcome, reply.body["state_version"]) == (
        409,
        "STATE_VERSION_MISMATCH",
        1,
    )


def test_a_cancel_needs_a_reason(api: Api) -> None:
    tasks = api.submit()
    for body, pointer in (
        ({}, "/reason"),
        ({"reason": ""}, "/reason"),
        ({**REASON, "why": 1}, "/why"),
    ):
        assert api.operator.post(f"/tasks/{tasks['a']}/cancel", body).pointers == {pointer}


def test_a_run_is_cancelled_with_all_that_is_unfinished(api: Api) -> None:
    api.submit(node("a"), node("b", "a"), node("c"))
    run = api.operator.get("/runs").body["results"][0]["run_id"]
    reply = api.operator.post(f"/runs/{run}/cancel", REASON)
    assert (reply.status, reply.outcome, reply.body["state"]) == (200, "CANCELLED", "CANCELLED")
    assert set(Task.objects.values_list("state", flat=True)) == {"CANCELLED"}
    assert api.operator.post(f"/runs/{uuid4()}/cancel", REASON).status == 404


def test_a_revision_is_a_new_task_and_needs_a_key(api: Api) -> None:
    tasks = api.submit()
    path, key = f"/tasks/{tasks['a']}/revise", new_key()
    body = {"expected_state_version": 1, "input": {"n": 2}, **REASON}
    assert api.operator.post(path, body).type == "idempotency-key-missing"
    first, again = (api.operator.post(path, body, key=key) for _ in range(2))
    assert (first.status, first.body["revision"], first.body["supersedes"]) == (201, 2, tasks["a"])
    assert again.body["task_id"] == first.body["task_id"]
    assert again.body["replayed"] is True
    late = api.operator.post(path, body, key=new_key())
    assert (late.status, late.outcome) == (409, "STALE_INPUT")


def test_a_cancelled_task_is_reopened_and_a_ready_one_is_not(api: Api) -> None:
    tasks = api.submit()
    path = f"/tasks/{tasks['a']}/reopen"
    early = api.operator.post(path, {"expected_state_version": 1, **REASON})
    assert early.status == 409
    api.operator.post(f"/tasks/{tasks['a']}/cancel", REASON)
    version = api.operator.get(f"/tasks/{tasks['a']}").body["state_version"]
    reply = api.operator.post(path, {"expected_state_version": version, **REASON})
    assert (reply.status, reply.outcome, reply.body["state"]) == (200, "REOPENED", "READY")


@pytest.mark.parametrize("verb", ["cancel", "revise", "reopen"])
def test_what_people_do_to_a_task_that_is_not_there_is_404(verb: str, api: Api) -> None:
    body = {"expected_state_version": 1, **REASON} | ({"input": 1} if verb == "revise" else {})
    reply = api.operator.keyed(f"/tasks/{uuid4()}/{verb}", body)
    assert (reply.status, reply.outcome) == (404, "NOT_FOUND")
