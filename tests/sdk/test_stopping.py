"""Signals, frozen processes and kill -9: what a worker does at its end, and what becomes of what it held."""

from __future__ import annotations

import signal
import threading
from uuid import UUID

import pytest

import tenure
from coordinator.models import Attempt
from tenure import Claim, settling
from tests import world
from tests.sdk.conftest import Site
from tests.sdk.processes import Process
from tests.sdk.threads import PATIENCE_SECONDS, ended, started


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_first_signal_lets_the_handler_finish_and_claims_nothing_more(
    number: signal.Signals, site: Site
) -> None:
    first, second = site.submit(2)
    with Process(site, until="stop") as process:
        process.until("claimed")
        process.signal(number)
        counts = process.counts()
    assert "stopping" in process.lines
    assert counts["committed"] == 1
    assert world.task(UUID(first)).state == "COMMITTED"
    assert world.task(UUID(second)).claim_generation == 0


def test_after_the_grace_time_what_still_runs_is_given_back(site: Site) -> None:
    [task_id] = site.submit(1)
    with Process(site, until="never", grace=0.2) as process:
        process.until("claimed")
        process.signal(signal.SIGTERM)
        counts = process.counts()
    assert counts["released"] == 1
    assert world.task(UUID(task_id)).state == "READY"
    assert Attempt.objects.get(task_id=task_id).state == "RELEASED"


def test_a_second_signal_gives_everything_back_at_once(site: Site) -> None:
    [task_id] = site.submit(1)
    with Process(site, until="never", grace=3_600) as process:
        process.until("claimed")
        process.signal(signal.SIGTERM)
        process.until("stopping")
        process.signal(signal.SIGTERM)
        counts = process.counts()
    assert counts["released"] == 1
    assert world.task(UUID(task_id)).state == "READY"


def test_an_idle_worker_that_waits_for_a_hint_stops_at_once(site: Site) -> None:
    with Process(site, until="now") as process:
        site.submit(1)
        process.until("committed")
        process.signal(signal.SIGTERM)
        assert process.counts()["committed"] == 1


def test_a_frozen_worker_is_taken_over_and_its_late_commit_is_fenced(site: Site) -> None:
    [task_id] = site.submit(1)
    with Process(site, until="go") as frozen:
        frozen.until("claimed")
        frozen.signal(signal.SIGSTOP)
        site.lapse(task_id)
        other = site.worker(owner="other")
        other.handler("work")(lambda claim: {"by": "other"})
        assert other.run(until_empty=True)["committed"] == 1
        frozen.signal(signal.SIGCONT)
        frozen.go()
        frozen.until("refused commit FENCED")
        frozen.signal(signal.SIGTERM)
        assert "committed" not in frozen.counts()
    with site.client() as client:
        [canonical] = [item for item in client.candidates(task_id) if item.canonical]
        assert canonical.result == {"by": "other"}
        assert [attempt.state for attempt in client.attempts(task_id)] == ["FENCED", "COMMITTED"]


def test_what_a_killed_worker_held_goes_to_the_next_one_after_its_lease(site: Site) -> None:
    [task_id] = site.submit(1)
    with Process(site, until="never") as process:
        process.until("claimed")
        process.kill()
    other = site.worker()
    other.handler("work")(lambda claim: claim.attempt_number)
    assert other.run(until_empty=True).get("committed", 0) == 0
    site.lapse(task_id)
    again = site.worker()
    again.handler("work")(lambda claim: claim.attempt_number)
    assert again.run(until_empty=True)["committed"] == 1
    with site.client() as client:
        [canonical] = [item for item in client.candidates(task_id) if item.canonical]
        assert canonical.result == 2


def test_a_released_handler_that_goes_on_commits_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settling, "RELEASE_SECONDS", PATIENCE_SECONDS)
    [task_id] = site.submit(1)
    entered, go_on, over = threading.Event(), threading.Event(), threading.Event()
    told: list[BaseException] = []
    worker = site.worker(grace_seconds=0)

    @worker.handler("work")
    def work(claim: Claim) -> str:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        try:
            claim.check()
        except tenure.Released as released:
            told.append(released)
        over.set()
        return "for nothing"

    thread = started(worker)
    assert entered.wait(PATIENCE_SECONDS)
    worker.stop()
    ended(thread)
    go_on.set()
    assert over.wait(PATIENCE_SECONDS)
    assert len(told) == 1
    assert worker.counts["released"] == 1
    assert world.task(UUID(task_id)).state == "READY"
