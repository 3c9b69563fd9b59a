"""C11 — the leader who renews somebody else's row.

There is no leader here: any number of beats and sweeps may run, and each of their jobs may run twice. What the case's
leaders break is protected by other means, each tried here: a tick is one row by its key, whoever inserts it; a lease
belongs to an attempt and its generation, never to a name; what an operator does under an old belief meets the epoch or
the version; and a job of the background decides nothing that the rows under lock have not decided.
"""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinator import tasks
from coordinator.actors import Worker, system
from coordinator.models import Approval, Attempt, Event, Queue, Task
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.answers import RequestKey
from coordinator.services.approvals import expire_approvals
from coordinator.services.claims import claim_task
from coordinator.services.epochs import bump_epoch
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.runs import Submitted, submit_run
from coordinator.states import Guarantee
from tenure import Claim
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OTTO, refused, took
from tests.races.crowd import at_once
from tests.sdk.conftest import Site, served, site
from tests.sdk.served import Served
from tests.sdk.threads import PATIENCE_SECONDS, ended, started
from tests.world import node

__all__ = ["served", "site"]

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

TICKS = 10


def insert(tick: int, *, by: Worker) -> Submitted:
    """What a beat does at a tick: the schedule and the tick are the request's key."""
    answer = submit_run(
        queue="q",
        name="nightly",
        metadata={},
        nodes=[node("report", input={"tick": tick})],
        actor=by,
        request=RequestKey("worker:beat:runs", f"nightly:{tick:016}", f"sha256:{tick}"),
    )
    assert isinstance(answer, Submitted), answer
    return answer


@pytest.mark.usefixtures("lane")
def test_c11_1_2_a_tick_is_one_row_whoever_leads_and_whatever_epoch_they_believe_in() -> None:
    beat = world.worker(name="beat")
    first = insert(7, by=beat)
    took_over = bump_epoch(queue="q", expected_epoch=1, reason="S2 leads", actor=OTTO)
    assert not isinstance(took_over, Refusal)
    second = insert(7, by=beat)  # S2, under e=2
    third = insert(7, by=beat)  # S1 again, which still believes in e=1
    assert {first.run_id, second.run_id, third.run_id} == {first.run_id}
    assert (second.replayed, third.replayed) == (True, True)
    assert Task.objects.count() == 1


@pytest.mark.usefixtures("lane")
def test_c11_4_of_two_beats_on_one_host_ten_ticks_give_ten_rows() -> None:
    beat = world.worker(name="beat")
    for tick in range(TICKS):
        answers = at_once(*[partial(insert, tick, by=beat)] * 2)
        assert sorted(each.replayed for each in answers) == [False, True]
    assert Task.objects.count() == TICKS


@pytest.mark.usefixtures("lane")
def test_c11_3_who_has_lost_the_lead_renews_nothing_of_who_has_it() -> None:
    """Leadership as a task: whoever holds it leads. Both processes have one name and one credential."""
    beat = world.worker(name="beat")
    leads = world.task_id(world.submit(node("lead")), "lead")
    s1 = world.claim_one(by=beat, of=leads, owner="host")
    world.lapse(leads)
    s2 = world.claim_one(by=beat, of=leads, owner="host")
    with nothing_moves():
        (told,) = renew_leases(items=[Renewal(s1.fence.attempt_id, s1.fence, "host")], worker=beat)
        assert refused(told, Outcome.FENCED).reason is Reason.STALE_GENERATION
    (renewed,) = renew_leases(items=[Renewal(s2.fence.attempt_id, s2.fence, "host")], worker=beat)
    assert isinstance(renewed, Renewed)
    bump_epoch(queue="q", expected_epoch=1, reason="S3 leads", actor=OTTO)
    with nothing_moves():
        (told,) = renew_leases(items=[Renewal(s2.fence.attempt_id, s2.fence, "host")], worker=beat)
        assert refused(told, Outcome.FENCED).reason is Reason.STALE_EPOCH


@pytest.mark.usefixtures("lane")
def test_c11_4_of_two_who_start_under_one_name_one_leads() -> None:
    beat = world.worker(name="beat")
    leads = world.task_id(world.submit(node("lead")), "lead")
    stand = partial(
        claim_task,
        task_id=leads,
        expected_state_version=1,
        scheduler_epoch=1,
        owner="host",
        worker=beat,
        ttl_seconds=60,
    )
    answers: list[Any] = at_once(*[stand] * 4)
    assert sum(not isinstance(each, Refusal) for each in answers) == 1
    assert Attempt.objects.count() == 1


def test_c11_5_a_leader_that_is_cut_off_knows_by_its_own_clock_when_to_stop(
    site: Site, tmp_path: Any
) -> None:
    server = Served(tmp_path / "web.log")
    server.start()
    site.submit(1)
    acted: list[float] = []
    leading, turn = threading.Event(), threading.Event()
    worker = site.worker(url=server.url, ttl_seconds=5, grace_seconds=1)

    @worker.handler("work")
    def lead(claim: Claim) -> None:
        leading.set()
        while (left := claim.remaining()) > 0:  # acts as a leader only so long
            acted.append(left)
            turn.wait(0.02)
        worker.stop()

    thread = started(worker)
    led = leading.wait(PATIENCE_SECONDS)
    server.kill()  # the database and everything else is out of its reach
    assert led
    ended(thread)
    assert acted
    assert min(acted) > 0


@pytest.mark.usefixtures("lane")
def test_c11_6_what_an_old_leader_still_does_meets_the_epoch_or_finds_it_done() -> None:
    world.worker(name="green", pool_name="green")
    by = world.worker()
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    effect = ledger.prepare(claim, by=by)
    ledger.try_accept(effect, claim.fence, by=by)
    waits = world.task_id(world.submit(node("held")), "held")
    world.claim_one(by=by, of=waits)
    incident = rollback.bumped()  # S2 leads, under e=2
    seen_before = 1
    with nothing_moves():
        told = bump_epoch(queue="q", expected_epoch=1, reason="S1 still leads", actor=OTTO)
        refused(told, Outcome.STATE_VERSION_MISMATCH)
        refused(rollback.bump(incident, expected_epoch=7), Outcome.STATE_VERSION_MISMATCH)
        late = rollback.switch(incident, expected_version=seen_before)
        refused(late, Outcome.STATE_VERSION_MISMATCH)
    rollback.run_out(incident)
    took(rollback.switch(incident, expected_version=2))
    with nothing_moves():
        refused(rollback.switch(incident, "blue", expected_version=2), Outcome.ALREADY_SETTLED)
    took(rollback.resume(incident))
    assert Queue.objects.get(name="q").active_pool_id == "green"


@pytest.mark.usefixtures("lane")
@pytest.mark.parametrize("job", ["sweep", "expire_approvals"])
def test_c11_6_jobs_of_two_beats_at_once_do_each_thing_once(job: str) -> None:
    by = world.worker()
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    effect = ledger.prepare(claim, by=by)
    ledger.try_accept(effect, claim.fence, by=by)
    lapsed = world.task_id(world.submit(node("held")), "held")
    world.claim_one(by=by, of=lapsed)
    world.lapse(lapsed)
    with world.guarded():
        asked = Approval.objects.get()
        Approval.objects.update(expires_at=asked.requested_at)
    jobs: dict[str, Callable[[], Any]] = {
        "sweep": tasks.sweep,
        "expire_approvals": partial(expire_approvals, actor=system("approvals")),
    }
    done = at_once(*[jobs[job]] * 4)
    assert sum(int(each) for each in done) == 1
    with nothing_moves():
        jobs[job]()
    told = Event.objects.filter(kind="APPROVAL_EXPIRED").count()
    assert told == (1 if job == "expire_approvals" else 0)
