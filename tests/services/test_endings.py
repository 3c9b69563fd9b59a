"""Failing and releasing: what becomes of the attempt and of the task (contract 7)."""

import datetime as dt
from typing import Any

import pytest

from coordinator.actors import Worker
from coordinator.models import Attempt, Event, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import (
    Failed,
    Released,
    RetryScheduled,
    fail_attempt,
    release_attempt,
)
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.revisions import reopen_task
from coordinator.services.usage import Usage
from coordinator.states import AttemptState, TaskState
from tests import world
from tests.history import nothing_moves
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

ERROR = {"type": "Timeout", "message": "the tool did not answer", "detail": {"after": 15}}


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue(max_attempts=3, retry_backoff_seconds=8, retry_backoff_max_seconds=100)


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def fail(claim: Claim, *, by: Worker, **changes: Any) -> RetryScheduled | Failed | Refusal:
    asked: dict[str, Any] = {
        "attempt_id": claim.fence.attempt_id,
        "fence": claim.fence,
        "error": ERROR,
        "retryable": True,
        "worker": by,
    } | changes
    return fail_attempt(**asked)


def release(claim: Claim, *, by: Worker, **changes: Any) -> Released | Refusal:
    return release_attempt(
        attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by, **changes
    )


def delay(claim: Claim, answer: Any) -> float:
    """Seconds from the attempt's end to the instant that the answer names."""
    ended = Attempt.objects.get(attempt_id=claim.fence.attempt_id).ended_at
    assert isinstance(answer, RetryScheduled), answer
    assert ended is not None
    return (answer.not_before - ended).total_seconds()


# --- failing ------------------------------------------------------------------------------------


def test_a_failed_attempt_is_kept_with_its_error_and_the_task_waits_its_backoff(
    worker: Worker,
) -> None:
    run = world.submit()
    claim = world.claim_one(by=worker)
    answer = fail(claim, by=worker, usage=Usage(output_tokens=7))
    assert 6 <= delay(claim, answer) <= 8
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.output_tokens) == (AttemptState.FAILED, 7)
    task = world.current(run, "a")
    assert (task.state, task.attempt_id, task.owner, task.lease_expires_at) == (
        TaskState.READY, None, None, None,
    )  # fmt: skip
    assert isinstance(answer, RetryScheduled)
    assert task.claimable_at == task.not_before == answer.not_before
    assert (task.attempts, task.spent_attempts, task.state_version) == (1, 1, 3)
    with nothing_moves():
        assert world.claim(by=worker) == []
    world.make_due(task.task_id)
    assert world.claim_one(by=worker).fence.claim_generation == 2


def test_the_backoff_doubles_with_jitter_up_to_the_queues_maximum(
    worker: Worker, lane: Queue
) -> None:
    Queue.objects.filter(pk=lane.pk).update(max_attempts=100)
    run = world.submit(node("a", max_attempts=50))
    waits = []
    for _ in range(40):
        claim = world.claim_one(by=worker)
        waits.append(delay(claim, fail(claim, by=worker)))
        world.make_due(world.task_id(run, "a"))
    for spent, wait in enumerate(waits):
        longest = min(100, 8 * 2**spent)
        assert 0.75 * longest <= wait <= longest, (spent, wait)
    assert len({round(wait, 6) for wait in waits[5:]}) > 20  # jitter


@pytest.mark.parametrize(("asked", "got"), [(0, 0), (0.5, 0.5), (42, 42), (1e9, 100), (-5, 0)])
def test_a_delay_that_is_asked_for_stays_within_the_maximum(
    worker: Worker, asked: float, got: float
) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    assert delay(claim, fail(claim, by=worker, retry_after_seconds=asked)) == got


def test_an_error_that_no_retry_mends_fails_the_task_and_its_run(worker: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    answer = fail(world.claim_one(by=worker), by=worker, retryable=False)
    assert answer == Failed()
    assert world.current(run, "a").state == TaskState.FAILED
    assert world.current(run, "b").state == TaskState.BLOCKED
    assert world.run_row(run).state == "FAILED"


def test_the_last_allowed_attempt_fails_the_task(worker: Worker) -> None:
    run = world.submit()
    for generation in (1, 2, 3):
        claim = world.claim_one(by=worker)
        assert claim.fence.claim_generation == generation
        answer = fail(claim, by=worker)
        assert isinstance(answer, Failed) == (generation == 3)
        if generation < 3:
            world.make_due(world.task_id(run, "a"))
    assert world.current(run, "a").state == TaskState.FAILED


def test_lapsed_and_failed_attempts_count_together_released_ones_do_not(worker: Worker) -> None:
    run = world.submit()
    of = world.task_id(run, "a")
    release(world.claim_one(by=worker), by=worker)
    world.claim_one(by=worker)
    world.lapse(of)
    fail(world.claim_one(by=worker), by=worker)
    world.make_due(of)
    assert world.task(of).spent_attempts == 2
    assert fail(world.claim_one(by=worker), by=worker) == Failed()
    assert world.task(of).attempts == 4


def test_reopening_gives_a_fresh_allowance_and_goes_on_counting_generations(
    worker: Worker,
) -> None:
    run = world.submit(node("a", max_attempts=1))
    old = world.claim_one(by=worker)
    fail(old, by=worker)
    task = world.current(run, "a")
    reopen_task(
        task_id=task.task_id,
        expected_state_version=task.state_version,
        reason="the tool is back",
        actor=world.operator(),
    )
    claim = world.claim_one(by=worker)
    assert claim.fence.claim_generation == 2
    assert world.task(task.task_id).spent_attempts == 0
    with nothing_moves():  # the fence of before the reopening stays dead
        for answer in (world.try_commit(old, by=worker), release(old, by=worker)):
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.FENCED
    world.commit(claim, by=worker)


# --- releasing ----------------------------------------------------------------------------------


def test_a_released_task_is_ready_at_once(worker: Worker) -> None:
    run = world.submit()
    claim = world.claim_one(by=worker)
    assert release(claim, by=worker, usage=Usage(input_tokens=3)) == Released()
    task = world.current(run, "a")
    assert (task.state, task.attempts, task.spent_attempts) == (TaskState.READY, 1, 0)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.input_tokens) == (AttemptState.RELEASED, 3)
    assert world.claim_one(by=worker).fence.claim_generation == 2


# --- repeats and refusals -------------------------------------------------------------------------


def test_a_repeat_whose_response_was_lost_is_answered_again(worker: Worker) -> None:
    world.submit(node("a"), node("b"), node("c"))
    scheduled, failed, released = world.claim(by=worker, limit=3)
    first = [
        fail(scheduled, by=worker),
        fail(failed, by=worker, retryable=False),
        release(released, by=worker),
    ]
    with nothing_moves():
        again = [
            fail(scheduled, by=worker),
            fail(failed, by=worker, retryable=False),
            release(released, by=worker),
        ]
    for before, after in zip(first, again, strict=True):
        assert not isinstance(before, Refusal)
        assert not isinstance(after, Refusal)
        assert (before.replayed, after.replayed) == (False, True)
        assert after.outcome == before.outcome
    assert getattr(again[0], "not_before") == getattr(first[0], "not_before")  # noqa: B009
    assert not Event.objects.filter(kind="REFUSED").exists()


def test_the_repeat_is_answered_even_after_somebody_else_has_taken_the_task(
    worker: Worker,
) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    release(claim, by=worker)
    world.claim_one(by=world.worker(name="fleet-2"))
    with nothing_moves():
        assert release(claim, by=worker) == Released(replayed=True)


def test_another_end_than_the_one_that_was_is_fenced(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    release(claim, by=worker)
    with nothing_moves():
        for answer in (
            fail(claim, by=worker),
            world.try_commit(claim, by=worker),
            renew_leases(
                items=[Renewal(claim.fence.attempt_id, claim.fence, claim.owner)], worker=worker
            )[0],
        ):
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.FENCED
    assert (
        Attempt.objects.get().state == AttemptState.RELEASED
    )  # only an EXPIRED one becomes FENCED


def test_a_cancelled_task_is_not_retried_by_a_late_failure(worker: Worker) -> None:
    run = world.submit()
    claim = world.claim_one(by=worker)
    cancel_task(task_id=claim.fence.task_id, reason="stop", actor=world.operator())
    with nothing_moves():
        for answer in (fail(claim, by=worker), release(claim, by=worker)):
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.CANCELLED
    assert world.current(run, "a").state == TaskState.CANCELLED


def test_an_old_owner_neither_fails_nor_releases_its_successors_task(worker: Worker) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    world.lapse(old.fence.task_id)
    new = world.claim_one(by=world.worker(name="fleet-2"))
    with nothing_moves():
        for answer in (
            fail(old, by=worker, usage=Usage(cost_usd=1)),
            fail(old, by=worker, retryable=False),
            release(old, by=worker),
        ):
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.FENCED
        assert isinstance(fail(new, by=worker), Refusal)  # another credential's attempt
    attempt = Attempt.objects.get(attempt_id=old.fence.attempt_id)
    assert attempt.cost_usd == 1  # abandoned cost, kept all the same
    assert isinstance(attempt.ended_at, dt.datetime)
