"""C08 — the cancel lived in a worker's memory; here it is a stored fact, so that every restart knows it."""

import datetime as dt
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from coordinator.models import Attempt
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import Cancelled, cancel_task
from tests import world
from tests.api import callers
from tests.cases.moving_clock import advance
from tests.history import nothing_moves
from tests.races.crowd import at_once, database_url
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def cancel(of: Any) -> Cancelled | Refusal:
    return cancel_task(task_id=of, reason="not wanted", actor=world.operator())


def claims_of_a_fresh_process() -> list[str]:
    """What a worker gets that has only just been started, server side included."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cases.fresh_process", str(world.worker(name="fresh").id)],
        cwd=Path(__file__).resolve().parent.parent.parent,
        env={**os.environ, "DATABASE_URL": database_url()},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.usefixtures("lane")
def test_c08_1_2_3_no_restart_forgets_a_cancel() -> None:
    due = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=100)
    run = world.submit(node("T", not_before=due), node("T2"), node("T3"))
    advance(1)
    assert isinstance(cancel(world.task_id(run, "T")), Cancelled)  # 1: no worker is up
    a = world.worker(name="A")
    claim = world.claim_one(by=a, of=world.task_id(run, "T2"))  # 3: A does nothing and is killed
    assert isinstance(cancel(claim.fence.task_id), Cancelled)
    advance(100)  # T would be due, T2's lease has lapsed
    assert claims_of_a_fresh_process() == [str(world.task_id(run, "T3"))]  # 2: the others never
    assert [world.current(run, name).state for name in ("T", "T2")] == ["CANCELLED"] * 2
    assert Attempt.objects.count() == 2


def test_c08_4_another_spelling_of_the_id_finds_the_task_or_nothing(api: callers.Api) -> None:
    task_id = api.submit()["a"]
    for spelling in (
        task_id.upper(),
        task_id.replace("-", ""),
        f"{{{task_id}}}",
        f"urn:uuid:{task_id}",
    ):
        with nothing_moves():
            reply = api.operator.post(f"/tasks/{uuid4()}/cancel", {"reason": "no"})
            assert reply.status == 404
        reply = api.operator.post(f"/tasks/{spelling}/cancel", {"reason": "no"})
        state = api.operator.get(f"/tasks/{task_id}").body["state"]
        assert (reply.status == 200) == (state == "CANCELLED"), (spelling, reply)
        assert reply.status in (200, 404)
    api.operator.post(f"/tasks/{task_id}/cancel", {"reason": "no"})
    assert api.operator.get(f"/tasks/{task_id}").body["state"] == "CANCELLED"


@pytest.mark.usefixtures("lane")
def test_c08_5_a_claim_in_flight_and_a_cancel_never_end_in_a_granted_cancelled_task() -> None:
    a = world.worker(name="A")
    for _ in range(200):
        run = world.submit(node("T"))
        answers: list[Any] = at_once(
            partial(world.claim, by=a), partial(cancel, world.task_id(run, "T"))
        )
        granted, cancelled = answers
        assert isinstance(cancelled, Cancelled)
        assert world.current(run, "T").state == "CANCELLED"
        for claim in granted:
            answer = world.try_commit(claim, by=a)
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.CANCELLED
        assert world.claim(by=a) == []
