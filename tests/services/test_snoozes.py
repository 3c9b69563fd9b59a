"""Holding tasks back until a time: before they are claimed, reversibly, at no cost to the claim."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, transaction

from coordinator.actors import Actor
from coordinator.clock import read_clock
from coordinator.models import BulkItem, BulkJob, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.explain import explain_task
from coordinator.services.bulk_steps import CHANGED, run_bulk_step
from coordinator.services.bulk_undoing import undo_bulk
from coordinator.services.bulks import CANNOT, DONE, Started, Verb, start_bulk, stop_bulk
from coordinator.services.cancels import cancel_task
from coordinator.services.snoozes import MAX_SNOOZE, Snoozed, Woken, snooze_task, wake_task
from coordinator.states import TaskState
from tests import world
from tests.services.test_bulks import WHY, olga, outcomes, reviewed, tasks

__all__ = ["olga", "tasks"]
pytestmark = pytest.mark.django_db(transaction=True)


def snooze(task_id: UUID, *, until: datetime, by: Actor, version: int | None = None) -> Any:
    seen = version if version is not None else world.task(task_id).state_version
    return snooze_task(
        task_id=task_id, expected_state_version=seen, not_before=until, reason=WHY, actor=by
    )


def wake(task_id: UUID, *, by: Actor, back_to: datetime | None = None) -> Any:
    version = world.task(task_id).state_version
    return wake_task(
        task_id=task_id, expected_state_version=version, not_before=back_to, reason=WHY, actor=by
    )


def in_an_hour() -> datetime:
    return read_clock() + timedelta(hours=1)


def test_a_ready_task_is_not_claimed_before_its_time(olga: Actor, tasks: list[UUID]) -> None:
    until = in_an_hour()
    answer = snooze(tasks[0], until=until, by=olga)
    assert answer == Snoozed(tasks[0], TaskState.READY, 2, until, None)
    fleet = world.worker()
    claimed = {claim.fence.task_id for claim in world.claim(by=fleet, limit=10)}
    assert claimed == set(tasks[1:])
    explanation = explain_task(tasks[0])
    assert explanation is not None
    assert [reason.code for reason in explanation.reasons] == ["NOT_BEFORE"]
    event = Event.objects.get(kind="SNOOZED")
    assert (event.actor, event.state_version, event.data["reason"]) == ("operator:olga", 2, WHY)
    assert event.data["address"] == "10.0.0.1"
    world.make_due(tasks[0])
    assert len(world.claim(by=fleet)) == 1


def test_a_blocked_task_waits_for_its_time_once_its_parent_has_committed(olga: Actor) -> None:
    world.queue()
    run = world.submit(world.node("a"), world.node("b", "a"))
    until = in_an_hour()
    answer = snooze(world.task_id(run, "b"), until=until, by=olga)
    assert answer.state == TaskState.BLOCKED
    fleet = world.worker()
    world.finish(world.task_id(run, "a"), by=fleet)
    child = world.task(world.task_id(run, "b"))
    assert (child.state, child.claimable_at) == (TaskState.READY, until)


def test_waking_lets_it_go_at_once(olga: Actor, tasks: list[UUID]) -> None:
    snooze(tasks[0], until=in_an_hour(), by=olga)
    assert wake(tasks[0], by=olga) == Woken(tasks[0], TaskState.READY, 3, None)
    task = world.task(tasks[0])
    assert task.not_before is None
    assert task.claimable_at is not None
    assert task.claimable_at <= read_clock()
    assert Event.objects.get(kind="WOKEN").data["was"]


def test_a_snooze_can_be_prolonged_and_not_shortened(olga: Actor, tasks: list[UUID]) -> None:
    soon, later = in_an_hour(), in_an_hour() + timedelta(hours=1)
    snooze(tasks[0], until=soon, by=olga)
    assert snooze(tasks[0], until=later, by=olga).was == soon
    refusal = snooze(tasks[0], until=soon, by=olga)
    assert isinstance(refusal, Refusal)
    assert refusal.outcome is Outcome.ALREADY_SETTLED
    assert "To let it go earlier, wake it." in refusal.detail
    assert world.task(tasks[0]).not_before == later


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        (timedelta(seconds=-1), "It is past"),
        (MAX_SNOOZE + timedelta(minutes=1), "At most 30 days from now"),
    ],
)
def test_a_time_that_is_past_or_too_far_is_refused(
    olga: Actor, tasks: list[UUID], ahead: timedelta, told: str
) -> None:
    refusal = snooze(tasks[0], until=read_clock() + ahead, by=olga)
    assert refusal.outcome is Outcome.INVALID
    assert told in refusal.errors[0].detail
    naive = snooze(tasks[0], until=datetime(2030, 1, 1), by=olga)  # noqa: DTZ001 (that is the fault)
    assert naive.errors[0].pointer == "/not_before"
    assert world.task(tasks[0]).state_version == 1


def test_only_what_waits_for_nobody_is_held_back_and_refusals_are_on_record(
    olga: Actor, tasks: list[UUID]
) -> None:
    fleet = world.worker()
    world.claim_one(by=fleet, of=tasks[0])
    world.finish(tasks[1], by=fleet)
    cancel_task(task_id=tasks[2], reason=WHY, actor=olga)
    versions = [world.task(task_id).state_version for task_id in tasks]
    until = in_an_hour()
    told = [snooze(task_id, until=until, by=olga).outcome for task_id in tasks[:3]]
    assert told == [
        Outcome.ALREADY_SETTLED,
        Outcome.ALREADY_COMMITTED,
        Outcome.ALREADY_SETTLED,
    ]
    assert snooze(tasks[3], until=until, by=olga, version=9).outcome is (
        Outcome.STATE_VERSION_MISMATCH
    )
    assert wake(tasks[3], by=olga).outcome is Outcome.ALREADY_SETTLED
    assert snooze(UUID(int=1), until=until, by=olga, version=1).outcome is Outcome.NOT_FOUND
    assert [world.task(task_id).state_version for task_id in tasks] == versions
    points = [row.data["point"] for row in Event.objects.filter(kind="REFUSED").order_by("id")]
    assert points == ["snooze", "snooze", "snooze", "snooze", "wake"]


def test_a_bulk_snooze_holds_back_a_frozen_set_and_its_undoing_restores_what_was(
    olga: Actor, tasks: list[UUID]
) -> None:
    earlier, until = in_an_hour(), in_an_hour() + timedelta(hours=3)
    snooze(tasks[0], until=earlier, by=olga)
    world.finish(tasks[3], by=world.worker())
    bulk_id = reviewed(olga, *tasks, verb=Verb.SNOOZE)
    late = world.submit(world.node("late")).tasks[0].task_id
    started = start_bulk(bulk_id=bulk_id, reason=WHY, not_before=until, actor=olga)
    assert isinstance(started, Started)
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 3, CANNOT: 1}
    assert {world.task(task_id).not_before for task_id in tasks[:3]} == {until}
    assert world.task(late).not_before is None
    cancel_task(task_id=tasks[1], reason=WHY, actor=olga)
    undone = undo_bulk(bulk_id=bulk_id, actor=replace(olga, name="bob"))
    assert isinstance(undone, Started)
    assert undo_bulk(bulk_id=bulk_id, actor=olga) == replace(undone, replayed=True)
    run_bulk_step()
    assert outcomes(undone.bulk_id) == {DONE: 2, CHANGED: 1}
    assert world.task(tasks[0]).not_before == earlier
    assert world.task(tasks[2]).not_before is None
    assert world.task(tasks[1]).state == TaskState.CANCELLED
    event = Event.objects.filter(kind="BULK_STARTED").order_by("-id")[0]
    assert event.data["undoes"] == str(bulk_id)


def test_a_snooze_that_is_at_work_is_not_undone_before_it_was_stopped(
    olga: Actor, tasks: list[UUID]
) -> None:
    bulk_id = reviewed(olga, *tasks, verb=Verb.SNOOZE)
    for step in (None, 1):
        if step:
            start_bulk(bulk_id=bulk_id, reason=WHY, not_before=in_an_hour(), actor=olga)
            run_bulk_step(limit=step)
        refusal = undo_bulk(bulk_id=bulk_id, actor=olga)
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.STATE_VERSION_MISMATCH
    assert not BulkJob.objects.filter(undoes=bulk_id).exists()
    stop_bulk(bulk_id=bulk_id, reason=WHY, actor=olga)
    undone = undo_bulk(bulk_id=bulk_id, actor=olga)
    assert isinstance(undone, Started)
    while run_bulk_step():
        pass
    assert outcomes(undone.bulk_id) == {DONE: 1}
    assert {world.task(task_id).not_before for task_id in tasks} == {None}


def test_a_snooze_starts_with_a_time_and_nothing_else_does(olga: Actor, tasks: list[UUID]) -> None:
    snoozing, waking = (reviewed(olga, *tasks, verb=verb) for verb in (Verb.SNOOZE, Verb.CANCEL))
    without = start_bulk(bulk_id=snoozing, reason=WHY, actor=olga)
    past = start_bulk(bulk_id=snoozing, reason=WHY, not_before=read_clock(), actor=olga)
    needless = start_bulk(bulk_id=waking, reason=WHY, not_before=in_an_hour(), actor=olga)
    for refusal in (without, past, needless):
        assert isinstance(refusal, Refusal)
        assert refusal.outcome is Outcome.INVALID
        assert refusal.errors[0].pointer == "/not_before"
    assert not BulkJob.objects.filter(started_at__isnull=False).exists()


def test_a_bulk_wake_takes_only_what_waits_for_a_time(olga: Actor, tasks: list[UUID]) -> None:
    snooze(tasks[0], until=in_an_hour(), by=olga)
    bulk_id = reviewed(olga, *tasks, verb=Verb.WAKE)
    start_bulk(bulk_id=bulk_id, reason=WHY, actor=olga)
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 1, CANNOT: 3}
    assert world.task(tasks[0]).not_before is None
    refusal = undo_bulk(bulk_id=bulk_id, actor=olga)
    assert isinstance(refusal, Refusal)
    assert refusal.outcome is Outcome.ALREADY_SETTLED
    assert isinstance(undo_bulk(bulk_id=UUID(int=1), actor=olga), Refusal)


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("bulk_snooze_has_time", {"not_before": None}),
        ("bulk_snooze_has_time", {"verb": "wake"}),
    ],
)
def test_the_database_refuses_a_started_snooze_without_its_time(
    olga: Actor, tasks: list[UUID], constraint: str, change: dict[str, Any]
) -> None:
    bulk_id = reviewed(olga, *tasks, verb=Verb.SNOOZE)
    start_bulk(bulk_id=bulk_id, reason=WHY, not_before=in_an_hour(), actor=olga)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        BulkJob.objects.filter(pk=bulk_id).update(**change)


def test_the_database_refuses_a_second_undoing(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id, other = (reviewed(olga, *tasks, verb=Verb.WAKE) for _ in range(2))
    BulkJob.objects.filter(pk=bulk_id).update(undoes=tasks[0])
    with pytest.raises(IntegrityError, match="bulk_undone_once"), transaction.atomic():
        BulkJob.objects.filter(pk=other).update(undoes=tasks[0])
    assert BulkItem.objects.filter(job_id=other).exists()
