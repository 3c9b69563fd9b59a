"""Field cases as far as they are the client's: by their number, against a real coordinator behind an unkind proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from uuid import UUID, uuid4

import pytest

import tenure
from coordinator.models import Attempt, CanonicalCommit, Event, Run, Task
from coordinator.services.cancels import Cancelled, cancel_task
from tenure import Claim
from tests import world
from tests.sdk.conftest import QUICK, Site
from tests.sdk.proxied import Proxy
from tests.sdk.scripted import ScriptedServer, scripted
from tests.sdk.threads import PATIENCE_SECONDS, ended, started, until_counted

_SPOILT = (
    "/runs",
    "/tasks",
    "/claims",
    "/commits",
    "/fail",
    "/release",
    "/renewals",
    "/revise",
    "/cancel",
)


@pytest.fixture
def proxy(site: Site) -> Iterator[ScriptedServer]:
    """Each logical call's first answer is lost, its second is a proxy's 502; both have landed."""
    forward = Proxy(site.url, spoil=_SPOILT)
    with scripted(forward) as server:
        yield server
    forward.close()


def test_c20_1_a_create_that_is_sent_three_times_makes_one_run(
    site: Site, proxy: ScriptedServer
) -> None:
    with site.client(url=proxy.url, retry=QUICK) as client:
        run = client.submit_run(
            queue=site.queue, nodes=[{"node_id": "a", "kind": "work", "input": {}}]
        )
        assert run.tries == 3
    assert [str(row.run_id) for row in Run.objects.all()] == [run.run_id]
    assert len({seen.key for seen in proxy.requests("POST", "/runs")}) == 1


def test_c20_2_and_3_a_claim_and_a_commit_that_landed_unheard_are_found_again(
    site: Site, proxy: ScriptedServer
) -> None:
    first, second = site.submit(2)
    fences: list[int] = []
    worker = site.worker(url=proxy.url)

    @worker.handler("work")
    def work(claim: Claim) -> int:
        fences.append(claim.fence.claim_generation)
        number: int = claim.input["number"]
        return number

    counts = worker.run(until_empty=True)
    assert fences == [1, 1]
    assert counts["committed"] == 2
    assert counts["commits_replayed"] == 2
    assert counts["retries"] >= 2
    assert {str(row.task_id): row.claim_generation for row in Task.objects.all()} == {
        first: 1,
        second: 1,
    }
    assert CanonicalCommit.objects.count() == 2
    assert Attempt.objects.count() == 2


def test_c20_3_a_failure_and_a_release_that_landed_unheard_are_told_once(
    site: Site, proxy: ScriptedServer
) -> None:
    site.submit(2, max_attempts=1)
    worker = site.worker(url=proxy.url)

    @worker.handler("work")
    def work(claim: Claim) -> int:
        if claim.input["number"] == 0:
            raise tenure.Fatal("no")
        if claim.attempt_number == 1:
            raise tenure.Release
        return 1

    counts = worker.run(until_empty=True)
    assert (counts["failed"], counts["released"], counts["committed"]) == (1, 1, 1)
    assert Event.objects.filter(kind="FAILED").count() == 1
    assert Event.objects.filter(kind="RELEASED").count() == 1
    assert not any(name.startswith("refused") for name in counts)


def test_c20_4_the_same_id_with_another_body_is_a_conflict_and_a_new_call_has_a_new_id(
    site: Site, proxy: ScriptedServer
) -> None:
    key = uuid4().hex
    with site.client(url=proxy.url, retry=QUICK) as client:
        client.submit_task(queue=site.queue, kind="work", input=1, key=key)
        with pytest.raises(tenure.IdempotencyConflict):
            client.submit_task(queue=site.queue, kind="work", input=2, key=key)
        client.submit_task(queue=site.queue, kind="work", input=1)
    assert Task.objects.count() == 2


def test_c20_6_a_write_with_no_id_is_not_sent_again_by_the_library(
    site: Site, proxy: ScriptedServer
) -> None:
    [task_id] = site.submit(1)
    with site.client(url=proxy.url, retry=QUICK) as client:
        with pytest.raises(
            tenure.Problem
        ):  # a worker's token may not reopen; what counts is how often it asked
            client.reopen(task_id, reason="again", expected_state_version=1)
    assert len(proxy.requests("POST", "/reopen")) == 1


def test_c01_a_long_run_keeps_its_task_and_nobody_else_ever_gets_it(site: Site) -> None:
    [task_id] = site.submit(1)
    entered, go_on = threading.Event(), threading.Event()
    worker = site.lively_worker(owner="A")

    @worker.handler("work")
    def work(claim: Claim) -> float:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return claim.remaining()

    thread = started(worker)
    assert entered.wait(PATIENCE_SECONDS)
    rival = site.worker(owner="B")
    rival.handler("work")(lambda claim: None)
    until_counted(worker, "renewals", 2)
    world.lapse(UUID(task_id))  # the run is longer than its lease was when it was last renewed
    until_counted(worker, "renewals", worker.counts["renewals"] + 2)
    assert "claimed" not in rival.run(until_empty=True)
    worker.stop()
    go_on.set()
    ended(thread)
    assert worker.counts["committed"] == 1
    assert world.task(UUID(task_id)).claim_generation == 1
    assert Attempt.objects.get(task_id=task_id).renewals >= 4


def test_c03_a_workers_wall_clock_decides_nothing(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.submit(1)
    left: list[float] = []
    worker = site.worker(ttl_seconds=60)

    @worker.handler("work")
    def work(claim: Claim) -> None:
        left.append(claim.remaining())
        hour_ago = time.time() - 3_600
        monkeypatch.setattr(time, "time", lambda: hour_ago)
        left.append(claim.remaining())

    assert worker.run(until_empty=True)["committed"] == 1
    assert 0 <= left[0] - left[1] < 30
    assert 30 < left[1] <= 60


def test_c04_a_new_grant_is_a_new_fence_even_for_the_same_owner(site: Site) -> None:
    [task_id] = site.submit(1)
    generations: list[int] = []
    entered, go_on = threading.Event(), threading.Event()
    first, second = (site.worker(owner="A", ttl_seconds=300) for _ in range(2))

    @first.handler("work")
    def late(claim: Claim) -> str:
        generations.append(claim.fence.claim_generation)
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return "late"

    @second.handler("work")
    def work(claim: Claim) -> str:
        generations.append(claim.fence.claim_generation)
        first.stop()
        go_on.set()
        ended(thread)
        return "in time"

    thread = started(first)
    assert entered.wait(PATIENCE_SECONDS)
    site.lapse(task_id)
    assert second.run(until_empty=True)["committed"] == 1
    assert generations == [1, 2]
    assert first.counts["refused.commit.FENCED"] == 1


def test_c22_a_refused_duplicate_is_no_failure_of_the_healthy_run(site: Site) -> None:
    [task_id] = site.submit(1)
    entered, go_on = threading.Event(), threading.Event()
    healthy = site.worker(owner="A", ttl_seconds=300)

    @healthy.handler("work")
    def work(claim: Claim) -> str:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return "healthy"

    thread = started(healthy)
    assert entered.wait(PATIENCE_SECONDS)
    before = world.task(UUID(task_id))
    for _ in range(3):  # the queue's image comes back: the duplicate asks again, and finds nothing
        duplicate = site.worker(owner="B")
        duplicate.handler("work")(lambda claim: None)
        assert "claimed" not in duplicate.run(until_empty=True)
    after = world.task(UUID(task_id))
    assert (after.state, after.lease_expires_at) == ("CLAIMED", before.lease_expires_at)
    assert not Event.objects.filter(kind="FAILED").exists()
    healthy.stop()
    go_on.set()
    ended(thread)
    assert healthy.counts["committed"] == 1


def test_c07_the_loser_of_cancel_and_commit_is_told(site: Site) -> None:
    [task_id] = site.submit(1)
    entered, go_on = threading.Event(), threading.Event()
    worker = site.worker(ttl_seconds=300)

    @worker.handler("work")
    def work(claim: Claim) -> str:
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return "too late"

    thread = started(worker)
    assert entered.wait(PATIENCE_SECONDS)
    assert isinstance(
        cancel_task(task_id=UUID(task_id), reason="no longer wanted", actor=world.operator()),
        Cancelled,
    )
    worker.stop()
    go_on.set()
    ended(thread)
    assert worker.counts["refused.commit.CANCELLED"] == 1
    assert not CanonicalCommit.objects.exists()
