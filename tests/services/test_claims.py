"""Claiming: who gets what, once, in which order, under which counters (contract 3, 7)."""

import datetime as dt
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.db import IntegrityError, connection

from coordinator.models import Attempt, Event, Queue
from coordinator.outcomes import Outcome, Reason, Refusal, Retry
from coordinator.rounds import sent
from coordinator.services.answers import RequestKey
from coordinator.services.candidates import MAX_CLAIMS
from coordinator.services.claims import Claimed, claim_task, claim_tasks
from coordinator.services.endings import Released, release_attempt
from coordinator.services.epochs import set_intake
from coordinator.services.grants import Claim
from coordinator.services.leases import sweep
from coordinator.states import AttemptState, Guarantee, Intake, TaskState
from coordinator.tasks import settle_runs
from tests import world
from tests.history import nothing_moves
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue(max_attempts=3)


def ask(**changes: Any) -> Claimed | Refusal:
    asked: dict[str, Any] = {
        "queue": "q",
        "worker": changes.pop("by", None) or world.worker(),
        "scheduler_epoch": 1,
        "owner": "worker-1",
        "ttl_seconds": 60,
        "limit": 1,
        "kinds": None,
    } | changes
    return claim_tasks(**asked)


def by_id(of: Any, **changes: Any) -> Claim | Refusal:
    asked: dict[str, Any] = {
        "task_id": of,
        "expected_state_version": 1,
        "scheduler_epoch": 1,
        "owner": "worker-1",
        "ttl_seconds": 60,
        "worker": changes.pop("by", None) or world.worker(),
    } | changes
    return claim_task(**asked)


def refused(answer: Any, outcome: Outcome, reason: Reason | None = None) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert (answer.outcome, answer.reason) == (outcome, reason)
    return answer


# --- what a grant is --------------------------------------------------------------------------


def test_a_grant_raises_the_generation_and_stamps_the_epoch_on_task_and_attempt() -> None:
    run = world.submit(node("a", input={"x": 1}))
    (claim,) = world.claim(by=world.worker(), owner="me")
    task = world.task(world.task_id(run, "a"))
    attempt = Attempt.objects.get()
    assert claim.fence.claim_generation == task.claim_generation == attempt.claim_generation == 1
    assert claim.fence.scheduler_epoch == task.scheduler_epoch == attempt.scheduler_epoch == 1
    assert claim.fence.attempt_id == task.attempt_id == attempt.attempt_id
    assert (task.state, task.owner, task.attempts) == (TaskState.CLAIMED, "me", 1)
    assert (claim.state_version, task.state_version) == (2, 2)
    assert (claim.attempt_number, claim.revision, claim.replay) == (1, 1, "READ_ONLY")
    assert orjson.dumps(claim.input) == b'{"x":1}'
    assert (claim.parents, claim.effects, claim.slots) == ({}, [], {})
    assert claim.lease_expires_at == task.lease_expires_at == attempt.lease_expires_at
    assert 59 < claim.lease_seconds <= 60


def test_the_same_owner_again_is_a_new_generation_and_a_new_attempt() -> None:
    run = world.submit()
    worker = world.worker()
    first = world.claim_one(by=worker, owner="me")
    world.lapse(first.fence.task_id)
    second = world.claim_one(by=worker, owner="me")
    assert second.fence.task_id == first.fence.task_id == world.task_id(run, "a")
    assert second.fence.claim_generation == 2
    assert second.fence.attempt_id != first.fence.attempt_id
    with nothing_moves():
        assert (
            refused(
                world.try_commit(first, by=worker), Outcome.FENCED, Reason.STALE_GENERATION
            ).retry
            is Retry.RECLAIM
        )
    assert Attempt.objects.get(attempt_id=first.fence.attempt_id).state == AttemptState.FENCED


def test_a_take_over_ends_the_old_attempt_expired_and_tells_how_late_it_was() -> None:
    world.submit()
    first = world.claim_one(by=world.worker())
    world.lapse(first.fence.task_id, seconds_ago=7)
    second = world.claim_one(by=world.worker(name="fleet-2"))
    old, new = Attempt.objects.order_by("claim_generation")
    assert (old.state, old.end_reason) == (AttemptState.EXPIRED, "LEASE_EXPIRED")
    assert old.ended_at == new.started_at
    assert new.reclaim_seconds is not None
    assert new.reclaim_seconds >= 7
    assert second.attempt_number == 2
    told = Event.objects.filter(task_id=first.fence.task_id).order_by("id")
    kinds = list(told.values_list("kind", flat=True))
    assert kinds == ["SUBMITTED", "CLAIMED", "EXPIRED", "CLAIMED"]


def test_parents_results_come_with_the_claim() -> None:
    run = world.submit(node("a"), node("b"), node("c", "a", "b"))
    worker = world.worker()
    commits = {
        name: world.finish(world.task_id(run, name), by=worker, result={"from": name})
        for name in ("a", "b")
    }
    claim = world.claim_one(by=worker)
    assert claim.node_id == "c"
    assert {name: told["result_commit_id"] for name, told in claim.parents.items()} == {
        name: commit.result_commit_id for name, commit in commits.items()
    }


# --- order and choice ---------------------------------------------------------------------------


def test_higher_priority_first_then_the_longest_waiting_lapsed_and_ready_alike() -> None:
    run = world.submit(
        node("low", priority=-1), node("lapsed"), node("ready"), node("high", priority=9)
    )
    worker = world.worker()
    world.claim_one(by=worker, of=world.task_id(run, "lapsed"))
    world.lapse(world.task_id(run, "lapsed"), seconds_ago=world.AN_HOUR)
    assert sweep() != {}
    order = [world.claim_one(by=worker).node_id for _ in range(4)]
    assert order == ["high", "lapsed", "ready", "low"]


def test_a_lapsed_task_is_served_without_waiting_for_a_sweep() -> None:
    world.submit()
    first = world.claim_one(by=world.worker())
    world.lapse(first.fence.task_id, seconds_ago=0.01)
    assert world.claim_one(by=world.worker()).fence.claim_generation == 2


def test_a_live_lease_is_nobody_elses_until_it_lapses() -> None:
    world.submit()
    claim = world.claim_one(by=world.worker())
    with nothing_moves():
        assert world.claim(by=world.worker()) == []
        answer = by_id(claim.fence.task_id, expected_state_version=2)
        assert refused(answer, Outcome.NOT_CLAIMABLE).retry is Retry.AFTER


def test_kinds_are_a_filter_and_an_unknown_kind_finds_nothing() -> None:
    world.submit(node("a", kind="fetch"), node("b", kind="merge"))
    worker = world.worker()
    assert [c.node_id for c in world.claim(by=worker, limit=9, kinds=["merge"])] == ["b"]
    assert world.claim(by=worker, limit=9, kinds=["nothing"]) == []
    assert world.claim(by=worker, limit=9, kinds=[]) == []


def test_a_batch_grants_at_most_a_hundred_each_task_once() -> None:
    world.submit(*(node(f"n{i}") for i in range(MAX_CLAIMS + 5)))
    worker = world.worker()
    first = world.claim(by=worker, limit=1000)
    assert len(first) == len({c.fence.task_id for c in first}) == MAX_CLAIMS
    assert len(world.claim(by=worker, limit=1000)) == 5
    assert world.claim(by=worker, limit=1000) == []


def test_nothing_before_its_time() -> None:
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    run = world.submit(node("a", not_before=later))
    with nothing_moves():
        assert world.claim(by=world.worker()) == []
        refused(by_id(world.task_id(run, "a")), Outcome.NOT_CLAIMABLE)
    world.make_due(world.task_id(run, "a"))
    assert len(world.claim(by=world.worker())) == 1


# --- the lease's length -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "got"), [(None, 60), (5, 5), (300, 300), (301, 300), (10**9, 300)]
)
def test_the_ttl_is_the_queues_default_or_what_was_asked_up_to_the_maximum(
    asked: int | None, got: int
) -> None:
    world.submit()
    (claim,) = world.claim(by=world.worker(), ttl_seconds=asked)
    attempt = Attempt.objects.get()
    assert attempt.lease_expires_at - attempt.started_at == dt.timedelta(seconds=got)
    assert got - 1 < claim.lease_seconds <= got


def test_a_lease_is_never_longer_than_the_longest_hold(lane: Queue) -> None:
    lane.max_lease_seconds = lane.max_ttl_seconds = lane.default_ttl_seconds = 10
    lane.save(update_fields=["max_lease_seconds", "max_ttl_seconds", "default_ttl_seconds"])
    world.submit()
    (claim,) = world.claim(by=world.worker(), ttl_seconds=60)
    assert claim.lease_seconds <= 10


# --- refused ------------------------------------------------------------------------------------


def test_another_pool_gets_nothing() -> None:
    run = world.submit()
    green = world.worker(pool_name="green")
    with nothing_moves():
        refused(ask(by=green), Outcome.WRONG_POOL)
        refused(by_id(world.task_id(run, "a"), by=green), Outcome.WRONG_POOL)


def test_an_older_contract_than_the_pool_asks_for_gets_nothing() -> None:
    world.submit()
    worker = world.worker()
    world.pool().__class__.objects.update(min_contract="claim.v2")
    with nothing_moves():
        told = refused(ask(by=worker), Outcome.WRONG_POOL)
    assert "claim.v2" in told.detail


@pytest.mark.parametrize(
    ("epoch", "reason"), [(0, Reason.STALE_EPOCH), (2, Reason.AHEAD), (10**15, Reason.AHEAD)]
)
def test_another_epoch_is_fenced_with_the_current_one(epoch: int, reason: Reason) -> None:
    run = world.submit()
    with nothing_moves():
        for answer in (
            ask(scheduler_epoch=epoch),
            by_id(world.task_id(run, "a"), scheduler_epoch=epoch),
        ):
            told = refused(answer, Outcome.FENCED, reason)
            assert told.current is not None
            assert told.current.scheduler_epoch == 1
    alarms = Event.objects.filter(kind="ALARM").count()
    assert (alarms > 0) == (reason is Reason.AHEAD)


def test_a_stopped_intake_grants_nothing() -> None:
    run = world.submit()
    set_intake(queue="q", intake=Intake.STOPPED, reason="drill", actor=world.operator())
    with nothing_moves():
        assert refused(ask(), Outcome.INTAKE_STOPPED).retry is Retry.AFTER
        refused(by_id(world.task_id(run, "a")), Outcome.INTAKE_STOPPED)
    set_intake(queue="q", intake=Intake.OPEN, reason="drill", actor=world.operator())
    assert len(world.claim(by=world.worker())) == 1


def test_an_unknown_queue_and_a_task_of_another_queue_are_not_found() -> None:
    world.queue(name="other")
    run = world.submit(queue_name="other")
    with nothing_moves():
        refused(ask(queue="nowhere"), Outcome.NOT_FOUND)
        refused(by_id(world.task_id(run, "a")), Outcome.NOT_FOUND)
        refused(by_id(uuid4()), Outcome.NOT_FOUND)


def test_a_queue_that_took_a_forgotten_ones_name_is_the_one_that_is_meant() -> None:
    world.submit()
    worker = world.worker()
    assert len(world.claim(by=worker)) == 1  # the name is remembered now
    Queue.objects.filter(name="q").update(name="old")
    world.queue(name="q")
    world.submit(node("other"))
    assert [c.node_id for c in world.claim(by=worker, limit=9)] == ["other"]


def test_a_changed_task_is_not_claimed_by_an_old_look() -> None:
    run = world.submit()
    worker = world.worker()
    claim = world.claim_one(by=worker)
    answer = release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=worker)
    assert isinstance(answer, Released)
    with nothing_moves():
        told = refused(
            by_id(world.task_id(run, "a"), expected_state_version=1), Outcome.STATE_VERSION_MISMATCH
        )
    assert told.extra == {"state_version": 3, "task_state": "READY"}
    assert isinstance(by_id(world.task_id(run, "a"), expected_state_version=3), Claim)


def test_blocked_and_committed_tasks_are_not_claimable() -> None:
    run = world.submit(node("a"), node("b", "a"))
    with nothing_moves():
        refused(by_id(world.task_id(run, "b")), Outcome.NOT_CLAIMABLE)
    world.finish(world.task_id(run, "a"), by=world.worker())
    with nothing_moves():
        answer = by_id(world.task_id(run, "a"), expected_state_version=3)
        refused(answer, Outcome.NOT_CLAIMABLE)


def test_equal_refusals_are_one_event_with_a_counter() -> None:
    world.submit()
    green = world.worker(pool_name="green")
    for _ in range(4):
        refused(ask(by=green), Outcome.WRONG_POOL)
    event = Event.objects.get(kind="REFUSED")
    assert event.repeats == 3
    assert event.last_at is not None
    assert event.data["outcome"] == "WRONG_POOL"


# --- what no longer may be handed out -----------------------------------------------------------


def test_after_max_attempts_a_lapsed_task_fails_for_a_person_to_decide() -> None:
    run = world.submit()
    worker = world.worker()
    for generation in (1, 2, 3):
        assert world.claim_one(by=worker).fence.claim_generation == generation
        world.lapse(world.task_id(run, "a"))
    assert world.claim(by=worker) == []
    task = world.task(world.task_id(run, "a"))
    assert (task.state, task.claim_generation, task.spent_attempts) == (TaskState.FAILED, 3, 3)
    assert world.claim(by=worker) == []
    assert Event.objects.filter(kind="FAILED", task_id=task.task_id).count() == 1
    settle_runs()
    assert world.run_row(run).state == "FAILED"


def test_an_exhausted_task_does_not_keep_others_from_a_batch() -> None:
    run = world.submit(node("bad", max_attempts=1), node("good"))
    worker = world.worker()
    world.claim_one(by=worker, of=world.task_id(run, "bad"))
    world.lapse(world.task_id(run, "bad"))
    sweep()
    assert [c.node_id for c in world.claim(by=worker, limit=5)] == ["good"]
    assert world.current(run, "bad").state == TaskState.FAILED


def test_exhausted_tasks_do_not_keep_the_one_behind_them_from_a_claim_of_one() -> None:
    bad = [f"bad{number}" for number in range(130)]  # more than one look sees
    run = world.submit(
        *(node(name, max_attempts=1, priority=5) for name in bad),
        node("good", priority=1),
        node("next"),
    )
    worker = world.worker()
    for limit in (100, 30):
        world.claim(by=worker, limit=limit)
    for name in bad:
        world.lapse(world.task_id(run, name))
    sweep()
    assert [c.node_id for c in world.claim(by=worker, limit=1)] == ["good"]
    assert {world.current(run, name).state for name in bad} == {TaskState.FAILED}
    assert world.current(run, "next").state == TaskState.READY


def test_a_claim_that_finds_nothing_looks_and_sweeps_once() -> None:
    worker = world.worker()
    log: list[list[str]] = []
    token = sent.set(log)
    try:
        assert world.claim(by=worker, limit=1) == []
    finally:
        sent.reset(token)
    assert sum("lapsed AS" in sql for statements in log for sql in statements) == 1
    assert len(log) == 2


def test_releases_do_not_count_against_max_attempts() -> None:
    world.submit()
    worker = world.worker()
    for generation in range(1, 8):
        claim = world.claim_one(by=worker)
        assert claim.fence.claim_generation == generation
        release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=worker)


@pytest.mark.parametrize(
    ("stage", "offered"),
    [("SHADOW", []), ("IDEMPOTENT_READS", ["read"]), ("CONDITIONAL_WRITES", ["write", "read"])],
)
def test_claims_offer_only_what_the_rollout_stage_allows(
    lane: Queue, stage: str, offered: list[str]
) -> None:
    world.downstream(name="store", guarantee=Guarantee.CONDITIONAL_WRITE)
    run = world.submit(node("write", slots={"put": "store"}, priority=1), node("read"))
    Queue.objects.filter(pk=lane.pk).update(rollout_stage=stage)
    worker = world.worker()
    for name in {"read", "write"} - set(offered):
        refused(by_id(world.task_id(run, name)), Outcome.NOT_CLAIMABLE)
    assert [c.node_id for c in world.claim(by=worker, limit=5)] == offered


# --- lost answers -------------------------------------------------------------------------------


def key(text: str = "k1", *, digest: str = "body") -> RequestKey:
    return RequestKey(scope="fleet-1", key=text, request_digest=digest)


def test_a_claim_whose_response_was_lost_is_answered_again_not_granted_again() -> None:
    world.submit(*(node(f"n{i}") for i in range(5)))
    worker = world.worker()
    first = ask(by=worker, limit=2, request=key())
    with nothing_moves():
        again = ask(by=worker, limit=2, request=key())
    assert isinstance(first, Claimed)
    assert isinstance(again, Claimed)
    assert (first.replayed, again.replayed, again.superseded) == (False, True, [])
    assert [c.fence for c in again.claims] == [c.fence for c in first.claims]
    assert all(
        a.lease_seconds <= f.lease_seconds for a, f in zip(again.claims, first.claims, strict=True)
    )
    assert Attempt.objects.count() == 2


def test_a_replayed_claim_lists_what_was_taken_over_meanwhile_as_superseded() -> None:
    world.submit(node("a"), node("b"))
    worker = world.worker()
    first = ask(by=worker, limit=2, request=key())
    assert isinstance(first, Claimed)
    kept, lost = first.claims
    world.lapse(lost.fence.task_id)
    world.claim_one(by=world.worker(name="fleet-2"))
    with nothing_moves():
        again = ask(by=worker, limit=2, request=key())
    assert isinstance(again, Claimed)
    assert [c.fence for c in again.claims] == [kept.fence]
    assert again.superseded == [lost.fence.attempt_id]


def test_a_lost_claim_is_found_again_although_intake_was_stopped_meanwhile() -> None:
    world.submit()
    worker = world.worker()
    first = ask(by=worker, request=key())
    set_intake(queue="q", intake=Intake.STOPPED, reason="drill", actor=world.operator())
    with nothing_moves():
        again = ask(by=worker, request=key())
    assert isinstance(first, Claimed)
    assert isinstance(again, Claimed)
    assert [c.fence for c in again.claims] == [c.fence for c in first.claims]
    refused(ask(by=worker, request=key("k2")), Outcome.INTAKE_STOPPED)


def test_an_empty_claim_is_never_stored() -> None:
    worker = world.worker()
    empty = ask(by=worker, request=key())
    assert isinstance(empty, Claimed)
    assert empty.claims == []
    world.submit()
    later = ask(by=worker, request=key())
    assert isinstance(later, Claimed)
    assert len(later.claims) == 1
    assert not later.replayed


def test_the_same_key_with_another_body_is_a_conflict() -> None:
    run = world.submit(node("a"), node("b"))
    worker = world.worker()
    ask(by=worker, request=key())
    with nothing_moves():
        refused(ask(by=worker, request=key(digest="other")), Outcome.IDEMPOTENCY_CONFLICT)
        answer = by_id(world.task_id(run, "b"), by=worker, request=key(digest="third"))
        refused(answer, Outcome.IDEMPOTENCY_CONFLICT)


def test_a_claim_by_id_whose_response_was_lost_is_answered_again() -> None:
    run = world.submit()
    worker = world.worker()
    first = by_id(world.task_id(run, "a"), by=worker, request=key())
    with nothing_moves():
        again = by_id(world.task_id(run, "a"), by=worker, request=key())
    assert isinstance(first, Claim)
    assert isinstance(again, Claim)
    assert again.fence == first.fence
    world.lapse(first.fence.task_id)
    world.claim_one(by=world.worker())
    with nothing_moves():
        answer = by_id(world.task_id(run, "a"), by=worker, request=key())
        refused(answer, Outcome.NOT_CLAIMABLE)


# --- the same, attempted by raw SQL -------------------------------------------------------------

RAW_GRANTS = {
    "two generations at once": "claim_generation = claim_generation + 2",
    "a generation back": "claim_generation = claim_generation - 1",
    "another attempt in the same generation": "attempt_id = gen_random_uuid()",
    "an older epoch": "scheduler_epoch = scheduler_epoch - 1",
    "a state version back": "state_version = state_version - 1",
    "a cancel generation back": "cancel_generation = cancel_generation - 1",
    "a change of state without a version": "state = 'READY', claimable_at = lease_expires_at",
    "a claim without an attempt": "attempt_id = NULL",
    "another input": "input = '{}', input_digest = 'sha256:0'",
}


@pytest.mark.parametrize("change", RAW_GRANTS.values(), ids=RAW_GRANTS.keys())
def test_the_database_refuses_a_grant_by_hand_that_breaks_the_counters(change: str) -> None:
    world.submit()
    claim = world.claim_one(by=world.worker())
    with nothing_moves():
        with pytest.raises(IntegrityError):
            with world.guarded(), connection.cursor() as cursor:
                cursor.execute(
                    f"UPDATE coordinator_task SET {change} WHERE task_id = %s",
                    [claim.fence.task_id],
                )


def test_the_database_refuses_a_second_attempt_of_one_generation() -> None:
    world.submit()
    claim = world.claim_one(by=world.worker())
    with nothing_moves(), pytest.raises(IntegrityError, match="attempt_generation"):
        with world.guarded(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO coordinator_attempt SELECT r.* FROM coordinator_attempt a,"
                " jsonb_populate_record(a, jsonb_build_object('attempt_id', gen_random_uuid())) r"
                " WHERE a.attempt_id = %s",
                [claim.fence.attempt_id],
            )


def test_the_database_refuses_a_grant_that_names_no_acceptance_point() -> None:
    world.submit()
    claim = world.claim_one(by=world.worker())
    with nothing_moves(), pytest.raises(IntegrityError, match="did not come through the guard"):
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE coordinator_task SET owner = 'me' WHERE task_id = %s", [claim.fence.task_id]
            )
