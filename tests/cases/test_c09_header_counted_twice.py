"""C09 — a header counted twice, a body run early, or never."""

from functools import partial
from typing import Any

import orjson
import pytest

from coordinator.models import Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.explain import explain_task
from coordinator.services.commits import Committed
from coordinator.services.endings import Failed, fail_attempt
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


def chord() -> Submitted:
    return world.submit(
        node("h1"),
        node("h2"),
        node("h3"),
        node("body", "h1", "h2", "h3", kind="body"),
        node("after", "body", kind="after"),
    )


def released(run: Submitted, name: str) -> int:
    return Event.objects.filter(kind="UNBLOCKED", task_id=world.task_id(run, name)).count()


def blocking(run: Submitted, name: str) -> str:
    explanation = explain_task(world.task_id(run, name))
    assert explanation is not None
    assert not explanation.claimable
    return " ".join(f"{reason.code} {reason.detail}" for reason in explanation.reasons)


def test_c09_each_parent_counts_once_and_the_body_runs_once() -> None:
    a, b = world.worker(name="A"), world.worker(name="B")
    run = chord()
    old = world.claim_one(by=a, of=world.task_id(run, "h2"))  # 1
    advance(61)
    h2 = world.claim_one(by=b, of=world.task_id(run, "h2"))
    first = world.commit(h2, by=b, result="B's")
    with nothing_moves():
        again = world.commit(h2, by=b, result="B's")  # its reply was lost
        assert (again.replayed, again.result_commit_id) == (True, first.result_commit_id)
        late = world.try_commit(old, by=a, result="A's")  # 2
        assert isinstance(late, Refusal)
        assert late.outcome is Outcome.FENCED
    told = blocking(run, "body")
    assert "h1" in told
    assert "h3" in told
    assert "h2" not in told
    world.finish(world.task_id(run, "h1"), by=a)  # 3
    assert released(run, "body") == 0
    assert world.finish(world.task_id(run, "h3"), by=a).released == ["body"]
    assert released(run, "body") == 1
    body = world.claim_one(by=a, of=world.task_id(run, "body"))  # 4
    assert sorted(body.parents) == ["h1", "h2", "h3"]
    assert orjson.dumps(body.parents["h2"]["result"]) == b'"B\'s"'
    assert body.parents["h2"]["result_commit_id"] == first.result_commit_id
    assert released(run, "after") == 0
    world.commit(body, by=a)
    assert released(run, "after") == 1
    world.finish(world.task_id(run, "after"), by=a)
    assert world.run_row(run).state == "COMMITTED"


def test_c09_5_the_last_two_parents_at_a_barrier_release_the_body_once() -> None:
    a = world.worker(name="A")
    for _ in range(100):
        run = chord()
        world.finish(world.task_id(run, "h2"), by=a)
        claims = [world.claim_one(by=a, of=world.task_id(run, name)) for name in ("h1", "h3")]
        answers: list[Any] = at_once(*(partial(world.try_commit, c, by=a) for c in claims))
        assert all(isinstance(answer, Committed) for answer in answers)
        assert sorted(answer.released for answer in answers) == [[], ["body"]]
        assert released(run, "body") == 1
        assert world.current(run, "body").state == "READY"


def test_c09_6_a_parent_that_failed_for_good_is_named_by_all_that_wait() -> None:
    a = world.worker(name="A")
    run = chord()
    for name in ("h2", "h3"):
        world.finish(world.task_id(run, name), by=a)
    h1 = world.claim_one(by=a, of=world.task_id(run, "h1"))
    answer = fail_attempt(
        attempt_id=h1.fence.attempt_id,
        fence=h1.fence,
        error={"type": "E", "message": "no"},
        retryable=False,
        worker=a,
    )
    assert answer == Failed()
    assert world.current(run, "body").state == world.current(run, "after").state == "BLOCKED"
    assert "h1" in blocking(run, "body")
    assert "body" in blocking(run, "after")
    assert released(run, "body") == 0
    assert world.claim(by=a) == []
    assert world.run_row(run).state == "FAILED"
