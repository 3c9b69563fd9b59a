"""Why a task is not running: everything that can hold it back, by its code (contract 6)."""

import datetime as dt
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coordinator.actors import Actor, ActorKind, Worker
from coordinator.models import Approval, Credential, EffectSlot, Queue
from coordinator.outcomes import Refusal
from coordinator.selectors.explain import MAX_NAMED, Explanation, explain_task
from coordinator.services.acceptances import accept_effect
from coordinator.services.answers import RequestKey
from coordinator.services.approvals import approve
from coordinator.services.cancels import cancel_task
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.endings import fail_attempt
from coordinator.services.grants import Claim
from coordinator.services.revisions import revise_task
from tests import world
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue(max_attempts=2, retry_backoff_seconds=60)
    return world.worker()


def explain(of: UUID) -> Explanation:
    answer = explain_task(of)
    assert answer is not None
    return answer


def codes(of: UUID) -> tuple[bool, list[str]]:
    answer = explain(of)
    return answer.claimable, [reason.code for reason in answer.reasons]


def fail(of: UUID, *, by: Worker, retryable: bool) -> None:
    claimed = world.claim_one(by=by, of=of)
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "Crash", "message": "disk full"},
        retryable=retryable,
        worker=by,
    )


def test_a_ready_task_is_claimable(by: Worker) -> None:
    run = world.submit()
    assert codes(world.task_id(run, "a")) == (True, [])


def test_a_blocked_task_names_what_it_waits_for_and_what_that_takes(by: Worker) -> None:
    run = world.submit(
        node("ready"),
        node("blocked", "ready"),
        node("failed"),
        node("cancelled"),
        node("held"),
        node("done"),
        node("z", "ready", "blocked", "failed", "cancelled", "held", "done"),
    )
    world.finish(world.task_id(run, "done"), by=by)
    fail(world.task_id(run, "failed"), by=by, retryable=False)
    cancel_task(task_id=world.task_id(run, "cancelled"), reason="r", actor=world.operator())
    world.claim_one(by=by, of=world.task_id(run, "held"))
    answer = explain(world.task_id(run, "z"))
    assert not answer.claimable
    assert [(reason.code, reason.detail) for reason in answer.reasons] == [
        ("BLOCKED_BY", "It waits for node `blocked`, which is BLOCKED itself."),
        ("BLOCKED_BY", "It waits for node `cancelled`, which was CANCELLED: reopen it."),
        ("BLOCKED_BY", "It waits for node `failed`, which FAILED: reopen or revise it."),
        ("BLOCKED_BY", "It waits for node `held`, which a worker holds."),
        ("BLOCKED_BY", "It waits for node `ready`, which is READY for a worker."),
    ]
    assert answer.reasons[0].link == f"/api/v1/tasks/{world.task_id(run, 'blocked')}"


def test_of_many_parents_some_are_named_and_the_rest_counted(by: Worker) -> None:
    names = [f"n{i:03}" for i in range(MAX_NAMED + 5)]
    run = world.submit(*map(node, names), node("z", *names))
    answer = explain(world.task_id(run, "z"))
    assert len(answer.reasons) == MAX_NAMED + 1
    assert answer.reasons[-1].detail == "It waits for 5 more nodes."
    assert answer.reasons[-1].link == f"/api/v1/runs/{run.run_id}"


def test_a_task_is_not_claimable_before_its_time(by: Worker) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    run = world.submit(node("a", not_before=later))
    answer = explain(world.task_id(run, "a"))
    assert codes(world.task_id(run, "a")) == (False, ["NOT_BEFORE"])
    assert later.strftime("%Y-%m-%dT%H:%M:%SZ") in answer.reasons[0].detail


def test_a_retry_waits_for_its_backoff(by: Worker) -> None:
    run = world.submit()
    fail(world.task_id(run, "a"), by=by, retryable=True)
    assert codes(world.task_id(run, "a")) == (False, ["NOT_BEFORE"])
    world.make_due(world.task_id(run, "a"))
    assert codes(world.task_id(run, "a")) == (True, [])


def test_a_lease_says_who_holds_it_until_when(by: Worker) -> None:
    run = world.submit()
    claimed = world.claim_one(by=by, owner="host-1/7")
    answer = explain(world.task_id(run, "a"))
    until = claimed.lease_expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    assert codes(world.task_id(run, "a")) == (False, ["LEASED"])
    assert (
        answer.reasons[0].detail == f"`host-1/7` holds it until {until}, and longer if it renews."
    )


def test_a_lapsed_lease_may_be_taken_over(by: Worker) -> None:
    run = world.submit()
    world.claim_one(by=by)
    world.lapse(world.task_id(run, "a"))
    assert codes(world.task_id(run, "a")) == (True, ["LEASE_LAPSED"])


def test_a_lapsed_last_attempt_is_told(by: Worker) -> None:
    run = world.submit(node("a", max_attempts=1))
    world.claim_one(by=by)
    world.lapse(world.task_id(run, "a"))
    assert codes(world.task_id(run, "a"))[1] == ["LEASE_LAPSED", "ATTEMPTS_USED_UP"]


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        ({"intake": "STOPPED"}, "INTAKE_STOPPED"),
        ({"rollout_stage": "SHADOW"}, "STAGE_FORBIDS"),
    ],
)
def test_the_queue_can_be_in_the_way(by: Worker, policy: dict[str, Any], code: str) -> None:
    run = world.submit()
    Queue.objects.update(**policy)
    assert codes(world.task_id(run, "a")) == (False, [code])


def test_a_queue_of_idempotent_reads_offers_only_read_only_tasks(by: Worker) -> None:
    world.downstream(name="d", guarantee="GATED")
    run = world.submit(node("a"), node("b", slots={"s": "d"}))
    Queue.objects.update(rollout_stage="IDEMPOTENT_READS")
    assert codes(world.task_id(run, "a")) == (True, [])
    assert codes(world.task_id(run, "b")) == (False, ["STAGE_FORBIDS"])


@pytest.mark.parametrize(
    "change",
    [
        {"revoked_at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
        {"expires_at": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)},
        {"queues": ["another"]},
        {"scopes": ["submit"]},
    ],
)
def test_c12_3_a_task_that_no_pool_can_run_says_so(by: Worker, change: dict[str, Any]) -> None:
    run = world.submit()
    Credential.objects.update(**change)
    assert codes(world.task_id(run, "a")) == (False, ["NO_CAPABLE_POOL"])


def test_a_credential_of_another_pool_does_not_count(by: Worker) -> None:
    run = world.submit()
    world.pool(name="green")
    Queue.objects.update(active_pool_id="green")
    assert codes(world.task_id(run, "a")) == (False, ["NO_CAPABLE_POOL"])


def test_a_busy_serial_key_names_its_holder(by: Worker) -> None:
    run = world.submit(node("a", serial_key="k"), node("b", serial_key="k"))
    world.claim_one(by=by, of=world.task_id(run, "a"))
    answer = explain(world.task_id(run, "b"))
    assert codes(world.task_id(run, "b")) == (False, ["SERIAL_BUSY"])
    assert answer.reasons[0].detail == "Node `a` has `key:k`; one at a time."
    assert answer.reasons[0].link == f"/api/v1/tasks/{world.task_id(run, 'a')}"
    world.lapse(world.task_id(run, "a"))
    assert codes(world.task_id(run, "b")) == (True, ["SERIAL_LAPSED"])


def test_a_task_that_awaits_a_person_or_a_settlement_says_for_what(
    by: Worker, django_user_model: Any
) -> None:
    world.downstream(name="mail", guarantee="NONE")
    run = world.submit(node("a", slots={"hello": "mail"}))
    task = world.task_id(run, "a")
    approval = _send(world.claim_one(by=by), by=by)
    assert isinstance(approval, Refusal)
    waits = explain(task)
    assert (waits.claimable, [reason.code for reason in waits.reasons]) == (
        False,
        ["AWAITING_APPROVAL"],
    )
    assert "payload of `hello` by 20" in waits.reasons[0].detail
    pending = Approval.objects.get()
    assert waits.reasons[0].link == f"/api/v1/approvals/{pending.approval_id}"
    bob = django_user_model.objects.create(username="bob")
    approve(
        approval_id=pending.approval_id,
        payload_digest=pending.payload_digest,
        actor=Actor(ActorKind.OPERATOR, "bob", id=bob.pk),
    )
    assert codes(task) == (True, [])
    _send(world.claim_one(by=by), by=by)
    world.lapse(task)
    assert world.claim(by=by) == []
    waits = explain(task)
    assert [reason.code for reason in waits.reasons] == ["AWAITING_RECONCILIATION"]
    assert waits.reasons[0].detail.startswith("`hello` may have reached `mail`")
    assert waits.reasons[0].link == f"/api/v1/effects/{pending.effect_id}"


def _send(claimed: Claim, *, by: Worker) -> object:
    """Ask for the acceptance of the task's one effect."""
    prepared = prepare_effect(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        slot="hello",
        downstream="mail",
        payload={"to": "x"},
        worker=by,
    )
    assert isinstance(prepared, Prepared), prepared
    slot = EffectSlot.objects.get()
    return accept_effect(
        effect_id=slot.effect_id,
        fence=claimed.fence,
        payload_digest=slot.payload_digest,
        worker=by,
        request=RequestKey("w", str(claimed.fence.attempt_id), "sha256:1"),
    )


def test_what_is_finished_says_how(by: Worker) -> None:
    run = world.submit(node("done"), node("gone"), node("old"))
    done, gone, old = (world.task_id(run, name) for name in ("done", "gone", "old"))
    world.finish(done, by=by)
    cancel_task(task_id=gone, reason="r", actor=world.operator())
    revise_task(task_id=old, expected_state_version=1, input=1, reason="r", actor=world.operator())
    assert codes(done) == (False, ["COMMITTED"])
    assert codes(gone) == (False, ["CANCELLED"])
    assert codes(old) == (False, ["SUPERSEDED"])
    assert explain(old).reasons[0].link == f"/api/v1/tasks/{world.current(run, 'old').task_id}"


def test_a_failed_task_says_what_went_wrong(by: Worker) -> None:
    run = world.submit(node("a"), node("b", max_attempts=1))
    a, b = world.task_id(run, "a"), world.task_id(run, "b")
    fail(a, by=by, retryable=False)
    fail(b, by=by, retryable=True)
    assert codes(a) == (False, ["FAILED"])
    told = explain(a).reasons[0].detail
    assert told == "Its last attempt failed with Crash: disk full. Reopen or revise it."
    assert codes(b) == (False, ["FAILED", "ATTEMPTS_USED_UP"])


def test_a_task_whose_last_lease_ran_out_says_that_its_attempts_are_used_up(by: Worker) -> None:
    run = world.submit(node("a", max_attempts=1))
    world.claim_one(by=by)
    world.lapse(world.task_id(run, "a"))
    assert world.claim(by=by) == []
    answer = explain(world.task_id(run, "a"))
    assert [reason.code for reason in answer.reasons] == ["FAILED", "ATTEMPTS_USED_UP"]
    assert answer.reasons[0].detail == "It failed: attempts used up. Reopen or revise it."


def test_several_reasons_stand_together(by: Worker) -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    run = world.submit(node("a", not_before=later, serial_key="k"), node("b", serial_key="k"))
    world.claim_one(by=by, of=world.task_id(run, "b"))
    Queue.objects.update(intake="STOPPED")
    Credential.objects.update(scopes=["submit"])
    assert codes(world.task_id(run, "a")) == (
        False,
        ["NOT_BEFORE", "INTAKE_STOPPED", "NO_CAPABLE_POOL", "SERIAL_BUSY"],
    )


def test_what_the_caller_may_not_see_is_not_there(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    assert explain_task(task, queues=["another"]) is None
    assert explain_task(task, queues=["q"]) is not None
    assert explain_task(run.run_id) is None


def test_claimable_means_that_a_claim_gets_it(by: Worker) -> None:
    """For every state that this file knows how to make: the explanation and a claim agree."""
    run = world.submit(
        node("a", serial_key="k"), node("b", serial_key="k"), node("c", "a"), node("d")
    )
    world.claim_one(by=by, of=world.task_id(run, "a"))
    world.lapse(world.task_id(run, "a"))
    told = {task.node_id for task in run.tasks if explain(task.task_id).claimable}
    assert told == {"a", "b", "d"}
    got = {claimed.node_id for claimed in world.claim(by=by, limit=10)}
    assert got <= told
    assert {"d"} < got


def test_at_most_three_queries_and_no_lock(by: Worker) -> None:
    names = [f"n{i}" for i in range(50)]
    run = world.submit(*map(node, names), node("z", *names), node("s", serial_key="k"))
    with world.holding_task(world.task_id(run, "z")):
        for name in ("z", "n1", "s"):
            with CaptureQueriesContext(connection) as queries:
                explain(world.task_id(run, name))
            assert len(queries) <= 3
            assert not any("FOR UPDATE" in query["sql"] for query in queries)
