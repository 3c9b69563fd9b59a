"""Serial keys: one holder a key, live or lapsed; a busy key never aborts a batch (contract 7)."""

from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection

from coordinator.actors import Worker
from coordinator.models import Attempt, Queue, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import fail_attempt, release_attempt
from coordinator.services.leases import sweep
from coordinator.services.runs import NodeSpec
from coordinator.states import Guarantee, TaskState
from tests import world
from tests.history import check, nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue(max_attempts=50)


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def keyed(count: int, key: str = "k") -> list[NodeSpec]:
    return [node(f"{key}{i}", serial_key=key) for i in range(count)]


def test_one_task_a_key_is_granted_and_the_next_when_it_has_ended(worker: Worker) -> None:
    world.submit(*keyed(3))
    for turn in range(3):
        (claim,) = world.claim(by=worker, limit=9)
        with nothing_moves():
            assert world.claim(by=worker, limit=9) == []
        if turn == 0:
            world.commit(claim, by=worker)
        elif turn == 1:
            fail_attempt(
                attempt_id=claim.fence.attempt_id,
                fence=claim.fence,
                error={"type": "E", "message": "no"},
                retryable=False,
                worker=worker,
            )
        else:
            cancel_task(task_id=claim.fence.task_id, reason="stop", actor=world.operator())
    assert not Task.objects.filter(serial_held=True).exists()


def test_a_released_task_gives_its_key_back(worker: Worker) -> None:
    world.submit(*keyed(2))
    claim = world.claim_one(by=worker)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=worker)
    assert len(world.claim(by=worker, limit=9)) == 1


def test_keys_of_two_queues_and_two_keys_are_not_one(worker: Worker) -> None:
    world.queue(name="other")
    both = world.worker(name="fleet-2", queues=("q", "other"))
    world.submit(*keyed(2, "k"), *keyed(2, "l"))
    world.submit(*keyed(2, "k"), queue_name="other")
    assert len(world.claim(by=both, limit=9)) == 2
    assert len(world.claim(by=both, limit=9, queue_name="other")) == 1


def test_a_busy_key_takes_no_place_in_a_batch(worker: Worker) -> None:
    world.submit(*keyed(5), node("free-1", priority=-1), node("free-2", priority=-1))
    assert [c.node_id[0] for c in world.claim(by=worker, limit=1)] == ["k"]
    assert {c.node_id for c in world.claim(by=worker, limit=2)} == {"free-1", "free-2"}


def test_non_replayable_tasks_without_a_key_are_serial_by_kind(worker: Worker) -> None:
    world.downstream(name="mail", guarantee=Guarantee.NONE)
    slots = {"send": "mail"}
    world.submit(
        node("a", kind="mail", slots=slots),
        node("b", kind="mail", slots=slots),
        node("c", kind="fax", slots=slots),
    )
    claims = world.claim(by=worker, limit=9)
    assert sorted(c.kind for c in claims) == ["fax", "mail"]
    assert {c.replay for c in claims} == {"NON_REPLAYABLE"}


def test_claiming_a_mate_first_recycles_the_lapsed_holder(worker: Worker) -> None:
    run = world.submit(node("old", serial_key="k"), node("new", serial_key="k", priority=5))
    old = world.claim_one(by=worker, of=world.task_id(run, "old"))
    world.lapse(old.fence.task_id)
    (new,) = world.claim(by=worker, limit=9)
    assert new.node_id == "new"
    holder = world.current(run, "old")
    assert (holder.state, holder.attempt_id, holder.spent_attempts) == (TaskState.READY, None, 1)
    attempt = Attempt.objects.get(attempt_id=old.fence.attempt_id)
    assert (attempt.state, attempt.end_reason) == ("EXPIRED", "LEASE_EXPIRED")
    with nothing_moves():
        told = world.try_commit(old, by=worker)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.FENCED
        assert world.claim(by=worker, limit=9) == []
    world.commit(new, by=worker)
    again = world.claim_one(by=worker)
    assert (again.node_id, again.fence.claim_generation) == ("old", 2)


def test_a_lapsed_holder_past_its_attempts_fails_and_frees_the_key(worker: Worker) -> None:
    run = world.submit(
        node("old", serial_key="k", max_attempts=1), node("new", serial_key="k", priority=5)
    )
    world.claim_one(by=worker, of=world.task_id(run, "old"))
    world.lapse(world.task_id(run, "old"))
    assert [c.node_id for c in world.claim(by=worker)] == ["new"]
    assert world.current(run, "old").state == TaskState.FAILED


def test_a_lapsed_holder_that_renews_in_time_keeps_its_key(worker: Worker) -> None:
    world.submit(*keyed(2))
    first = world.claim_one(by=worker)
    world.lapse(first.fence.task_id)
    world.commit(first, by=worker)
    assert len(world.claim(by=worker, limit=9)) == 1


# --- at once ------------------------------------------------------------------------------------


def test_two_workers_at_a_barrier_share_one_key_and_one_gets_it(worker: Worker) -> None:
    for turn in range(60):
        world.submit(*keyed(2, f"k{turn}"))
        first, second = at_once(
            lambda: world.claim(by=worker, limit=2), lambda: world.claim(by=worker, limit=2)
        )
        assert len(first) + len(second) <= 1
        held = first or second or world.claim(by=worker, limit=2)
        assert len(held) == 1
        world.commit(held[0], by=worker)
        world.finish(Task.objects.get(state="READY").task_id, by=worker)


def test_a_busy_key_never_aborts_the_rest_of_a_batch(worker: Worker) -> None:
    """The key's lock is held by another transaction: the keyed tasks are left out, all others granted."""
    world.submit(*keyed(2), *(node(f"free-{i}", priority=-1) for i in range(5)))
    (scope,) = (
        Task.objects.filter(serial_key="k").values_list("serial_scope_id", flat=True).distinct()
    )
    with world.holding("SELECT pg_advisory_xact_lock(3, %s)", [scope]):
        claims = world.claim(by=worker, limit=9)
    assert sorted(c.node_id for c in claims) == [f"free-{i}" for i in range(5)]
    assert len(world.claim(by=worker, limit=9)) == 1


def test_a_holder_whose_row_is_locked_keeps_its_key_although_it_has_lapsed(worker: Worker) -> None:
    """It may be renewing or committing this very moment."""
    run = world.submit(
        node("old", serial_key="k"), node("new", serial_key="k", priority=5), node("x")
    )
    old = world.claim_one(by=worker, of=world.task_id(run, "old"))
    world.lapse(old.fence.task_id)
    with world.holding_task(old.fence.task_id):
        assert [c.node_id for c in world.claim(by=worker, limit=9)] == ["x"]
    world.commit(old, by=worker)
    assert [c.node_id for c in world.claim(by=worker, limit=9)] == ["new"]


def test_a_crowd_works_through_keyed_tasks_one_at_a_time(worker: Worker) -> None:
    world.submit(*keyed(12, "k"), *keyed(12, "l"), *(node(f"f{i}") for i in range(12)))

    def work() -> int:
        done = 0
        while Task.objects.exclude(state="COMMITTED").exists():
            for claim in world.claim(by=worker, limit=3):
                world.commit(claim, by=worker)
                done += 1
        return done

    assert sum(at_once(*[work] * 6)) == 36


def test_lapsed_holders_are_recycled_once_by_claimants_at_once(worker: Worker) -> None:
    for turn in range(30):
        run = world.submit(
            node("old", serial_key=f"k{turn}"), node("new", serial_key=f"k{turn}", priority=5)
        )
        old = world.claim_one(by=worker, of=world.task_id(run, "old"))
        world.lapse(old.fence.task_id)
        answers: list[Any] = at_once(*[partial(world.claim, by=worker, limit=2)] * 3, sweep)
        granted = [claim for claims in answers[:3] for claim in claims]
        assert len(granted) <= 1
        check()
        for claim in granted or world.claim(by=worker, limit=2):
            world.commit(claim, by=worker)
        for claim in world.claim(by=worker, limit=2):
            world.commit(claim, by=worker)


def test_the_database_refuses_two_holders_of_a_key(worker: Worker) -> None:
    run = world.submit(*keyed(2))
    claim = world.claim_one(by=worker)
    mate = next(t.task_id for t in run.tasks if t.task_id != claim.fence.task_id)
    grant = (
        "UPDATE coordinator_task SET state = 'CLAIMED', state_version = state_version + 1, owner = 'x',"
        " claim_generation = claim_generation + 1, attempt_id = gen_random_uuid(), claimable_at = NULL,"
        " lease_expires_at = clock_timestamp() + interval '1 minute', serial_held = %s WHERE task_id = %s"
    )
    with nothing_moves():
        for held, name in ((True, "task_serial_holder"), (False, "task_claimed_holds_serial")):
            with pytest.raises(IntegrityError, match=name):
                with world.guarded(), connection.cursor() as cursor:
                    cursor.execute(grant, [held, mate])
