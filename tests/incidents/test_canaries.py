"""A part of the intake before the whole: who is let in, and what holds it (contract 12)."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

from coordinator import pipeline
from coordinator.actors import Worker, system
from coordinator.intake_shares import is_let_in, place_of, place_sql
from coordinator.models import Event, IncidentCanary, Queue, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.canaries import read_pulse
from coordinator.selectors.explain import explain_task
from coordinator.services import canaries, hints, identity
from coordinator.services.claims import Claimed, claim_task, claim_tasks
from coordinator.services.endings import release_attempt
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.roll_ups import roll_up
from coordinator.states import Guarantee
from tests import restoring, world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, refused, took
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

WATCH = system("canary")


@pytest.fixture
def green(by: Worker) -> Worker:
    """A worker of the pool that takes over."""
    return world.worker(name="fleet-green", pool_name="green")


@pytest.fixture
def incident(green: Worker) -> UUID:
    """Switched to the green pool; the intake is stopped."""
    found = rollback.bumped()
    took(rollback.switch(found))
    return found


def submit(count: int) -> dict[int, list[UUID]]:
    """So many tasks, by their place."""
    world.submit(*(node(f"n{number}") for number in range(count)))
    places: dict[int, list[UUID]] = {}
    for task_id in Task.objects.values_list("task_id", flat=True):
        places.setdefault(place_of(task_id), []).append(task_id)
    return places


def ask(by: Worker, *, limit: int = 100, **fields: Any) -> Claimed | Refusal:
    return claim_tasks(
        queue="q", worker=by, scheduler_epoch=world.epoch(), owner="me", limit=limit, **fields
    )


def granted(answer: Claimed | Refusal) -> set[UUID]:
    assert isinstance(answer, Claimed), answer
    return {claim.fence.task_id for claim in answer.claims}


def share() -> tuple[str, int]:
    queue = Queue.objects.get(name="q")
    return queue.intake, queue.intake_share


# --- who is let in --------------------------------------------------------------------------------


@pytest.mark.parametrize("percent", [1, 50, 99])
def test_so_many_per_cent_are_let_in_and_always_the_same(
    incident: UUID, green: Worker, percent: int
) -> None:
    places = submit(200)
    took(rollback.let_in(incident, percent))
    wanted = {each for place in range(percent) for each in places.get(place, [])}
    found: set[UUID] = set()
    while more := granted(ask(green, limit=7)):
        found |= more
    assert found == wanted
    assert granted(ask(green, kinds=["work", "other"])) == set()
    assert share() == ("STOPPED", percent)


def test_the_database_and_the_code_find_the_same_place() -> None:
    world.queue()
    submit(50)
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT task_id, {place_sql('task_id')} FROM coordinator_task")
        found = cursor.fetchall()
    assert len(found) >= 50
    assert all(place_of(task_id) == place for task_id, place in found)


def test_a_larger_part_has_the_smaller_one_in_it(incident: UUID, green: Worker) -> None:
    submit(120)
    took(rollback.let_in(incident, 20))
    first = granted(ask(green))
    took(rollback.let_in(incident, 60))
    second = granted(ask(green))
    assert all(is_let_in(each, 20) for each in first)
    assert all(is_let_in(each, 60) and not is_let_in(each, 20) for each in second)


def test_none_per_cent_stops_it_again(incident: UUID, green: Worker) -> None:
    submit(40)
    took(rollback.let_in(incident, 50))
    took(rollback.let_in(incident, 0))
    refused(ask(green), Outcome.INTAKE_STOPPED)
    assert share() == ("STOPPED", 0)
    told = Event.objects.filter(kind="CANARY_SET").order_by("-id")[0]
    assert (told.data["before"], told.data["after"]) == ({"share": 50}, {"share": 0})


def test_the_whole_intake_ends_the_incident_and_lets_everything_in(
    incident: UUID, green: Worker
) -> None:
    submit(60)
    took(rollback.let_in(incident, 10))
    closed = took(rollback.resume(incident))
    assert (closed.state, closed.share) == ("CLOSED", 0)
    assert share() == ("OPEN", 0)
    assert len(granted(ask(green))) == 60


def test_a_task_by_its_id_is_let_in_by_the_same_rule(incident: UUID, green: Worker) -> None:
    places = submit(120)
    took(rollback.let_in(incident, 50))
    ins = next(tasks[0] for place, tasks in places.items() if place < 50)
    out = next(tasks[0] for place, tasks in places.items() if place >= 50)
    asked: Callable[[UUID], Any] = lambda task_id: claim_task(  # noqa: E731
        task_id=task_id, expected_state_version=1, scheduler_epoch=2, owner="me", worker=green
    )
    refused(asked(out), Outcome.INTAKE_STOPPED)
    assert asked(ins).fence.task_id == ins


def test_who_is_not_let_in_is_told_so(incident: UUID, green: Worker) -> None:
    places = submit(120)
    took(rollback.let_in(incident, 50))
    for place, tasks in places.items():
        told = explain_task(tasks[0])
        assert told is not None
        assert told.claimable == (place < 50)
        if place >= 50:
            (reason,) = [each for each in told.reasons if each.code == "INTAKE_STOPPED"]
            assert "lets 50 % of the tasks in" in reason.detail


def test_nobody_is_hinted_at_what_is_not_let_in(incident: UUID, green: Worker) -> None:
    submit(80)
    took(rollback.let_in(incident, 50))
    assert getattr(hints.wait_for_work(queue="q"), "may_have_work", False)
    while granted(ask(green)):
        pass
    hint = hints.wait_for_work(queue="q")
    assert isinstance(hint, hints.Hint)
    assert not hint.may_have_work


def test_what_is_let_in_can_send_and_a_stop_keeps_the_next_call_back(
    incident: UUID, green: Worker
) -> None:
    ledger.register(Guarantee.CONDITIONAL_WRITE)
    took(rollback.let_in(incident, 99))
    world.submit(*(node(f"n{n}", slots={ledger.SLOT: "there"}) for n in range(12)))
    first, second, *_ = ask(green).claims  # type: ignore[union-attr]
    ledger.accept(ledger.prepare(first, by=green), first.fence, by=green)
    took(rollback.let_in(incident, 0))
    effect = ledger.prepare(second, by=green)
    refused(ledger.try_accept(effect, second.fence, by=green), Outcome.INTAKE_STOPPED)


def test_only_a_claim_under_a_canary_asks_for_places(
    incident: UUID, green: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    run = pipeline.run

    def listen(link: Any, asked: Sequence[pipeline.Statement]) -> list[list[tuple[Any, ...]]]:
        sent.extend(each.sql for each in asked)
        return run(link, asked)

    monkeypatch.setattr(pipeline, "run", listen)
    submit(30)
    took(rollback.let_in(incident, 50))
    granted(ask(green, limit=1))
    under = [sql for sql in sent if "mod(" in sql]
    took(rollback.resume(incident))
    sent.clear()
    assert len(granted(ask(green, limit=1))) == 1
    assert under
    assert not [sql for sql in sent if "mod(" in sql]


# --- what is asked, and refused -------------------------------------------------------------------


def test_it_is_told_with_who_when_from_where_and_why(incident: UUID) -> None:
    receipt = took(rollback.let_in(incident, 10, reason="carefully", actor=OTTO))
    assert (receipt.step, receipt.state, receipt.share) == ("CANARY", "SWITCHED", 10)
    assert [(each.intake, each.intake_share) for each in receipt.queues] == [("STOPPED", 10)]
    (told,) = rollback.record(incident).canaries
    assert (told.share, told.by, told.address, told.reason, told.held, told.version) == (
        10, "operator:otto", "10.0.0.7", "carefully", False, receipt.version,
    )  # fmt: skip
    event = Event.objects.get(kind="CANARY_SET")
    assert event.data["incident_id"] == str(incident)


def test_the_same_call_again_gets_the_same_receipt_even_after_a_hold(
    incident: UUID, green: Worker
) -> None:
    version = rollback.record(incident).version
    first = took(rollback.let_in(incident, 50, expected_version=version))
    _fence_commits(green, 3)
    assert canaries.watch_canaries(actor=WATCH) == 1
    again = took(rollback.let_in(incident, 50, expected_version=version))
    assert again.replayed
    assert (again.version, again.at) == (first.version, first.at)
    assert share() == ("STOPPED", 0)  # what was held stays held
    assert IncidentCanary.objects.count() == 2


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"percent": 100}, "/percent"),
        ({"percent": -1}, "/percent"),
        ({"percent": 10, "expected_version": None}, "/expected_version"),
        ({"percent": 10, "reason": "x" * 100_000}, "/reason"),
    ],
)
def test_a_faulty_part_is_told_by_its_field(
    incident: UUID, fields: dict[str, Any], pointer: str
) -> None:
    percent = fields.pop("percent")
    with nothing_moves():
        refused(rollback.let_in(incident, percent, **fields), Outcome.INVALID, pointer)


def test_it_needs_the_switch_and_ends_with_the_incident(by: Worker, green: Worker) -> None:
    found = rollback.opened()
    refused(rollback.let_in(found, 10), Outcome.WRONG_STEP)
    took(rollback.bump(found))
    with nothing_moves():
        refused(rollback.let_in(found, 10), Outcome.WRONG_STEP)
    took(rollback.switch(found))
    took(rollback.let_in(found, 10))
    with nothing_moves():
        refused(rollback.abort(found), Outcome.WRONG_STEP)  # the epoch has been raised
        refused(rollback.bump(found, expected_epoch=2), Outcome.STATE_VERSION_MISMATCH)
    took(rollback.resume(found))
    with nothing_moves():
        refused(rollback.let_in(found, 10), Outcome.WRONG_STEP)


def test_another_version_than_was_seen_changes_nothing(incident: UUID) -> None:
    seen = rollback.record(incident).version
    took(rollback.let_in(incident, 10, actor=OTTO))
    with nothing_moves():
        refused(
            rollback.let_in(incident, 50, expected_version=seen), Outcome.STATE_VERSION_MISMATCH
        )


def test_no_worker_and_no_job_lets_anything_in(incident: UUID, green: Worker) -> None:
    for actor in (green, WATCH):
        with nothing_moves():
            refused(rollback.let_in(incident, 10, actor=actor), Outcome.FORBIDDEN)


# --- the watch ------------------------------------------------------------------------------------


def _fence_commits(by: Worker, count: int, *, commits: int = 0) -> None:
    """Attempts that lose their leases, are taken over, and commit late; and so many that commit in time."""
    world.submit(*(node(f"f{number}") for number in range(3 * (count + commits) + 10)))
    good = 0
    while good < commits:
        for claim in ask(by, limit=commits - good).claims:  # type: ignore[union-attr]
            world.commit(claim, by=by)
            good += 1
    late = ask(by, limit=count).claims if count else []  # type: ignore[union-attr]
    assert len(late) == count, "too few were let in"
    for claim in late:
        world.lapse(claim.fence.task_id)
        taken = world.claim_one(by=by, of=claim.fence.task_id)
        refused(world.try_commit(claim, by=by), Outcome.FENCED)
        release_attempt(attempt_id=taken.fence.attempt_id, fence=taken.fence, worker=by)


def test_a_canary_whose_commits_are_fenced_is_held(incident: UUID, green: Worker) -> None:
    took(rollback.let_in(incident, 90))
    _fence_commits(green, 3, commits=4)
    assert canaries.watch_canaries(actor=WATCH) == 1
    assert share() == ("STOPPED", 0)
    newest = rollback.record(incident).canaries[-1]
    assert (newest.held, newest.by, newest.share) == (True, "system:canary", 0)
    assert (newest.commits, newest.fenced) == (4, 3)
    event = Event.objects.get(kind="CANARY_HELD")
    assert (event.data["commits"], event.data["fenced"]) == (4, 3)
    assert Event.objects.get(kind="ALARM", data__alarm="CANARY_HELD").data["fenced"] == 3
    refused(ask(green), Outcome.INTAKE_STOPPED)
    assert canaries.watch_canaries(actor=WATCH) == 0  # once


@pytest.mark.parametrize(("fenced", "commits"), [(0, 5), (2, 0), (3, 57)])
def test_a_canary_that_fares_well_enough_goes_on(
    incident: UUID, green: Worker, fenced: int, commits: int
) -> None:
    took(rollback.let_in(incident, 99))
    _fence_commits(green, fenced, commits=commits)
    roll_up()
    assert canaries.watch_canaries(actor=WATCH) == 0
    assert share() == ("STOPPED", 99)


def test_late_calls_of_the_old_epoch_hold_nothing(by: Worker, green: Worker) -> None:
    world.submit(*(node(f"old{number}") for number in range(5)))
    old = world.claim(by=by, limit=5)
    found = rollback.bumped()
    rollback.run_out(found)
    took(rollback.switch(found))
    took(rollback.let_in(found, 50))
    for claim in old:
        refused(world.try_commit(claim, by=by), Outcome.FENCED)
    assert canaries.watch_canaries(actor=WATCH) == 0
    newest = IncidentCanary.objects.latest("id")
    pulse = read_pulse(newest.at, [Queue.objects.get(name="q").pk])
    assert (pulse.commits, pulse.fenced) == (0, 0)


def test_after_a_hold_going_on_needs_a_reason(incident: UUID, green: Worker) -> None:
    took(rollback.let_in(incident, 90))
    _fence_commits(green, 3)
    canaries.watch_canaries(actor=WATCH)
    with nothing_moves():
        refused(rollback.let_in(incident, 10), Outcome.INVALID, "/reason")
        refused(rollback.resume(incident), Outcome.INVALID, "/reason")
    took(rollback.let_in(incident, 10, reason="leases were too short; raised"))
    assert share() == ("STOPPED", 10)
    assert canaries.watch_canaries(actor=WATCH) == 0  # what was let in before counts no more
    took(rollback.resume(incident))


def test_a_hold_and_the_end_at_once_are_never_half_of_each(incident: UUID, green: Worker) -> None:
    took(rollback.let_in(incident, 90))
    _fence_commits(green, 3)
    held, closed = at_once(
        partial(canaries.watch_canaries, actor=WATCH),
        partial(rollback.resume, incident, reason="it is known"),
    )
    assert isinstance(closed, StepTaken)  # its reason stands, whichever came first
    assert share() == ("OPEN", 0)
    assert IncidentCanary.objects.filter(fenced__isnull=False).count() == held


def test_a_hold_that_measured_another_word_is_not_taken(incident: UUID, green: Worker) -> None:
    """A person has said something since the watch looked: it looks again the next time."""
    took(rollback.let_in(incident, 90))
    _fence_commits(green, 3)
    queue_id = Queue.objects.get(name="q").pk
    with world.holding("SELECT pg_advisory_xact_lock_shared(1, %s)", [queue_id]) as holder:
        letting = world.Rival(partial(rollback.let_in, incident, 95, reason="known"))
        world.wait_until_blocked(letting.pid, by=holder.pid)
        watching = world.Rival(partial(canaries.watch_canaries, actor=WATCH))
        world.wait_until_blocked(watching.pid, by=letting.pid)
        holder.release()
        took(letting.result())
        assert watching.result() == 0
    assert share() == ("STOPPED", 95)


def test_after_a_restore_nothing_is_let_in(incident: UUID, green: Worker) -> None:
    """What the canary had shown was shown by another database."""
    identity.confirm_identity()
    took(rollback.let_in(incident, 50))
    restoring.copy_the_database()
    identity.confirm_identity()
    refused(ask(green), Outcome.INTAKE_STOPPED)  # it is held until somebody has looked
    restoring.restored()
    assert share() == ("STOPPED", 0)
    refused(ask(green), Outcome.INTAKE_STOPPED)
    stale = rollback.record(incident).version
    took(rollback.let_in(incident, 5, expected_version=stale))


def test_two_who_let_in_at_once_are_one(incident: UUID) -> None:
    version = rollback.record(incident).version
    asked = [
        partial(rollback.let_in, incident, percent, actor=who, expected_version=version)
        for percent, who in ((10, OLGA), (20, OTTO), (30, OLGA))
    ]
    answers = at_once(*asked)
    assert sum(isinstance(each, StepTaken) for each in answers) == 1
    assert IncidentCanary.objects.count() == 1
