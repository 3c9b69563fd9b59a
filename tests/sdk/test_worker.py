"""A worker against a real coordinator: claims, renewals, ends, refusals, and what becomes canonical."""

from __future__ import annotations

import io
import threading
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

import tenure
from coordinator.models import Attempt, Event, Task
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.epochs import Bumped, IntakeSet, bump_epoch, set_intake
from coordinator.states import Intake
from tenure import Claim, Fatal, Release, Report, Retry
from tests import world
from tests.sdk.conftest import Site
from tests.sdk.threads import PATIENCE_SECONDS, ended, started, until, until_counted


def test_a_dag_is_worked_through_and_results_reach_the_children(site: Site) -> None:
    seen: dict[str, Any] = {}
    worker = site.worker(concurrency=3)

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, Any]:
        seen[claim.node_id] = {name: parent.result for name, parent in claim.parents.items()}
        return {"made by": claim.node_id, "half": 0.5}

    with site.client() as client:
        run = client.submit_run(
            queue=site.queue,
            nodes=[
                {"node_id": "a", "kind": "work", "input": None},
                {"node_id": "b", "kind": "work", "input": None},
                {"node_id": "c", "kind": "work", "input": None, "depends_on": ["a", "b"]},
            ],
        )
        counts = worker.run(until_empty=True)
        assert client.run(run.run_id).state == "COMMITTED"
        [canonical] = client.candidates(run.task("c").task_id)
    assert seen["c"] == {
        "a": {"made by": "a", "half": 0.5},
        "b": {"made by": "b", "half": 0.5},
    }
    assert canonical.canonical
    assert canonical.result == {"made by": "c", "half": 0.5}
    assert counts["committed"] == 3


def test_only_the_kinds_that_it_handles_are_claimed(site: Site) -> None:
    with site.client() as client:
        other = client.submit_task(queue=site.queue, kind="other", input={})
    site.submit(1)
    worker = site.worker()
    worker.handler("work")(lambda claim: None)
    assert worker.run(until_empty=True)["committed"] == 1
    assert world.task(UUID(other.task_id)).state == "READY"


@pytest.mark.parametrize(
    ("raised", "state", "error"),
    [
        (ValueError("no such page"), "READY", {"type": "ValueError", "message": "no such page"}),
        (
            Retry("rate limited", after=0),
            "READY",
            {"type": "tenure.errors.Retry", "message": "rate limited"},
        ),
        (
            Fatal("no such file"),
            "FAILED",
            {"type": "tenure.errors.Fatal", "message": "no such file"},
        ),
        (KeyError("\x00\ud800"), "READY", None),
        (SystemExit(3), "READY", {"type": "SystemExit", "message": "3"}),
    ],
)
def test_what_a_handler_raises_is_the_end_of_its_attempt(
    raised: BaseException, state: str, error: dict[str, str] | None, site: Site
) -> None:
    [task_id] = site.submit(1)
    worker = site.worker()

    @worker.handler("work")
    def work(claim: Claim) -> None:
        worker.stop()
        raise raised

    assert worker.run()["failed"] == 1
    assert world.task(UUID(task_id)).state == state
    attempt = Attempt.objects.get(task_id=task_id)
    assert attempt.state == "FAILED"
    if error is not None:
        assert attempt.error == error


def test_a_retry_is_not_offered_before_its_time(site: Site) -> None:
    [task_id] = site.submit(1)
    worker = site.worker()

    @worker.handler("work")
    def work(claim: Claim) -> None:
        raise Retry(after=3_600)

    assert worker.run(until_empty=True)["failed"] == 1
    left = world.task(UUID(task_id))
    assert left.not_before is not None
    with site.client() as client:
        assert not client.explain(task_id).claimable


def test_a_released_task_is_ready_at_once_and_the_attempt_counts_for_nothing(site: Site) -> None:
    site.submit(1, max_attempts=1)
    worker = site.worker()
    tries: list[int] = []

    @worker.handler("work")
    def work(claim: Claim) -> str:
        tries.append(claim.attempt_number)
        if len(tries) == 1:
            raise Release
        return "done"

    counts = worker.run(until_empty=True)
    assert (counts["released"], counts["committed"]) == (1, 1)
    assert tries == [1, 2]


def test_a_worker_that_was_taken_over_changes_nothing_and_its_refusal_is_on_record(
    site: Site,
) -> None:
    [task_id] = site.submit(1)
    entered, go_on = threading.Event(), threading.Event()
    slow, quick = site.worker(owner="slow", ttl_seconds=300), site.worker(owner="quick")

    @slow.handler("work")
    def dawdle(claim: Claim) -> dict[str, str]:
        claim.spend(input_tokens=7, output_tokens=5, cost_usd=Decimal("0.25"))
        entered.set()
        go_on.wait(PATIENCE_SECONDS)
        return {"by": "slow"}

    quick.handler("work")(lambda claim: {"by": "quick"})
    thread = started(slow)
    assert entered.wait(PATIENCE_SECONDS)
    site.lapse(task_id)
    assert quick.run(until_empty=True)["committed"] == 1
    slow.stop()
    go_on.set()
    ended(thread)

    assert slow.counts["refused.commit.FENCED"] == 1
    assert "committed" not in slow.counts
    with site.client() as client:
        [canonical] = [item for item in client.candidates(task_id) if item.canonical]
        assert canonical.result == {"by": "quick"}
        first, second = client.attempts(task_id)
    assert (first.state, second.state) == ("FENCED", "COMMITTED")
    assert (first.usage.input_tokens, first.usage.cost_usd) == (7, 0.25)


def test_check_tells_a_long_handler_that_its_task_was_cancelled(site: Site) -> None:
    [task_id] = site.submit(1)
    entered = threading.Event()
    raised: list[type[BaseException]] = []
    worker = site.lively_worker()

    @worker.handler("work")
    def work(claim: Claim) -> None:
        entered.set()
        try:
            while True:
                claim.check()
                threading.Event().wait(0.05)
        except tenure.TenureError as error:
            raised.append(type(error))
            worker.stop()
            raise

    thread = started(worker)
    assert entered.wait(PATIENCE_SECONDS)
    receipt = cancel_task(task_id=UUID(task_id), reason="wrong folder", actor=world.operator())
    assert isinstance(receipt, Cancelled)
    ended(thread)
    assert raised == [tenure.Cancelled]
    assert worker.counts["refused.renew.CANCELLED"] == 1
    assert world.task(UUID(task_id)).state == "CANCELLED"


def test_leases_of_many_claims_are_kept_alive_in_few_calls(site: Site) -> None:
    site.submit(8)
    together = threading.Barrier(9)
    worker = site.lively_worker(concurrency=8)

    @worker.handler("work")
    def work(claim: Claim) -> int:
        together.wait(PATIENCE_SECONDS)
        number: int = claim.input["number"]
        return number

    thread = started(worker)
    until_counted(worker, "renewals", 16)
    together.wait(PATIENCE_SECONDS)
    until_counted(worker, "committed", 8)
    worker.stop()
    ended(thread)
    assert worker.counts["commit_calls"] <= 8
    assert not Attempt.objects.exclude(state="COMMITTED").exists()


def test_a_bumped_epoch_ends_what_was_claimed_before_and_the_worker_follows_it(site: Site) -> None:
    first, second = site.submit(2)
    entered, go_on = threading.Event(), threading.Event()
    worker = site.worker(ttl_seconds=300)

    @worker.handler("work")
    def work(claim: Claim) -> int:
        if claim.task_id == first and not go_on.is_set():
            entered.set()
            go_on.wait(PATIENCE_SECONDS)
        return claim.fence.scheduler_epoch

    thread = started(worker)
    assert entered.wait(PATIENCE_SECONDS)
    before = world.epoch(site.queue)
    bumped = bump_epoch(
        queue=site.queue, expected_epoch=before, reason="a drill", actor=world.operator()
    )
    assert isinstance(bumped, Bumped)
    go_on.set()
    until_counted(worker, "committed", 2)
    worker.stop()
    ended(thread)
    assert worker.counts["refused.commit.FENCED"] == 1
    assert worker.counts["epoch_raised"] == 1
    epochs = {str(row.task_id): row.scheduler_epoch for row in Task.objects.all()}
    assert epochs == {first: before + 1, second: before + 1}


def test_a_stopped_intake_is_waited_out(site: Site) -> None:
    stopped = set_intake(
        queue=site.queue, intake=Intake.STOPPED, reason="maintenance", actor=world.operator()
    )
    assert isinstance(stopped, IntakeSet)
    site.submit(1)
    told: list[Report] = []
    worker = site.worker(observer=told.append)
    worker.handler("work")(lambda claim: None)
    thread = started(worker)
    until(lambda: bool(told), "the worker to tell")
    assert told[0].what == "waiting"
    assert isinstance(told[0].detail["problem"], tenure.IntakeStopped)
    set_intake(queue=site.queue, intake=Intake.OPEN, reason="done", actor=world.operator())
    until_counted(worker, "committed", 1)
    worker.stop()
    ended(thread)


def test_waiting_workers_hear_of_new_work_by_the_hint(site: Site) -> None:
    worker = site.worker()
    worker.handler("work")(lambda claim: None)
    thread = started(worker)
    threading.Event().wait(0.5)
    site.submit(1)
    until_counted(worker, "committed", 1)
    worker.stop()
    ended(thread)


def test_blobs_travel_as_results_to_the_children(site: Site) -> None:
    content = bytes(range(256)) * 8_000
    worker = site.worker()

    @worker.handler("make")
    def make(claim: Claim) -> tenure.Blob:
        first = claim.put_blob("data.bin", io.BytesIO(content))
        assert claim.put_blob("data.bin", io.BytesIO(content)) == first
        with pytest.raises(tenure.InvalidInput):
            claim.put_blob("data.bin", io.BytesIO(b"other bytes"))
        return first

    @worker.handler("use")
    def use(claim: Claim) -> int:
        into = io.BytesIO()
        claim.fetch_parent("make", into)
        assert into.getvalue() == content
        return len(content)

    with site.client() as client:
        run = client.submit_run(
            queue=site.queue,
            nodes=[
                {"node_id": "make", "kind": "make", "input": {}},
                {"node_id": "use", "kind": "use", "input": {}, "depends_on": ["make"]},
            ],
        )
        assert worker.run(until_empty=True)["committed"] == 2
        assert client.run(run.run_id).state == "COMMITTED"
        [canonical] = client.candidates(run.task("make").task_id)
        assert canonical.blob is not None
        into = io.BytesIO()
        assert client.fetch_blob(canonical.attempt_id, "data.bin", into) == canonical.result_digest
        assert into.getvalue() == content


def test_what_was_staged_can_be_read_and_is_committed_by_its_digest(site: Site) -> None:
    [task_id] = site.submit(1)
    worker = site.worker()

    @worker.handler("work")
    def work(claim: Claim) -> tenure.Staged:
        claim.stage({"draft": 1})
        return claim.stage({"draft": 2})

    assert worker.run(until_empty=True)["committed"] == 1
    with site.client() as client:
        found = {item.result["draft"]: item.canonical for item in client.candidates(task_id)}
    assert found == {1: False, 2: True}


def test_shared_memory_is_written_with_the_commit_and_a_moved_version_is_tried_again(
    site: Site,
) -> None:
    site.submit(2)
    worker = site.worker(concurrency=2)
    together = threading.Barrier(2)
    attempts: list[int] = []

    with site.client() as client:

        @worker.handler("work")
        def work(claim: Claim) -> int:
            try:
                fact = client.memory("counts", site.queue)
                version, value = fact.version, fact.value
            except tenure.NotFound:
                version, value = 0, 0
            attempts.append(claim.attempt_number)
            if claim.attempt_number == 1:
                together.wait(PATIENCE_SECONDS)
            claim.memory("counts", site.queue, value + 1, expected_version=version)
            return version

        counts = worker.run(until_empty=True)
        while counts["committed"] < 2:
            again = site.worker()
            again.handler("work")(work)
            counts = {
                "committed": counts["committed"] + again.run(until_empty=True).get("committed", 0)
            }
        fact = client.memory("counts", site.queue)
    assert (fact.version, fact.value) == (2, 2)
    assert sorted(attempts) == [1, 1, 2]
    assert worker.counts["refused.commit.MEMORY_CONFLICT"] == 1


def test_a_token_that_may_not_work_is_told_so_at_once(site: Site) -> None:
    for token, kind in (
        (site.token_for("submit"), tenure.Forbidden),
        ("tnr_w_unknown_token", tenure.Unauthorized),
    ):
        worker = site.worker(token=token)
        worker.handler("work")(lambda claim: None)
        with pytest.raises(kind):
            worker.run()
    assert not Event.objects.filter(kind="CLAIMED").exists()


def test_a_fleet_of_the_wrong_pool_waits_for_its_turn(site: Site) -> None:
    site.submit(1)
    told: list[Report] = []
    worker = site.worker(token=site.token_for("work", pool="green"), observer=told.append)
    worker.handler("work")(lambda claim: None)
    thread = started(worker)
    until(lambda: bool(told), "the worker to tell")
    worker.stop()
    ended(thread)
    assert isinstance(told[0].detail["problem"], tenure.WrongPool)
    assert "claimed" not in worker.counts
