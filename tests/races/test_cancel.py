"""Cancel, revise and finish cross: one loses and is told; never a mixed pair (contract 10)."""

from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection

from coordinator.models import CanonicalCommit, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import Cancelled, CancelledRun, cancel_run, cancel_task
from coordinator.services.commits import Committed
from coordinator.services.revisions import Revised, revise_task
from tests import world
from tests.history import nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

RACES = 200


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


def cancel(of: Any) -> Any:
    return cancel_task(task_id=of, reason="stop", actor=world.operator())


def test_two_hundred_cancels_race_their_commits_and_no_pair_is_mixed() -> None:
    worker = world.worker()
    seen: Counter[str] = Counter()
    for turn in range(RACES):
        run = world.submit(node("a"), node("b", "a", kind="after"))
        claim = world.claim_one(by=worker, of=world.task_id(run, "a"))
        calls = [
            partial(world.try_commit, claim, by=worker),
            partial(cancel, claim.fence.task_id),
        ]
        answers: list[Any] = at_once(*(calls if turn % 2 else reversed(calls)))
        committed, cancelled = answers if turn % 2 else reversed(answers)
        state = world.current(run, "a").state
        child = world.current(run, "b").state
        if isinstance(committed, Committed):
            assert isinstance(cancelled, Refusal)
            assert cancelled.outcome is Outcome.ALREADY_COMMITTED
            assert (state, child) == ("COMMITTED", "READY")
        else:
            assert committed.outcome is Outcome.CANCELLED
            assert isinstance(cancelled, Cancelled)
            assert (state, child) == ("CANCELLED", "BLOCKED")
            assert cancelled.cancel_generation == 1
        seen[state] += 1
    assert CanonicalCommit.objects.count() == seen["COMMITTED"]
    assert sum(seen.values()) == RACES


@pytest.mark.parametrize("first", ["commit", "cancel"])
def test_whoever_gets_the_row_first_wins(first: str) -> None:
    """Both wait for the row in a known order, so that each of the two results is seen at least once."""
    worker = world.worker()
    world.submit()
    claim = world.claim_one(by=worker)
    calls: dict[str, Any] = {
        "commit": partial(world.try_commit, claim, by=worker),
        "cancel": partial(cancel, claim.fence.task_id),
    }
    second = "cancel" if first == "commit" else "commit"
    with world.holding_task(claim.fence.task_id) as holder:
        rivals = {}
        for name in (first, second):
            rivals[name] = world.Rival(calls[name])
            world.wait_until_blocked(rivals[name].pid)
        holder.release()
        answers = {name: rival.result() for name, rival in rivals.items()}
    assert {name: str(answer.outcome) for name, answer in answers.items()} == (
        {"commit": "COMMITTED", "cancel": "ALREADY_COMMITTED"}
        if first == "commit"
        else {"commit": "CANCELLED", "cancel": "CANCELLED"}
    )


def test_a_due_task_is_cancelled_or_granted_and_then_cancelled_never_granted_afterwards() -> None:
    worker = world.worker()
    for _ in range(RACES // 2):
        run = world.submit()
        answers: list[Any] = at_once(
            partial(world.claim, by=worker), partial(cancel, world.task_id(run, "a"))
        )
        claims, cancelled = answers
        assert isinstance(cancelled, Cancelled)
        assert world.current(run, "a").state == "CANCELLED"
        assert world.current(run, "a").claim_generation == len(claims)
        assert world.claim(by=worker) == []
        for claim in claims:
            answer = world.try_commit(claim, by=worker)
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.CANCELLED


def test_a_run_cancelled_among_commits_has_each_task_committed_or_cancelled() -> None:
    worker = world.worker()
    for _ in range(20):
        run = world.submit(
            *(node(f"n{i}") for i in range(6)), node("end", "n0", "n5", kind="after")
        )
        claims = world.claim(by=worker, limit=6, kinds=["step"])
        answers: list[Any] = at_once(
            partial(cancel_run, run_id=run.run_id, reason="stop", actor=world.operator()),
            *(partial(world.try_commit, claim, by=worker) for claim in claims[:3]),
        )
        receipt, *commits = answers
        assert isinstance(receipt, CancelledRun)
        states = {task.node_id: world.current(run, task.node_id).state for task in run.tasks}
        assert set(states.values()) <= {"COMMITTED", "CANCELLED"}
        for claim, commit in zip(claims[:3], commits, strict=True):
            assert (states[claim.node_id] == "COMMITTED") == isinstance(commit, Committed)
        assert {t.node_id for t in receipt.tasks} == {
            n for n, s in states.items() if s == "CANCELLED"
        }
        assert world.run_row(run).state == "CANCELLED"


def test_a_revision_races_the_commit_of_its_task_and_the_child_is_never_lost() -> None:
    worker = world.worker()
    seen: Counter[str] = Counter()
    for _ in range(60):
        run = world.submit(node("a"), node("b", "a", kind="after"))
        claim = world.claim_one(by=worker, of=world.task_id(run, "a"))
        answers: list[Any] = at_once(
            partial(world.try_commit, claim, by=worker),
            partial(
                revise_task,
                task_id=claim.fence.task_id,
                expected_state_version=claim.state_version,
                input={"v": 2},
                reason="better",
                actor=world.operator(),
            ),
        )
        committed, revised = answers
        assert isinstance(committed, Committed) != isinstance(revised, Revised), answers
        if isinstance(revised, Revised):
            assert committed.outcome is Outcome.STALE_INPUT
            assert world.current(run, "b").state == "BLOCKED"
            world.finish(world.current(run, "a").task_id, by=worker)
            seen["revised"] += 1
        assert world.current(run, "b").state == "READY"
        world.finish(world.task_id(run, "b"), by=worker)
        assert world.run_row(run).state == "COMMITTED"


@pytest.mark.parametrize("first", ["commit", "revision"])
def test_a_parents_commit_and_a_revision_of_its_child_do_not_miss_each_other(first: str) -> None:
    """They meet at the run's gate. Else the new child would count a parent that has just counted the old one down."""
    worker = world.worker()
    run = world.submit(node("a"), node("b", "a", kind="after"))
    claim = world.claim_one(by=worker, of=world.task_id(run, "a"))
    calls: dict[str, Any] = {
        "commit": partial(world.try_commit, claim, by=worker),
        "revision": partial(
            revise_task,
            task_id=world.task_id(run, "b"),
            expected_state_version=1,
            input={"v": 2},
            reason="better",
            actor=world.operator(),
        ),
    }
    second = "revision" if first == "commit" else "commit"
    with world.holding_task(world.task_id(run, "a" if first == "commit" else "b")) as holder:
        earlier = world.Rival(calls[first])
        world.wait_until_blocked(earlier.pid, by=holder.pid)
        later = world.Rival(calls[second])
        world.wait_until_blocked(later.pid, by=earlier.pid)
        holder.release()
        answers = {first: earlier.result(), second: later.result()}
    assert isinstance(answers["commit"], Committed)
    if first == "commit":  # b was READY by then: another version than the reviser had seen
        assert answers["revision"].outcome is Outcome.STATE_VERSION_MISMATCH
    else:
        assert isinstance(answers["revision"], Revised)
        assert answers["commit"].released == ["b"]
    child = world.current(run, "b")
    assert (child.state, child.pending_dependencies) == ("READY", 0)
    world.finish(child.task_id, by=worker)
    assert world.run_row(run).state == "COMMITTED"


_COMMIT_TASK = (
    "UPDATE coordinator_task SET state = 'COMMITTED', state_version = state_version + 1,"
    " result_commit_id = gen_random_uuid() WHERE task_id = %s"
)
_INSERT_COMMIT = (
    "INSERT INTO coordinator_canonicalcommit (result_commit_id, task_id, attempt_id, claim_generation,"
    " scheduler_epoch, input_digest, result_digest, result, parents, committed_at)"
    " SELECT gen_random_uuid(), a.task_id, a.attempt_id, 1, 1, t.input_digest, 'x', '0', '[]', clock_timestamp()"
    " FROM coordinator_attempt a JOIN coordinator_task t ON t.task_id = a.task_id WHERE a.task_id = %s"
)


def test_the_database_refuses_a_commit_and_a_release_of_a_cancelled_task() -> None:
    worker = world.worker()
    run = world.submit(node("a"), node("b", "a"))
    claim = world.claim_one(by=worker)
    cancel(claim.fence.task_id)
    wrongs = [
        _COMMIT_TASK,
        "UPDATE coordinator_task SET cancel_generation = 0 WHERE task_id = %s",
        "UPDATE coordinator_attempt SET state = 'COMMITTED' WHERE task_id = %s",
        _INSERT_COMMIT,
    ]
    with nothing_moves():
        for wrong in wrongs:
            with pytest.raises(IntegrityError):
                with world.guarded(), connection.cursor() as cursor:
                    cursor.execute(wrong, [claim.fence.task_id])
    assert world.current(run, "b").state == "BLOCKED"
