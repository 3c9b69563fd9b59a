"""C22 — the broker comes back from an old snapshot and a healthy run is marked failed.

The broker carries only "look again" here: sweeps and hints. Work stands in the database alone.
"""

from dataclasses import replace
from typing import Any

import pytest

from coordinator import tasks
from coordinator.models import Attempt, Event
from coordinator.outcomes import Outcome, Refusal, Retry
from coordinator.services import hints
from coordinator.services.claims import claim_task
from coordinator.services.endings import fail_attempt
from coordinator.services.reports import Recorded
from tests import world
from tests.cases.mailbox import Mailbox, register
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]


def test_c22_a_losers_error_is_never_the_tasks_result() -> None:
    register()
    mailbox = Mailbox()
    a, b = world.worker(name="A"), world.worker(name="B")
    run = world.submit(node("T", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    with nothing_moves():  # 1 and 2: a duplicate delivery reaches B
        for version in (1, claim.state_version):
            answer = claim_task(
                task_id=claim.fence.task_id,
                expected_state_version=version,
                scheduler_epoch=1,
                owner="B",
                worker=b,
            )
            assert isinstance(answer, Refusal)
            assert answer.outcome in (Outcome.STATE_VERSION_MISMATCH, Outcome.NOT_CLAIMABLE)
            assert answer.retry is Retry.AFTER
        # 3: B reports with a guessed fence
        guessed = replace(claim.fence, claim_generation=2)
        failed = fail_attempt(
            attempt_id=claim.fence.attempt_id,
            fence=guessed,
            error={"type": "AlreadyRunning", "message": "somebody else has it"},
            retryable=False,
            worker=b,
        )
        assert isinstance(failed, Refusal)
        assert failed.outcome is Outcome.FORBIDDEN
        committed = world.try_commit(replace(claim, fence=guessed), by=b)
        assert isinstance(committed, Refusal)
        for _ in range(3):  # 5: the broker's old messages are delivered again, three times
            tasks.sweep()
            tasks.settle_runs()
            assert world.claim(by=b) == []
    assert world.current(run, "T").state == "CLAIMED"
    assert Attempt.objects.count() == 1
    assert not Event.objects.filter(kind__in=("FAILED", "RETRY_SCHEDULED")).exists()
    assert isinstance(mailbox.send(claim, by=a), Recorded)
    world.commit(claim, by=a)  # 4
    for _ in range(3):
        tasks.sweep()
        with nothing_moves():
            assert world.claim(by=b) == []
            again = mailbox.send(claim, by=a)
            assert isinstance(again, Refusal)
    assert mailbox.x == 1
    assert world.run_row(run).state == "COMMITTED"


def test_c22_6_without_any_broker_or_hint_open_tasks_are_handed_out_once_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost: list[int] = []
    monkeypatch.setattr(hints, "notify", lost.append)
    monkeypatch.setattr(tasks, "sweep", lambda: pytest.fail("nobody sweeps any more"))
    a: Any = world.worker(name="A")
    run = world.submit(*(node(f"n{i}") for i in range(5)), node("lapsed"))
    claim = world.claim_one(by=a, of=world.task_id(run, "lapsed"))
    world.lapse(claim.fence.task_id)
    granted = world.claim(by=a, limit=100) + world.claim(by=a, limit=100)
    assert len(granted) == len({c.fence.task_id for c in granted}) == 6
    assert world.claim(by=a, limit=100) == []
    for each in granted:
        world.commit(each, by=a)
    assert lost  # hints were sent, and nobody heard them
