"""The queue's switches: its epoch only rises, its intake stops claims and nothing else (contract 4, 12)."""

from typing import Any

import pytest
from django.db import IntegrityError, connection

from coordinator.actors import Worker
from coordinator.models import Attempt, Event, Queue
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.claims import claim_tasks
from coordinator.services.endings import Released, release_attempt
from coordinator.services.epochs import Bumped, IntakeSet, bump_epoch, set_intake
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.results import Staged, stage_result
from coordinator.states import AttemptState, Intake, TaskState
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


def bump(expected: int = 1, **changes: Any) -> Bumped | Refusal:
    asked: dict[str, Any] = {
        "queue": "q", "expected_epoch": expected, "reason": "drill", "actor": world.operator(),
    } | changes  # fmt: skip
    return bump_epoch(**asked)


def test_a_bump_ends_every_hold_of_the_old_epoch_and_makes_its_tasks_ready(worker: Worker) -> None:
    run = world.submit(node("held"), node("lapsed"), node("child", "held"), node("idle"))
    held = world.claim_one(by=worker, of=world.task_id(run, "held"))
    lapsed = world.claim_one(by=worker, of=world.task_id(run, "lapsed"))
    world.lapse(lapsed.fence.task_id)
    answer = bump()
    assert answer == Bumped("q", 2, 2)
    for name, version in (("held", 3), ("lapsed", 3), ("idle", 1)):
        task = world.current(run, name)
        assert (task.state, task.state_version, task.attempt_id) == (TaskState.READY, version, None)
        assert task.spent_attempts == 0  # incident-ended attempts don't count
    assert world.current(run, "child").state == TaskState.BLOCKED
    assert set(Attempt.objects.values_list("state", "end_reason")) == {
        (AttemptState.EXPIRED, "EPOCH_BUMP")
    }
    event = Event.objects.get(kind="EPOCH_BUMPED")
    assert event.actor == "operator:alice"
    assert {k: event.data[k] for k in ("from", "to", "reason", "revoked")} == {
        "from": 1, "to": 2, "reason": "drill", "revoked": 2,
    }  # fmt: skip
    new = world.claim_one(by=worker, of=held.fence.task_id)
    assert (new.fence.scheduler_epoch, new.fence.claim_generation) == (2, 2)


def test_everything_of_the_old_epoch_is_refused_from_then_on(worker: Worker) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    bump()
    with nothing_moves():
        (renewed,) = renew_leases(
            items=[Renewal(old.fence.attempt_id, old.fence, old.owner)], worker=worker
        )
        answers = [
            renewed,
            world.try_commit(old, by=worker),
            release_attempt(attempt_id=old.fence.attempt_id, fence=old.fence, worker=worker),
            claim_tasks(queue="q", worker=worker, scheduler_epoch=1, owner="me"),
        ]
        for answer in answers:
            assert isinstance(answer, Refusal)
            assert (answer.outcome, answer.reason) == (Outcome.FENCED, Reason.STALE_EPOCH)
            assert answer.current is not None
            assert answer.current.scheduler_epoch == 2
    assert Attempt.objects.get().state == AttemptState.FENCED
    staged = stage_result(
        attempt_id=old.fence.attempt_id, fence=old.fence, result={"late": True}, worker=worker
    )
    assert isinstance(staged, Staged)
    assert not staged.canonical_candidate


def test_a_bump_from_an_old_look_is_refused(worker: Worker) -> None:
    world.submit()
    world.claim_one(by=worker)
    bump()
    with nothing_moves():
        for expected in (0, 1, 3):
            told = bump(expected)
            assert isinstance(told, Refusal)
            assert told.outcome is Outcome.STATE_VERSION_MISMATCH
            assert told.extra == {"scheduler_epoch": 2}
        told = bump(queue="nowhere")
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.NOT_FOUND


def test_a_bump_leaves_other_queues_and_finished_work_alone(worker: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    world.finish(world.task_id(run, "a"), by=worker)
    world.queue(name="other")
    elsewhere = world.worker(name="fleet-2", queues=("other",))
    world.submit(queue_name="other")
    kept = world.claim_one(by=elsewhere, queue_name="other")
    bump()
    assert world.current(run, "a").state == TaskState.COMMITTED
    assert world.epoch("other") == 1
    world.commit(kept, by=elsewhere)


def test_a_bump_frees_serial_keys(worker: Worker) -> None:
    world.submit(node("a", serial_key="k"), node("b", serial_key="k"))
    assert len(world.claim(by=worker, limit=5)) == 1
    assert world.claim(by=worker, limit=5) == []
    bump()
    assert len(world.claim(by=worker, limit=5)) == 1


def test_the_database_refuses_an_epoch_that_falls(worker: Worker) -> None:
    bump()
    with nothing_moves(), pytest.raises(IntegrityError, match="only rises"):
        with world.guarded(), connection.cursor() as cursor:
            cursor.execute("UPDATE coordinator_queue SET scheduler_epoch = 1")


def test_the_database_refuses_a_commit_of_the_old_epoch_by_hand(worker: Worker) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    bump()
    sql = (
        "INSERT INTO coordinator_canonicalcommit (result_commit_id, task_id, attempt_id, claim_generation,"
        " scheduler_epoch, input_digest, result_digest, result, parents, committed_at)"
        " VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, 'x', '0', '[]', clock_timestamp())"
    )
    fence = old.fence
    values: list[Any] = [
        fence.task_id,
        fence.attempt_id,
        fence.claim_generation,
        fence.scheduler_epoch,
        old.input_digest,
    ]
    for _ in range(2):  # while nobody holds the task, and once somebody of the new epoch does
        with nothing_moves(), pytest.raises(IntegrityError, match="not its current attempt"):
            with world.guarded(), connection.cursor() as cursor:
                cursor.execute(sql, values)
        world.claim(by=worker)


# --- intake -------------------------------------------------------------------------------------


def intake(to: Intake, *, reason: str = "drill") -> IntakeSet | Refusal:
    return set_intake(queue="q", intake=to, reason=reason, actor=world.operator())


def test_a_stopped_intake_stops_claims_and_lets_the_rest_go_on(worker: Worker) -> None:
    world.submit(node("a"), node("b"), node("c", "a", "b"))
    first, second = world.claim(by=worker, limit=2)
    assert intake(Intake.STOPPED) == IntakeSet("q", "STOPPED", changed=True)
    (renewed,) = renew_leases(
        items=[Renewal(first.fence.attempt_id, first.fence, first.owner)], worker=worker
    )
    assert isinstance(renewed, Renewed)
    world.commit(first, by=worker)
    answer = release_attempt(attempt_id=second.fence.attempt_id, fence=second.fence, worker=worker)
    assert isinstance(answer, Released)
    world.submit(node("new"))
    with nothing_moves():
        told = claim_tasks(queue="q", worker=worker, scheduler_epoch=1, owner="me")
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.INTAKE_STOPPED
    intake(Intake.OPEN)
    assert len(world.claim(by=worker, limit=9)) == 2


def test_the_same_switch_again_changes_nothing_and_each_needs_a_reason() -> None:
    intake(Intake.STOPPED)
    with nothing_moves():
        assert intake(Intake.STOPPED) == IntakeSet("q", "STOPPED", changed=False)
        told = intake(Intake.OPEN, reason="  ")
        assert isinstance(told, Refusal)
        assert told.errors[0].pointer == "/reason"
    kinds = list(Event.objects.values_list("kind", flat=True))
    assert kinds == ["INTAKE_STOPPED"]
