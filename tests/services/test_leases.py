"""Leases: renewed by their owners alone, never shortened, swept without harm (contract 4, 7)."""

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from django.db import connection, transaction

from coordinator.actors import Worker
from coordinator.models import RENEWALS_REMEMBERED, Attempt, Event, Queue, Task
from coordinator.outcomes import Outcome, Reason, Refusal, Retry
from coordinator.services.cancels import cancel_task
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, Renewed, renew_leases, sweep, sweep_queue
from coordinator.services.revisions import revise_task
from coordinator.services.usage import Usage
from coordinator.states import AttemptState
from tests import world
from tests.history import nothing_moves
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def renewal(claim: Claim, **changes: Any) -> Renewal:
    asked: dict[str, Any] = {
        "attempt_id": claim.fence.attempt_id,
        "fence": claim.fence,
        "owner": claim.owner,
        "ttl_seconds": 60,
    } | changes
    return Renewal(**asked)


def renew(claim: Claim, *, by: Worker, **changes: Any) -> Renewed | Refusal:
    (answer,) = renew_leases(items=[renewal(claim, **changes)], worker=by)
    return answer


def expiry(claim: Claim) -> dt.datetime:
    at = world.task(claim.fence.task_id).lease_expires_at
    assert at is not None
    return at


def age(claim: Claim, *, seconds: float) -> None:
    """Let the attempt have started so long ago."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_attempt SET started_at = started_at - make_interval(secs => %s)"
            " WHERE attempt_id = %s",
            [seconds, claim.fence.attempt_id],
        )


def test_a_renewal_extends_the_lease_and_nothing_else(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker, ttl_seconds=10)
    before = world.task(claim.fence.task_id)
    answer = renew(claim, by=worker, ttl_seconds=200)
    after = world.task(claim.fence.task_id)
    attempt = Attempt.objects.get()
    assert isinstance(answer, Renewed)
    assert 199 < answer.lease_seconds <= 200
    assert answer.lease_expires_at == after.lease_expires_at == attempt.lease_expires_at
    assert attempt.renewals == 1
    assert len(attempt.renewed_at) == 1
    after.lease_expires_at = before.lease_expires_at
    unchanged = [field.attname for field in Task._meta.concrete_fields]
    assert [getattr(after, name) for name in unchanged] == [
        getattr(before, name) for name in unchanged
    ]


def test_a_shorter_renewal_never_shortens_a_lease(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker, ttl_seconds=200)
    before = expiry(claim)
    answer = renew(claim, by=worker, ttl_seconds=5)
    assert isinstance(answer, Renewed)
    assert answer.lease_expires_at == expiry(claim) == before


@pytest.mark.parametrize(("asked", "got"), [(None, 60), (5, 5), (300, 300), (10**9, 300)])
def test_a_renewal_is_clipped_to_the_queues_maximum(
    worker: Worker, asked: int | None, got: int
) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    answer = renew(claim, by=worker, ttl_seconds=asked)
    assert isinstance(answer, Renewed)
    assert answer.lease_seconds == got


def test_a_lapsed_lease_that_nobody_took_is_renewed_the_fence_decides(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id, seconds_ago=world.AN_HOUR)
    assert sweep() != {}
    assert isinstance(renew(claim, by=worker), Renewed)
    assert world.task(claim.fence.task_id).claimable_at is None
    assert world.claim(by=world.worker()) == []


def test_a_superseded_attempt_never_renews_and_leaves_its_successors_lease_alone(
    worker: Worker,
) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    world.lapse(old.fence.task_id)
    new = world.claim_one(by=worker)
    with nothing_moves():
        for _ in range(3):
            told = renew(old, by=worker, ttl_seconds=300, usage=Usage(output_tokens=9))
            assert isinstance(told, Refusal)
            assert (told.outcome, told.reason) == (Outcome.FENCED, Reason.STALE_GENERATION)
            assert told.evidence_recorded
            assert told.current is not None
            assert told.current.claim_generation == new.fence.claim_generation
    attempt = Attempt.objects.get(attempt_id=old.fence.attempt_id)
    assert attempt.state == AttemptState.FENCED
    assert attempt.output_tokens == 9
    assert Event.objects.get(kind="REFUSED").repeats == 2


def test_another_credential_and_another_owner_do_not_renew(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker, owner="me")
    with nothing_moves():
        told = renew(claim, by=world.worker(name="fleet-2"))
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.FORBIDDEN
        told = renew(claim, by=worker, owner="somebody-else")
        assert isinstance(told, Refusal)
        assert (told.outcome, told.reason) == (Outcome.FENCED, Reason.STALE_GENERATION)


def test_a_cancelled_and_a_revised_task_end_the_lease_with_their_own_word(worker: Worker) -> None:
    run = world.submit(node("cancelled"), node("revised"))
    claims = {claim.node_id: claim for claim in world.claim(by=worker, limit=2)}
    cancel_task(task_id=world.task_id(run, "cancelled"), reason="no", actor=world.operator())
    revise_task(
        task_id=world.task_id(run, "revised"),
        expected_state_version=2,
        input={"new": True},
        reason="better",
        actor=world.operator(),
    )
    with nothing_moves():
        for name, outcome in (("cancelled", Outcome.CANCELLED), ("revised", Outcome.STALE_INPUT)):
            told = renew(claims[name], by=worker)
            assert isinstance(told, Refusal)
            assert (told.outcome, told.retry) == (outcome, Retry.NEVER)


def test_the_longest_hold_clips_the_lease_and_then_refuses_but_a_commit_still_works(
    worker: Worker, lane: Queue
) -> None:
    Queue.objects.filter(pk=lane.pk).update(max_lease_seconds=1000)
    world.submit()
    claim = world.claim_one(by=worker)
    age(claim, seconds=900)
    answer = renew(claim, by=worker, ttl_seconds=300)
    assert isinstance(answer, Renewed)
    started = Attempt.objects.get().started_at
    assert answer.lease_expires_at == started + dt.timedelta(seconds=1000)
    assert 0 < answer.lease_seconds <= 100
    with nothing_moves():
        told = renew(claim, by=worker, ttl_seconds=300)
        assert isinstance(told, Refusal)
        assert (told.outcome, told.retry) == (Outcome.LEASE_LIMIT, Retry.NEVER)
        assert "1000" in told.detail
    world.lapse(claim.fence.task_id)
    world.commit(claim, by=worker)


def test_a_lapsed_lease_past_the_longest_hold_is_not_extended(worker: Worker, lane: Queue) -> None:
    Queue.objects.filter(pk=lane.pk).update(max_lease_seconds=300)
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    age(claim, seconds=world.AN_HOUR)
    before = expiry(claim)
    answer = renew(claim, by=worker, ttl_seconds=300)
    assert expiry(claim) == before
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.LEASE_LIMIT


def test_many_renewals_are_counted_and_only_the_last_ones_remembered(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    for _ in range(RENEWALS_REMEMBERED + 3):
        assert isinstance(renew(claim, by=worker), Renewed)
    attempt = Attempt.objects.get()
    assert attempt.renewals == RENEWALS_REMEMBERED + 3
    assert len(attempt.renewed_at) == RENEWALS_REMEMBERED
    assert attempt.renewed_at == sorted(attempt.renewed_at)
    assert world.task(claim.fence.task_id).state_version == claim.state_version


def test_a_renewal_is_a_hot_update_of_the_task(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)

    def block_of() -> Any:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT (ctid::text::point)[0], ctid::text FROM coordinator_task WHERE task_id = %s",
                [claim.fence.task_id],
            )
            return cursor.fetchone()

    def counted() -> tuple[int, int]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_stat_force_next_flush()")
            cursor.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_xact_user_tables WHERE relname = 'coordinator_task'"
            )
            updated, hot = cursor.fetchone()
            return updated, hot

    before = block_of()
    with transaction.atomic():
        start = counted()
        for _ in range(5):
            assert isinstance(renew(claim, by=worker), Renewed)
        end = counted()
    assert (end[0] - start[0], end[1] - start[1]) == (5, 5)
    assert block_of()[0] == before[0]


def test_usage_is_cumulative_and_never_lowered(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    for tokens in (10, 30, 20):
        renew(claim, by=worker, usage=Usage(input_tokens=tokens, cost_usd=tokens / 100))
    attempt = Attempt.objects.get()
    assert (attempt.input_tokens, attempt.cost_usd) == (30, Decimal("0.3"))


def test_one_bad_renewal_spoils_no_other(worker: Worker) -> None:
    world.submit(*(node(f"n{i}") for i in range(4)))
    good, taken, foreign, last = world.claim(by=worker, limit=4, ttl_seconds=30)
    world.lapse(taken.fence.task_id)
    world.claim_one(by=world.worker(name="fleet-2"))
    answers = renew_leases(
        items=[
            renewal(good),
            renewal(taken),
            renewal(foreign, owner="other"),
            Renewal(good.fence.attempt_id, last.fence, "worker-1"),
            renewal(last),
            renewal(good),
        ],
        worker=worker,
    )
    assert [answer.outcome for answer in answers] == [
        "RENEWED", "FENCED", "FENCED", "INVALID", "RENEWED", "RENEWED",
    ]  # fmt: skip
    for claim in (good, last):  # 60 s from now instead of 30 s from the claim
        assert expiry(claim) - claim.lease_expires_at > dt.timedelta(seconds=29)


def test_a_batch_in_the_name_of_another_queue_is_not_found(worker: Worker) -> None:
    world.queue(name="other")
    world.submit()
    claim = world.claim_one(by=worker)
    with nothing_moves():
        (told,) = renew_leases(items=[renewal(claim)], worker=worker, queue="other")
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.NOT_FOUND


# --- the sweep ----------------------------------------------------------------------------------


def test_the_sweep_marks_lapsed_leases_and_touches_no_live_one(worker: Worker) -> None:
    run = world.submit(node("lapsed"), node("live"), node("ready"))
    lapsed, live = (
        world.claim_one(by=worker, of=world.task_id(run, name)) for name in ("lapsed", "live")
    )
    world.lapse(lapsed.fence.task_id)
    before = Task.objects.filter(task_id=live.fence.task_id).values().get()
    assert sum(sweep().values()) == 1
    assert sweep() == {}
    task = world.task(lapsed.fence.task_id)
    assert task.claimable_at == task.lease_expires_at
    assert (task.state, task.attempt_id) == ("CLAIMED", lapsed.fence.attempt_id)
    assert Task.objects.filter(task_id=live.fence.task_id).values().get() == before


def test_the_sweep_revokes_nothing(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    sweep()
    world.commit(claim, by=worker)
    assert Attempt.objects.get().state == AttemptState.COMMITTED


def test_a_sweep_is_bounded_and_the_next_one_goes_on(worker: Worker, lane: Queue) -> None:
    world.submit(*(node(f"n{i}") for i in range(7)))
    for claim in world.claim(by=worker, limit=7):
        world.lapse(claim.fence.task_id)
    assert [sum(sweep(limit=3).values()) for _ in range(4)] == [3, 3, 1, 0]
    assert sweep_queue(lane.pk) == 0
