"""C17 — one token for everything: each caller against each operation, as the written table says."""

from uuid import uuid4

import orjson
import pytest

from coordinator.access import Operation
from coordinator.api.schema import schema_bytes
from coordinator.models import Credential, Event
from tests.world import fingerprint

from .callers import Api, Caller, attempt_path, commit_body, person, worker

# W a worker with the scope `work`, S one with `submit`, G one with `gate`, D one with `shadow`; U a viewer,
# V an approver, O an operator, A an administrator.
TABLE = """
read_me              W S G D U V O A
list_queues          W S G D U V O A
read_queue           W S G D U V O A
create_queue         . . . . . . A
change_policy        . . . . . . A
set_intake           . . . . . O A
run_drill            . . . . . O A
start_audit          . . . . . O A
list_drills          . . . U V O A
read_coverage        . . . U V O A
list_audits          . . . U V O A
read_audit           . . . U V O A
read_audit_seal      . . . U V O A
verify_audit_chain   . . . U V O A
export_audit_chain   . . . . . . A
reveal_audit_chain   . . . . . . A
list_pools           . . . U V O A
create_pool          . . . . . . A
list_downstreams     . . . U V O A
register_downstream  . . . . . . A
change_downstream    . . . . . . A
list_credentials     . . . . . . A
create_credential    . . . . . . A
revoke_credential    . . . . . . A
submit_run           . S . . . O A
submit_task          . S . . . O A
list_runs            W S . U V O A
read_run             W S . U V O A
read_lineage         W S . U V O A
cancel_run           . . . . . O A
list_tasks           W S . U V O A
read_task            W S . U V O A
list_attempts        W S . U V O A
list_events          W S . U V O A
list_candidates      W S . . V O A
explain_task         W S . U V O A
cancel_task          . . . . . O A
revise_task          . . . . . O A
reopen_task          . . . . . O A
release_restore_hold . . . . V O A
snooze_task          . . . . . O A
wake_task            . . . . . O A
list_views           . . . U V O A
save_view            . . . U V O A
rename_view          . . . U V O A
delete_view          . . . U V O A
list_bulks           . . . U V O A
review_bulk          . . . . . O A
read_bulk            . . . U V O A
list_bulk_items      . . . U V O A
start_bulk           . . . . . O A
stop_bulk            . . . . . O A
undo_bulk            . . . . . O A
claim_tasks          W . . . . . .
claim_task           W . . . . . .
wait_for_work        W . . . . . .
renew_lease          W . . . . . .
renew_leases         W . . . . . .
stage_result         W . . . . . .
put_blob             W . . . . . .
read_blob            W S . . V O A
commit_result        W . . . . . .
commit_results       W . . . . . .
fail_attempt         W . . . . . .
release_attempt      W . . . . . .
read_memory          W S . . V O A
prepare_effect       W . . . . . .
accept_effect        W . . . . . .
report_effect        W . G . . . .
redeem_dispatch      . . G . . . .
list_effects         W S . U V O A
read_effect          W S . U V O A
group_effects        W S . U V O A
list_task_effects    W S . U V O A
reveal_effect        . . . . V . A
reveal_task          . . . . V . A
reveal_run           . . . . V . A
reveal_event         . . . . V . A
reveal_memory        . . . . V . A
list_approvals       . . . U V O A
read_approval        . . . U V O A
approve              . . . . V . A
reject               . . . . V . A
ask_for_changes      . . . . V . A
pass_approval        . . . . V . A
read_present         . . . . V O A
look_at_present      . . . . V . A
start_look_up        W . . . V O A
ask_downstream       . . . . V O A
reconcile_effect     W . . . V O A
read_metrics         . . . U V O A
take_shadow_events   . . . D . . . .
read_shadow          . . . . U V O A
list_shadow_rounds   . . . . U V O A
read_shadow_round    . . . . U V O A
explain_shadow_round . . . . . . O A
read_promotion       . . . . U V O A
promote_queue        . . . . . . O A
confirm_promotion    . . . . . . O A
withdraw_promotion   . . . . . . O A
list_promotion_requests . . . . U V O A
read_promotion_request  . . . . U V O A
demote_queue         . . . . . . O A
open_incident        . . . . . O A
list_incidents       . . . U V O A
read_incident        . . . U V O A
preview_bump         . . . U V O A
bump_incident        . . . . . O A
read_gate            . . . U V O A
decide_candidates    . . . . . O A
switch_pool          . . . . . O A
resume_intake        . . . . . O A
abort_incident       . . . . . O A
report_incident      . . . U V O A
"""
EVERYTHING = (
    "queue", "pool", "downstream", "run", "task", "dependency", "attempt", "stagedresult", "blob", "canonicalcommit",
    "memorykey", "memoryfact", "effectslot", "dispatch", "lookup", "evidence", "approval", "decision", "storedanswer",
    "incident", "incidentqueue", "incidentstep", "incidentcanary", "incidenthold", "incidenteffect",
    "candidatedecision", "bulkjob", "bulkitem",
)  # fmt: skip


def allowed(letter: str) -> dict[str, bool]:
    rows = [line.split() for line in TABLE.strip().splitlines()]
    return {name: letter in letters for name, *letters in rows}


def requests() -> dict[str, tuple[str, str]]:
    """Method and a path of each operation: queue `q`, and ids of nothing."""
    told = {}
    for path, methods in orjson.loads(schema_bytes())["paths"].items():
        filled = path.removeprefix("/api/v1").replace("{queue}", "q")
        while "{" in filled:
            start, _, rest = filled.partition("{")
            filled = start + str(uuid4()) + rest.partition("}")[2]
        for method, spec in methods.items():
            told[spec["operationId"]] = (method.upper(), filled)
    return told


def test_the_written_table_has_every_operation_once() -> None:
    names = [line.split()[0] for line in TABLE.strip().splitlines()]
    assert sorted(names) == sorted(operation.value for operation in Operation)


@pytest.mark.parametrize("letter", list("WSGDUVOA"))
def test_each_caller_may_exactly_what_the_table_says(letter: str, api: Api) -> None:
    callers = {
        "U": api.viewer,
        "V": api.approver,
        "O": api.operator,
        "A": api.admin,
        "W": api.worker,
    }
    scopes = {"S": "submit", "G": "gate", "D": "shadow"}
    caller = callers.get(letter) or worker("other", scopes=(scopes[letter],))
    before, wrong = fingerprint(*EVERYTHING), []
    for name, (method, path) in requests().items():
        reply = caller.send(method, path, {} if method in ("POST", "PATCH") else None, key="k" * 16)
        refused = reply.status == 403 and reply.outcome == "FORBIDDEN"
        assert reply.status < 500, (name, reply)
        if refused == allowed(letter)[name] or reply.status == 401:
            wrong.append((name, reply.status))
    assert wrong == []
    assert fingerprint(*EVERYTHING) == before
    tried = {name for name, (method, _) in requests().items() if method != "GET"}
    told = Event.objects.filter(kind="REFUSED", data__outcome="FORBIDDEN", data__has_key="target")
    assert {event.data["point"] for event in told} == {
        name for name in tried if not allowed(letter)[name]
    }


def test_who_tries_again_what_it_may_not_is_counted_and_not_told_anew(api: Api) -> None:
    for _ in range(3):
        assert api.worker.post(f"/approvals/{uuid4()}/approve", {}).outcome == "FORBIDDEN"
    (told,) = Event.objects.filter(kind="REFUSED")
    assert (told.repeats, told.actor, told.data["point"]) == (
        2,
        f"worker:worker#{Credential.objects.get(name='worker').pk}",
        "approve",
    )
    assert api.worker.get("/credentials").outcome == "FORBIDDEN"  # reading moves nothing
    assert Event.objects.filter(kind="REFUSED").count() == 1


def test_without_a_token_nothing_is_answered_but_401(api: Api) -> None:
    for method, path in requests().values():
        reply = api.nobody.send(
            method, path, {} if method in ("POST", "PATCH") else None, key="k" * 16
        )
        assert (reply.status, reply.type) == (401, "unauthenticated")
        assert reply.headers["WWW-Authenticate"].startswith("Bearer")


def test_a_rival_with_the_true_fence_is_refused_and_the_lease_stays(api: Api) -> None:
    claim = api.submitted_claim()
    before = fingerprint()
    fence = claim["fence"]
    bodies = {
        "renew": {"fence": fence, "owner": "w-1"},
        "stage": {"fence": fence, "result": 1},
        "commit": commit_body(claim),
        "fail": {"fence": fence, "error": {"type": "E", "message": "m"}, "retryable": False},
        "release": {"fence": fence},
    }
    for verb, body in bodies.items():
        reply = api.rival.post(attempt_path(claim, verb), body)
        assert (reply.status, reply.outcome) == (403, "FORBIDDEN"), verb
        assert "current" not in reply.body
    blob = api.rival.send(
        "PUT", attempt_path(claim, "blobs/b"), raw=b"x", Claim_Fence=orjson.dumps(fence).decode()
    )
    assert (blob.status, blob.outcome) == (403, "FORBIDDEN")
    assert fingerprint() == before
    assert api.worker.post(attempt_path(claim, "commit"), commit_body(claim)).outcome == "COMMITTED"


def test_a_worker_of_another_queue_claims_nothing_and_sees_nothing(api: Api) -> None:
    tasks = api.submit()
    before = fingerprint()
    claims = {"scheduler_epoch": 1, "owner": "s"}
    assert api.stranger.keyed("/queues/q/claims", claims).outcome == "FORBIDDEN"
    by_id = api.stranger.keyed(
        f"/tasks/{tasks['a']}/claims", {**claims, "expected_state_version": 1}
    )
    assert (by_id.status, by_id.outcome) == (404, "NOT_FOUND")
    for path in ("", "/attempts", "/events", "/candidates", "/explain"):
        assert api.stranger.get(f"/tasks/{tasks['a']}{path}").status == 404
    assert api.stranger.get("/queues/q").status == 404
    assert api.stranger.get("/queues/q/hint").outcome == "FORBIDDEN"
    assert api.stranger.get("/tasks").body["results"] == []
    assert api.stranger.get("/runs").body["results"] == []
    assert [queue["name"] for queue in api.stranger.get("/queues").body["results"]] == ["q2"]
    assert fingerprint() == before


def test_who_submitted_a_task_lends_no_power_to_who_works_on_it(api: Api) -> None:
    submitted = api.admin.keyed("/tasks", {"queue": "q", "kind": "step", "input": {}})
    assert submitted.status == 201
    path = f"/tasks/{submitted.body['task_id']}"
    api.claim()
    for refused in (
        api.worker.post(f"{path}/cancel", {"reason": "mine"}),
        api.worker.keyed(
            f"{path}/revise", {"expected_state_version": 2, "input": 1, "reason": "r"}
        ),
        api.worker.keyed(
            "/credentials", {"name": "n", "pool": "blue", "queues": ["q"], "scopes": ["work"]}
        ),
        api.worker.post("/queues/q/intake", {"intake": "STOPPED", "reason": "r"}),
    ):
        assert (refused.status, refused.outcome) == (403, "FORBIDDEN")


def test_an_input_is_told_only_to_who_may_see_payloads(api: Api) -> None:
    tasks = api.submit()
    path = f"/tasks/{tasks['a']}"
    assert api.operator.get(path).body["input"] == {"n": "a"}
    assert api.worker.get(path).body["input"] == {"n": "a"}
    assert "input" not in api.viewer.get(path).body
    assert all("input" not in task for task in api.operator.get("/tasks").body["results"])


def test_a_role_that_was_taken_away_is_gone_at_once(api: Api) -> None:
    from django.contrib.auth.models import User

    caller: Caller = person("operator")
    assert caller.post("/queues/q/intake", {"intake": "OPEN", "reason": "check"}).status == 200
    User.objects.get(username=caller.get("/me").body["name"]).groups.clear()
    assert caller.get("/queues").outcome == "FORBIDDEN"
