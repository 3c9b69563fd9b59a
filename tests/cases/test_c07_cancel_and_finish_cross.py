"""C07 — cancel and finish cross: one must lose, and be told.

The contract has a cancel take effect at once. Step 3's pairs are also in tests/races/test_cancel.py, with the row held
so that each is seen; the client's side is in tests/sdk/test_field_cases.py.
"""

from collections import Counter
from functools import partial
from typing import Any

import pytest

from coordinator.models import Event
from coordinator.outcomes import Outcome, Refusal, Retry
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.commits import Committed
from coordinator.services.endings import fail_attempt
from coordinator.services.grants import Claim
from coordinator.services.revisions import Reopened, reopen_task
from coordinator.services.runs import Submitted
from tests import world
from tests.cases.moving_clock import advance
from tests.history import nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]


def fresh(by: Any) -> tuple[Submitted, Claim]:
    run = world.submit(node("T"), node("S", "T", kind="after"))
    return run, world.claim_one(by=by, of=world.task_id(run, "T"))


def cancel(claim: Claim) -> Cancelled | Refusal:
    return cancel_task(task_id=claim.fence.task_id, reason="brake", actor=world.operator())


def released(run: Submitted) -> int:
    return Event.objects.filter(kind="UNBLOCKED", task_id=world.task_id(run, "S")).count()


def test_c07_1_cancel_first_the_commit_is_told_and_nothing_is_released() -> None:
    a = world.worker(name="A")
    run, claim = fresh(a)
    assert isinstance(cancel(claim), Cancelled)
    with nothing_moves():
        answer = world.try_commit(claim, by=a)
        assert isinstance(answer, Refusal)
        assert (answer.outcome, answer.retry) == (Outcome.CANCELLED, Retry.NEVER)
    assert world.current(run, "T").state == "CANCELLED"
    assert released(run) == 0


def test_c07_2_commit_first_the_cancel_is_told() -> None:
    a = world.worker(name="A")
    run, claim = fresh(a)
    world.commit(claim, by=a)
    with nothing_moves():
        answer = cancel(claim)
        assert isinstance(answer, Refusal)
        assert (answer.outcome, answer.retry) == (Outcome.ALREADY_COMMITTED, Retry.NEVER)
    assert released(run) == 1


def test_c07_3_two_hundred_barrier_runs_and_no_mixed_pair() -> None:
    a = world.worker(name="A")
    pairs: Counter[tuple[str, str]] = Counter()
    for _ in range(200):
        run, claim = fresh(a)
        answers: list[Any] = at_once(partial(world.try_commit, claim, by=a), partial(cancel, claim))
        committed, cancelled = answers
        pairs[str(committed.outcome), str(cancelled.outcome)] += 1
        assert released(run) == isinstance(committed, Committed)
    assert set(pairs) <= {("COMMITTED", "ALREADY_COMMITTED"), ("CANCELLED", "CANCELLED")}
    assert sum(pairs.values()) == 200


def test_c07_4_twice_is_one_receipt_and_a_late_failure_schedules_nothing() -> None:
    a = world.worker(name="A")
    run, claim = fresh(a)
    first = cancel(claim)
    with nothing_moves():
        assert cancel(claim) == first
        answer = fail_attempt(
            attempt_id=claim.fence.attempt_id,
            fence=claim.fence,
            error={"type": "E", "message": "no"},
            retryable=True,
            worker=a,
        )
        assert isinstance(answer, Refusal)
        assert answer.outcome is Outcome.CANCELLED
    advance(world.AN_HOUR)
    assert world.claim(by=a) == []
    task = world.current(run, "T")
    reopened = reopen_task(
        task_id=task.task_id,
        expected_state_version=task.state_version,
        reason="wanted after all",
        actor=world.operator(),
    )
    assert isinstance(reopened, Reopened)
    told = Event.objects.get(kind="REOPENED")
    assert (told.actor, told.data["reason"]) == ("operator:alice", "wanted after all")
    with nothing_moves():  # the fence of before stays dead
        late = world.try_commit(claim, by=a)
        assert isinstance(late, Refusal)
        assert late.outcome is Outcome.CANCELLED
    world.finish(task.task_id, by=a)
    assert released(run) == 1
