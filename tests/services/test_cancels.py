"""Cancelling: at once, with a receipt, and never beside a commit (contract 10, C07, C08)."""

from collections import Counter
from collections.abc import Callable
from uuid import UUID

import pytest

from coordinator.actors import Worker
from coordinator.models import Attempt, CanonicalCommit, Event, Run
from coordinator.outcomes import Outcome, Refusal, Retry
from coordinator.services.cancels import Cancelled, CancelledRun, cancel_run, cancel_task
from coordinator.services.claims import claim_task
from coordinator.services.commits import Committed
from coordinator.services.endings import fail_attempt
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.revisions import revise_task
from coordinator.services.runs import Submitted
from coordinator.states import AttemptState, RunState, TaskState
from tests import world
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue(max_attempts=1)
    return world.worker()


def cancel(
    of: UUID, *, expected: int | None = None, reason: str = "not needed"
) -> Cancelled | Refusal:
    return cancel_task(
        task_id=of, expected_state_version=expected, reason=reason, actor=world.operator()
    )


def refused(call: Callable[[], object]) -> Refusal:
    """What the call was refused with; no fact changed."""
    before = world.fingerprint()
    answer = call()
    assert isinstance(answer, Refusal)
    assert world.fingerprint() == before
    return answer


def test_a_ready_task_is_cancelled_and_never_granted(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    assert cancel(task) == Cancelled(cancel_generation=1, effects=[])
    row = world.task(task)
    assert (row.state, row.state_version, row.cancel_generation, row.claimable_at) == (
        TaskState.CANCELLED,
        2,
        1,
        None,
    )
    assert world.claim(by=by) == []


def test_the_event_tells_who_why_and_what_it_was(by: Worker) -> None:
    run = world.submit()
    cancel(world.task_id(run, "a"), reason="typed twice")
    event = Event.objects.get(kind="CANCELLED")
    assert event.actor == "operator:alice"
    assert event.state_version == 2
    assert event.data == {"was": "READY", "cancel_generation": 1, "reason": "typed twice"}


def test_a_blocked_task_is_cancelled_and_its_parent_still_counts_it_down(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    cancel(world.task_id(run, "b"))
    committed = world.finish(world.task_id(run, "a"), by=by)
    assert committed.released == []
    b = world.current(run, "b")
    assert (b.state, b.pending_dependencies) == (TaskState.CANCELLED, 0)
    assert world.run_row(run).state == RunState.CANCELLED


def test_a_cancel_by_an_old_look_is_refused(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    world.claim_one(by=by)
    refusal = refused(lambda: cancel(task, expected=1))
    assert refusal.outcome is Outcome.STATE_VERSION_MISMATCH
    assert refusal.retry is Retry.AFTER
    assert refusal.extra == {"task_state": "CLAIMED", "state_version": 2}
    assert isinstance(cancel(task, expected=2), Cancelled)


def test_an_unknown_task_and_an_empty_reason_are_refused(by: Worker) -> None:
    run = world.submit()
    assert refused(lambda: cancel(run.run_id)).outcome is Outcome.NOT_FOUND
    refusal = refused(lambda: cancel(world.task_id(run, "a"), reason=" "))
    assert [error.pointer for error in refusal.errors] == ["/reason"]
    assert (
        refused(lambda: cancel(world.task_id(run, "a"), reason="x\x00")).outcome is Outcome.INVALID
    )


def test_c07_1_a_cancelled_worker_is_told_and_its_successor_is_not_released(by: Worker) -> None:
    run = world.submit(node("t"), node("s", "t"))
    claimed = world.claim_one(by=by)
    assert cancel(claimed.fence.task_id) == Cancelled(1)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.end_reason) == (AttemptState.CANCELLED, "CANCELLED")
    assert attempt.ended_at is not None
    renewal = Renewal(attempt_id=attempt.attempt_id, fence=claimed.fence, owner=claimed.owner)
    renewed = refused(lambda: renew_leases(items=[renewal], worker=by)[0])
    committed = refused(lambda: world.try_commit(claimed, by=by))
    assert (renewed.outcome, committed.outcome) == (Outcome.CANCELLED, Outcome.CANCELLED)
    assert world.current(run, "s").state == TaskState.BLOCKED
    assert not CanonicalCommit.objects.exists()


def test_c07_2_a_cancel_after_the_commit_is_told_so(by: Worker) -> None:
    run = world.submit(node("t"), node("s", "t"))
    task = world.task_id(run, "t")
    world.finish(task, by=by)
    refusal = refused(lambda: cancel(task))
    assert refusal.outcome is Outcome.ALREADY_COMMITTED
    assert refusal.evidence_recorded
    event = Event.objects.get(kind="REFUSED")
    assert (event.task_id, event.data["point"], event.data["outcome"]) == (
        task,
        "cancel",
        "ALREADY_COMMITTED",
    )
    assert world.current(run, "s").state == TaskState.READY


@pytest.mark.slow
def test_c07_3_of_cancel_and_commit_at_once_exactly_one_wins_two_hundred_times(by: Worker) -> None:
    """Both are held behind the task's row until PostgreSQL says that both wait for it."""
    told: Counter[tuple[str, str]] = Counter()
    for round_ in range(200):
        run = world.submit(node("t"), node("s", "t"))
        task = world.task_id(run, "t")
        claimed = world.claim_one(by=by, of=task)

        def commit() -> Committed | Refusal:
            return world.try_commit(claimed, by=by)  # noqa: B023 - awaited within the round

        def brake() -> Cancelled | Refusal:
            return cancel(task)  # noqa: B023

        first, second = (commit, brake) if round_ % 2 else (brake, commit)
        with world.holding_task(task) as holder:
            rivals: list[world.Rival[object]] = []
            for call in (first, second):
                rivals.append(world.Rival(call))
                world.wait_until_blocked(rivals[-1].pid)
            holder.release()
            answers = {
                str(getattr(each, "outcome", None)) for each in (rival.result() for rival in rivals)
            }
        row, successor = world.task(task), world.current(run, "s")
        told[min(answers), max(answers)] += 1
        if row.state == TaskState.COMMITTED:
            assert answers == {"COMMITTED", "ALREADY_COMMITTED"}
            assert successor.state == TaskState.READY
            assert CanonicalCommit.objects.filter(task_id=task).count() == 1
            assert row.cancel_generation == 0
        else:
            assert row.state == TaskState.CANCELLED
            assert answers == {"CANCELLED"}
            assert successor.state == TaskState.BLOCKED
            assert not CanonicalCommit.objects.filter(task_id=task).exists()
        ends = Event.objects.filter(task_id=task, kind__in=["COMMITTED", "CANCELLED"])
        assert ends.count() == 1
    assert sum(told.values()) == 200
    assert set(told) == {("ALREADY_COMMITTED", "COMMITTED"), ("CANCELLED", "CANCELLED")}


def test_c07_4_cancelling_twice_gives_the_same_receipt(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    claimed = world.claim_one(by=by)
    first = cancel(task, expected=2)
    before = world.fingerprint()
    assert cancel(task, expected=2) == first
    assert cancel(task) == first
    assert world.fingerprint() == before
    assert Event.objects.filter(kind="CANCELLED").count() == 1
    failed = refused(
        lambda: fail_attempt(
            attempt_id=claimed.fence.attempt_id,
            fence=claimed.fence,
            error={"type": "E", "message": "m"},
            retryable=True,
            worker=by,
        )
    )
    assert failed.outcome is Outcome.CANCELLED
    assert world.task(task).state == TaskState.CANCELLED


def test_c08_a_stored_cancel_outlives_every_process(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    world.claim_one(by=by)
    world.lapse(task)
    cancel(task)
    assert world.claim(by=world.worker(name="born-later")) == []
    assert world.task(task).state == TaskState.CANCELLED


def test_c08_4_the_same_id_in_another_spelling_is_the_same_task(by: Worker) -> None:
    run = world.submit()
    assert cancel(UUID(str(world.task_id(run, "a")).upper().replace("-", ""))) == Cancelled(1)


@pytest.mark.slow
def test_c08_5_of_cancel_and_claim_at_once_no_cancelled_task_is_granted(by: Worker) -> None:
    told: Counter[str] = Counter()
    for round_ in range(200):
        run = world.submit()
        task = world.task_id(run, "a")
        calls: list[Callable[[], object]] = [
            lambda: claim_task(
                task_id=task,  # noqa: B023
                expected_state_version=1,
                scheduler_epoch=1,
                owner="w",
                worker=by,
            ),
            lambda: cancel(task),  # noqa: B023
        ]
        with world.holding_task(task) as holder:
            rivals: list[world.Rival[object]] = []
            for call in calls if round_ % 2 else calls[::-1]:
                rivals.append(world.Rival(call))
                world.wait_until_blocked(rivals[-1].pid)
            holder.release()
            answers = [rival.result() for rival in rivals]
        row = world.task(task)
        assert row.state == TaskState.CANCELLED
        assert any(isinstance(answer, Cancelled) for answer in answers)
        granted = not any(isinstance(answer, Refusal) for answer in answers)
        assert row.claim_generation == int(granted)
        assert Attempt.objects.filter(task_id=task).count() == int(granted)
        assert not Attempt.objects.filter(task_id=task, ended_at=None).exists()
        told["granted first" if granted else "cancelled first"] += 1
    assert set(told) == {"granted first", "cancelled first"}


def test_a_failed_task_is_not_cancelled_and_the_refusal_says_what_to_do(by: Worker) -> None:
    run = world.submit()
    claimed = world.claim_one(by=by)
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "E", "message": "m"},
        retryable=False,
        worker=by,
    )
    refusal = refused(lambda: cancel(world.task_id(run, "a")))
    assert refusal.outcome is Outcome.ALREADY_SETTLED
    assert "Reopen or revise" in refusal.detail


def test_a_superseded_task_is_not_cancelled(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    revise_task(
        task_id=task, expected_state_version=1, input=2, reason="new", actor=world.operator()
    )
    assert refused(lambda: cancel(task)).outcome is Outcome.STALE_INPUT


def test_a_cancel_frees_the_serial_key(by: Worker) -> None:
    run = world.submit(node("a", serial_key="k"), node("b", serial_key="k"))
    world.claim_one(by=by, of=world.task_id(run, "a"))
    assert world.claim(by=by) == []
    cancel(world.task_id(run, "a"))
    assert world.claim_one(by=by).node_id == "b"


def test_equal_refusals_are_counted_not_repeated(by: Worker) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    for _ in range(5):
        cancel(world.task_id(run, "a"))
    assert Event.objects.get(kind="REFUSED").repeats == 4


# --- runs -----------------------------------------------------------------------------------------


def stop(run: Submitted, *, reason: str = "not needed") -> CancelledRun | Refusal:
    return cancel_run(run_id=run.run_id, reason=reason, actor=world.operator())


def test_a_run_is_cancelled_in_one_go_and_its_commits_stand(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"), node("c", "b"), node("d"))
    other = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    claimed = world.claim_one(by=by, of=world.task_id(run, "b"))
    receipt = stop(run)
    assert isinstance(receipt, CancelledRun)
    assert [task.node_id for task in receipt.tasks] == ["b", "c", "d"]
    assert (receipt.state, world.run_row(run).state) == (RunState.CANCELLED, RunState.CANCELLED)
    assert world.current(run, "a").state == TaskState.COMMITTED
    assert refused(lambda: world.try_commit(claimed, by=by)).outcome is Outcome.CANCELLED
    assert world.current(other, "a").state == TaskState.READY
    assert Event.objects.filter(kind="RUN_SETTLED", run=world.run_row(run)).count() == 1


def test_cancelling_a_run_twice_gives_the_same_receipt(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    first = stop(run)
    before = world.fingerprint()
    assert stop(run) == first
    assert world.fingerprint() == before


def test_a_committed_run_is_not_cancelled(by: Worker) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    assert refused(lambda: stop(run)).outcome is Outcome.ALREADY_COMMITTED
    event = Event.objects.get(kind="REFUSED")
    assert event.run_id == world.run_row(run).pk


def test_a_run_of_which_only_failed_nodes_are_left_says_what_to_do(by: Worker) -> None:
    run = world.submit()
    claimed = world.claim_one(by=by)
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "E", "message": "m"},
        retryable=False,
        worker=by,
    )
    refusal = refused(lambda: stop(run))
    assert (refusal.outcome, refusal.extra) == (Outcome.ALREADY_SETTLED, {"run_state": "FAILED"})


def test_cancelling_what_a_failed_node_left_blocked_leaves_the_run_failed(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    claimed = world.claim_one(by=by)
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "E", "message": "m"},
        retryable=False,
        worker=by,
    )
    receipt = stop(run)
    assert isinstance(receipt, CancelledRun)
    assert ([task.node_id for task in receipt.tasks], receipt.state) == (["b"], RunState.FAILED)


def test_an_unknown_run_and_an_empty_reason_are_refused(by: Worker) -> None:
    run = world.submit()
    assert (
        refused(
            lambda: cancel_run(run_id=world.task_id(run, "a"), reason="r", actor=world.operator())
        ).outcome
        is Outcome.NOT_FOUND
    )
    assert refused(lambda: stop(run, reason="")).outcome is Outcome.INVALID


def test_a_run_cancel_waits_for_the_commit_that_came_first(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    claimed = world.claim_one(by=by)
    with world.holding_task(world.task_id(run, "b")) as holder:  # the commit counts it down
        committing = world.Rival(lambda: world.try_commit(claimed, by=by))
        world.wait_until_blocked(committing.pid, by=holder.pid)
        stopping = world.Rival(lambda: stop(run))
        world.wait_until_blocked(stopping.pid, by=committing.pid)
        holder.release()
        assert isinstance(committing.result(), Committed)
        receipt = stopping.result()
    assert isinstance(receipt, CancelledRun)
    assert [task.node_id for task in receipt.tasks] == ["b"]
    assert world.current(run, "a").state == TaskState.COMMITTED
    assert Run.objects.get().state == RunState.CANCELLED


def test_ten_thousand_tasks_are_cancelled_within_one_statements_time(by: Worker) -> None:
    run = world.submit(node("hub"), *(node(f"n{i}", "hub") for i in range(9_999)))
    receipt = stop(run)
    assert isinstance(receipt, CancelledRun)
    assert len(receipt.tasks) == 10_000
