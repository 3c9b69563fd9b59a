"""Revising and reopening (contract 10): a new input is a new task; generations only go on."""

import datetime as dt
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from coordinator.actors import Worker
from coordinator.models import Attempt, CanonicalCommit, Dependency, Event, Queue, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.answers import RequestKey
from coordinator.services.cancels import cancel_run, cancel_task
from coordinator.services.claims import claim_task
from coordinator.services.commits import Committed
from coordinator.services.endings import fail_attempt
from coordinator.services.revisions import Reopened, Revised, reopen_task, revise_task
from coordinator.services.runs import Submitted
from coordinator.states import AttemptState, RunState, TaskState
from tests import world
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue(max_attempts=2, retry_backoff_seconds=0)
    return world.worker()


def revise(
    of: UUID,
    *,
    expected: int | None = None,
    input: Any = "better",  # noqa: A002
    **fields: Any,
) -> Revised | Refusal:
    version = world.task(of).state_version if expected is None else expected
    return revise_task(
        task_id=of,
        expected_state_version=version,
        input=input,
        reason="a better input",
        actor=world.operator(),
        **fields,
    )


def revised(of: UUID, **fields: Any) -> Revised:
    answer = revise(of, **fields)
    assert isinstance(answer, Revised), answer
    return answer


def reopen(of: UUID, *, expected: int | None = None, reason: str = "go on") -> Reopened | Refusal:
    version = world.task(of).state_version if expected is None else expected
    return reopen_task(
        task_id=of, expected_state_version=version, reason=reason, actor=world.operator()
    )


def refused(call: Callable[[], object]) -> Refusal:
    before = world.fingerprint()
    answer = call()
    assert isinstance(answer, Refusal)
    assert world.fingerprint() == before
    return answer


def fail(of: UUID, *, by: Worker, retryable: bool = False) -> None:
    claimed = world.claim_one(by=by, of=of)
    fail_attempt(
        attempt_id=claimed.fence.attempt_id,
        fence=claimed.fence,
        error={"type": "Crash", "message": "no such file"},
        retryable=retryable,
        worker=by,
    )


def counts_are_right(run: Submitted) -> None:
    """Each node's newest task waits for exactly its parents that have no canonical commit."""
    tasks = Task.objects.filter(run__run_id=run.run_id).exclude(state=TaskState.SUPERSEDED)
    for task in tasks:
        parents = Task.objects.filter(edges_out__child=task)
        assert task.dependency_count == parents.count()
        assert task.pending_dependencies == parents.exclude(state=TaskState.COMMITTED).count(), (
            task.node_id
        )
        assert (task.state == TaskState.BLOCKED) <= (task.pending_dependencies > 0)
    superseded = Task.objects.filter(run__run_id=run.run_id, state=TaskState.SUPERSEDED)
    assert not Dependency.objects.filter(parent__in=superseded).exists()
    assert not Dependency.objects.filter(child__in=superseded).exists()


# --- revising -------------------------------------------------------------------------------------


def test_a_revision_is_a_new_task_in_the_same_place(by: Worker) -> None:
    world.downstream(name="d", guarantee="NONE")
    run = world.submit(
        node("a"),
        node("b", "a", kind="pay", priority=3, max_attempts=9, slots={"s": "d"}),
        node("c", "b"),
    )
    old = world.task_id(run, "b")
    answer = revised(old, input={"z": 1, "a": 2})
    before, new = world.task(old), world.task(answer.task_id)
    assert (answer.revision, answer.supersedes, answer.run_id, answer.state) == (
        2,
        old,
        run.run_id,
        "BLOCKED",
    )
    assert (before.state, before.state_version) == (TaskState.SUPERSEDED, 2)
    assert new.input == '{"a":2,"z":1}'
    assert new.input_digest == answer.input_digest != before.input_digest
    for field in (
        "node_id",
        "kind",
        "priority",
        "max_attempts",
        "slots",
        "replay",
        "serial_scope_id",
        "run_id",
    ):
        assert getattr(new, field) == getattr(before, field), field
    assert (new.claim_generation, new.cancel_generation, new.attempts, new.state_version) == (
        0,
        0,
        0,
        1,
    )
    counts_are_right(run)
    kinds = (
        Event.objects.exclude(kind="SUBMITTED", data__revision=None)
        .order_by("id")
        .values_list("kind", "task_id")
    )
    assert list(kinds) == [("SUPERSEDED", old), ("SUBMITTED", answer.task_id)]


def test_a_ready_root_is_revised_and_runs_with_the_new_input(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    answer = revised(world.task_id(run, "a"), input=[1])
    claimed = world.claim_one(by=by)
    assert claimed.fence.task_id == answer.task_id
    assert (claimed.revision, claimed.input_digest) == (2, answer.input_digest)
    assert world.commit(claimed, by=by).released == ["b"]
    counts_are_right(run)


def test_who_holds_the_old_revision_is_told_stale_input(by: Worker) -> None:
    run = world.submit(node("a", serial_key="k"))
    claimed = world.claim_one(by=by)
    answer = revised(claimed.fence.task_id)
    attempt = Attempt.objects.get()
    assert (attempt.state, attempt.end_reason) == (AttemptState.STALE_INPUT, "SUPERSEDED")
    assert refused(lambda: world.try_commit(claimed, by=by)).outcome is Outcome.STALE_INPUT
    old = world.task(claimed.fence.task_id)
    assert (old.attempt_id, old.owner, old.serial_held) == (None, None, False)
    assert world.finish(answer.task_id, by=by).released == []
    assert world.run_row(run).state == RunState.COMMITTED


def test_a_committed_task_is_revised_while_nobody_has_used_its_result(by: Worker) -> None:
    run = world.submit(node("a"), node("x"), node("b", "a"), node("c", "a", "x"), node("d", "b"))
    old = world.task_id(run, "a")
    world.finish(old, by=by)
    assert world.current(run, "b").state == TaskState.READY
    answer = revised(old)
    b, c = world.current(run, "b"), world.current(run, "c")
    assert (b.state, b.pending_dependencies, b.claimable_at, b.ready_at) == (
        TaskState.BLOCKED,
        1,
        None,
        None,
    )
    assert b.state_version == 3
    assert (c.state, c.pending_dependencies) == (TaskState.BLOCKED, 2)
    assert Event.objects.get(kind="REBLOCKED").task_id == b.task_id
    assert world.task(old).result_commit_id is not None, "the old result stays readable"
    counts_are_right(run)
    assert world.finish(answer.task_id, by=by).released == ["b"]
    claimed = world.claim_one(by=by, of=b.task_id)
    assert claimed.parents["a"]["result_commit_id"] == world.task(answer.task_id).result_commit_id
    counts_are_right(run)


def test_a_committed_task_is_not_revised_once_a_descendant_was_claimed(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"), node("c", "b"))
    world.finish(world.task_id(run, "a"), by=by)
    claimed = world.claim_one(by=by)
    refusal = refused(lambda: revise(world.task_id(run, "a")))
    assert refusal.outcome is Outcome.ALREADY_COMMITTED
    assert refusal.extra["descendants"] == ["b"]
    world.commit(claimed, by=by)
    assert refused(lambda: revise(world.task_id(run, "a"))).extra["descendants"] == ["b"]


def test_a_superseded_descendant_that_was_claimed_counts_too(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    world.finish(world.task_id(run, "a"), by=by)
    world.claim_one(by=by)
    revised(world.task_id(run, "b"))
    assert refused(lambda: revise(world.task_id(run, "a"))).extra["descendants"] == ["b"]


def test_the_last_committed_node_of_a_finished_run_is_revised_and_the_run_goes_on(
    by: Worker,
) -> None:
    run = world.submit()
    world.finish(world.task_id(run, "a"), by=by)
    assert world.run_row(run).state == RunState.COMMITTED
    answer = revised(world.task_id(run, "a"))
    row = world.run_row(run)
    assert (row.state, row.finished_at) == (RunState.ACTIVE, None)
    world.finish(answer.task_id, by=by)
    assert world.run_row(run).state == RunState.COMMITTED
    assert CanonicalCommit.objects.count() == 2


def test_a_failed_task_is_revised_and_its_descendants_go_on(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    fail(world.task_id(run, "a"), by=by)
    assert world.run_row(run).state == RunState.FAILED
    answer = revised(world.task_id(run, "a"))
    assert world.run_row(run).state == RunState.ACTIVE
    assert world.task(answer.task_id).spent_attempts == 0
    assert world.finish(answer.task_id, by=by).released == ["b"]
    counts_are_right(run)


def test_revising_a_blocked_node_of_a_failed_run_leaves_it_failed(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    fail(world.task_id(run, "a"), by=by)
    revised(world.task_id(run, "b"))
    assert world.run_row(run).state == RunState.FAILED
    counts_are_right(run)


def test_a_cancelled_task_must_be_reopened_before_it_is_revised(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    cancel_task(task_id=task, reason="r", actor=world.operator())
    refusal = refused(lambda: revise(task))
    assert (refusal.outcome, refusal.extra["task_state"]) == (Outcome.CANCELLED, "CANCELLED")


def test_an_old_revision_an_old_look_and_an_unknown_task_are_refused(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    assert refused(lambda: revise(task, expected=9)).outcome is Outcome.STATE_VERSION_MISMATCH
    revised(task)
    assert refused(lambda: revise(task)).outcome is Outcome.STALE_INPUT
    assert refused(lambda: revise(run.run_id, expected=1)).outcome is Outcome.NOT_FOUND
    assert Event.objects.filter(kind="REFUSED").count() == 2


def test_bad_input_and_no_reason_are_told_at_once(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    refusal = refused(
        lambda: revise_task(
            task_id=task,
            expected_state_version=1,
            input=float("inf"),
            reason="",
            actor=world.operator(),
        )
    )
    assert [error.pointer for error in refusal.errors] == ["/input", "/reason"]


def test_the_same_request_again_gets_the_same_new_task(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    request = RequestKey("operator:alice:/revise", "k" * 16, "sha256:1")
    first = revised(task, expected=1, request=request)
    second = revised(task, expected=1, request=request)
    assert (second.task_id, second.replayed, first.replayed) == (first.task_id, True, False)
    other = RequestKey("operator:alice:/revise", "k" * 16, "sha256:2")
    conflict = refused(lambda: revise(task, expected=1, request=other))
    assert conflict.outcome is Outcome.IDEMPOTENCY_CONFLICT
    assert Task.objects.count() == 2


def test_two_revisions_of_one_task_at_once_make_one_successor(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    with world.holding_task(task) as holder:
        first = world.Rival(lambda: revise(task, expected=1))
        world.wait_until_blocked(first.pid, by=holder.pid)
        second = world.Rival(lambda: revise(task, expected=1))
        world.wait_until_blocked(second.pid, by=first.pid)
        holder.release()
        answers = [first.result(), second.result()]
    assert isinstance(answers[0], Revised)
    assert isinstance(answers[1], Refusal)
    assert answers[1].outcome is Outcome.STALE_INPUT
    assert Task.objects.count() == 2


@pytest.mark.parametrize("first", ["commit", "revise"])
def test_a_parents_commit_and_its_childs_revision_never_miss_each_other(
    by: Worker, first: str
) -> None:
    """Else the child would stay BLOCKED for ever (contract 4)."""
    run = world.submit(node("a"), node("b", "a"))
    claimed = world.claim_one(by=by)
    child = world.task_id(run, "b")
    calls: dict[str, Callable[[], object]] = {
        "commit": lambda: world.try_commit(claimed, by=by),
        "revise": lambda: revise(child, expected=1),
    }
    with world.holding_task(child) as holder:
        leading = world.Rival(calls.pop(first))
        world.wait_until_blocked(leading.pid, by=holder.pid)
        following = world.Rival(calls.popitem()[1])
        world.wait_until_blocked(following.pid, by=leading.pid)
        holder.release()
        answers = [leading.result(), following.result()]
    counts_are_right(run)
    b = world.current(run, "b")
    assert b.state == TaskState.READY
    if first == "commit":
        assert isinstance(answers[1], Refusal), "the child moved on since it was looked at"
        assert (answers[1].outcome, b.revision) == (Outcome.STATE_VERSION_MISMATCH, 1)
    else:
        assert isinstance(answers[1], Committed)
        assert (answers[1].released, b.revision) == (["b"], 2)


@pytest.mark.parametrize("first", ["claim", "revise"])
def test_a_childs_claim_and_its_parents_revision_never_miss_each_other(
    by: Worker, first: str
) -> None:
    run = world.submit(node("a"), node("b", "a"))
    world.finish(world.task_id(run, "a"), by=by)
    parent, child = world.task_id(run, "a"), world.task_id(run, "b")
    version = world.task(parent).state_version
    calls: dict[str, Callable[[], object]] = {
        "claim": lambda: claim_task(
            task_id=child, expected_state_version=2, scheduler_epoch=1, owner="w", worker=by
        ),
        "revise": lambda: revise(parent, expected=version),
    }
    with world.holding_task(child) as holder:
        leading = world.Rival(calls.pop(first))
        world.wait_until_blocked(leading.pid, by=holder.pid)
        following = world.Rival(calls.popitem()[1])
        world.wait_until_blocked(following.pid)
        holder.release()
        answers = [leading.result(), following.result()]
    assert not isinstance(answers[0], Refusal)
    assert isinstance(answers[1], Refusal)
    b = world.current(run, "b")
    assert (b.state, b.claim_generation) == (("CLAIMED", 1) if first == "claim" else ("BLOCKED", 0))
    counts_are_right(run)


# --- reopening ------------------------------------------------------------------------------------


def test_a_cancelled_task_is_reopened_and_old_fences_stay_dead(by: Worker) -> None:
    run = world.submit()
    old = world.claim_one(by=by)
    task = old.fence.task_id
    cancel_task(task_id=task, reason="r", actor=world.operator())
    assert world.run_row(run).state == RunState.CANCELLED
    assert reopen(task) == Reopened(task_id=task, state="READY", state_version=4)
    assert world.run_row(run).state == RunState.ACTIVE
    assert refused(lambda: world.try_commit(old, by=by)).outcome is Outcome.CANCELLED
    new = world.claim_one(by=by)
    assert (new.fence.claim_generation, new.fence.cancel_generation) == (2, 1)
    assert refused(lambda: world.try_commit(old, by=by)).outcome is Outcome.CANCELLED
    world.commit(new, by=by)
    event = Event.objects.get(kind="REOPENED")
    assert event.data == {"was": "CANCELLED", "state": "READY", "reason": "go on"}


def test_a_failed_task_is_reopened_with_a_fresh_allowance(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    for _ in range(2):
        fail(task, by=by, retryable=True)
    assert world.task(task).state == TaskState.FAILED
    assert isinstance(reopen(task), Reopened)
    row = world.task(task)
    assert (row.state, row.spent_attempts, row.attempts) == (TaskState.READY, 0, 2)
    fail(task, by=by, retryable=True)
    assert world.task(task).state == TaskState.READY, "one of two attempts is spent"


def cancel_and_reopen(of: UUID) -> UUID:
    cancel_task(task_id=of, reason="r", actor=world.operator())
    assert isinstance(reopen(of), Reopened)
    return of


@pytest.mark.parametrize("again", [cancel_and_reopen, lambda of: revised(of).task_id])
def test_the_backoff_of_attempts_that_no_longer_count_is_not_waited_for(
    by: Worker, again: Callable[[UUID], UUID]
) -> None:
    Queue.objects.update(retry_backoff_seconds=3600, retry_backoff_max_seconds=3600)
    run = world.submit()
    fail(world.task_id(run, "a"), by=by, retryable=True)
    assert world.claim(by=by) == []
    task = again(world.task_id(run, "a"))
    assert world.claim_one(by=by).fence.task_id == task


@pytest.mark.parametrize("again", [cancel_and_reopen, lambda of: revised(of).task_id])
def test_the_instant_that_a_task_was_submitted_for_is_kept(
    by: Worker, again: Callable[[UUID], UUID]
) -> None:
    starts = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)
    run = world.submit(node("a", not_before=starts))
    task = again(world.task_id(run, "a"))
    assert world.task(task).not_before == world.task(task).claimable_at == starts
    assert world.claim(by=by) == []


def test_a_task_whose_parents_are_not_committed_is_reopened_blocked(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    cancel_task(task_id=world.task_id(run, "b"), reason="r", actor=world.operator())
    answer = reopen(world.task_id(run, "b"))
    assert isinstance(answer, Reopened)
    assert answer.state == TaskState.BLOCKED
    counts_are_right(run)
    assert world.finish(world.task_id(run, "a"), by=by).released == ["b"]


def test_a_parent_that_committed_while_the_child_was_cancelled_counts_when_it_is_reopened(
    by: Worker,
) -> None:
    run = world.submit(node("a"), node("b", "a"))
    cancel_task(task_id=world.task_id(run, "b"), reason="r", actor=world.operator())
    world.finish(world.task_id(run, "a"), by=by)
    answer = reopen(world.task_id(run, "b"))
    assert isinstance(answer, Reopened)
    assert answer.state == TaskState.READY
    counts_are_right(run)


def test_a_cancelled_child_of_a_revised_parent_is_counted_up_again(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    cancel_task(task_id=world.task_id(run, "b"), reason="r", actor=world.operator())
    world.finish(world.task_id(run, "a"), by=by)
    revised(world.task_id(run, "a"))
    counts_are_right(run)
    answer = reopen(world.task_id(run, "b"))
    assert isinstance(answer, Reopened)
    assert answer.state == TaskState.BLOCKED


def test_reopening_one_node_of_a_cancelled_run_cancels_it_again_if_nothing_can_move(
    by: Worker,
) -> None:
    run = world.submit(node("a"), node("b", "a"))
    cancel_run(run_id=run.run_id, reason="r", actor=world.operator())
    reopen(world.task_id(run, "b"))
    assert world.run_row(run).state == RunState.CANCELLED
    reopen(world.task_id(run, "a"))
    assert world.run_row(run).state == RunState.ACTIVE
    counts_are_right(run)


def test_what_is_open_committed_or_superseded_is_not_reopened(by: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c"))
    a, b, c = (world.task_id(run, name) for name in "abc")
    assert refused(lambda: reopen(a)).outcome is Outcome.ALREADY_SETTLED
    world.finish(b, by=by)
    assert refused(lambda: reopen(b)).outcome is Outcome.ALREADY_COMMITTED
    revised(c)
    assert refused(lambda: reopen(c)).outcome is Outcome.STALE_INPUT
    assert refused(lambda: reopen(run.run_id, expected=1)).outcome is Outcome.NOT_FOUND
    assert refused(lambda: reopen(a, reason="\n")).outcome is Outcome.INVALID


def test_a_repeated_reopening_is_refused_by_the_version(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    cancel_task(task_id=task, reason="r", actor=world.operator())
    reopen(task, expected=2)
    assert refused(lambda: reopen(task, expected=2)).outcome is Outcome.STATE_VERSION_MISMATCH
