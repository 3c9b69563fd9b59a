"""Bulk jobs: a frozen set, acted on once, whatever dies in between."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction

from coordinator.actors import Actor
from coordinator.clock import read_clock
from coordinator.models import BulkItem, BulkJob, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.console_bulks import list_bulks, read_bulk
from coordinator.selectors.task_filters import TaskFilter
from coordinator.services import bulk_steps, bulks
from coordinator.services.bulk_steps import CHANGED, run_bulk_step
from coordinator.services.bulks import (
    CANNOT,
    DONE,
    STOPPED,
    Reviewed,
    Started,
    Stopped,
    Verb,
    review_bulk,
    start_bulk,
    stop_bulk,
)
from coordinator.services.cancels import cancel_task
from coordinator.services.snoozes import snooze_task
from coordinator.states import TaskState
from tests import world
from tests.console.scene import any_time, person

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "The upload was a mistake."


@pytest.fixture
def olga() -> Actor:
    user = person("olga", "operator")
    return replace(world.operator(name="olga"), id=user.pk, address="10.0.0.1")


@pytest.fixture
def tasks() -> list[UUID]:
    world.queue()
    run = world.submit(*(world.node(f"n{number}") for number in range(4)))
    return [task.task_id for task in run.tasks]


def reviewed(actor: Actor, *task_ids: UUID, verb: Verb = Verb.CANCEL, **more: Any) -> UUID:
    answer = review_bulk(verb=verb, task_ids=task_ids, actor=actor, **({"wanted": None} | more))
    assert isinstance(answer, Reviewed), answer
    return answer.bulk_id


def started(actor: Actor, *task_ids: UUID, **more: Any) -> UUID:
    bulk_id = reviewed(actor, *task_ids, **more)
    assert isinstance(start_bulk(bulk_id=bulk_id, reason=WHY, actor=actor), Started)
    return bulk_id


def outcomes(bulk_id: UUID) -> dict[str, int]:
    found = read_bulk(bulk_id)
    assert found is not None
    return dict(found.counts)


def test_a_review_changes_nothing(olga: Actor, tasks: list[UUID]) -> None:
    before = world.fingerprint()
    bulk_id = reviewed(olga, *tasks)
    assert run_bulk_step() == 0
    assert world.fingerprint() == before
    found = read_bulk(bulk_id)
    assert found is not None
    assert (found.facts.state, found.waiting) == ("REVIEWED", 4)


def test_each_task_has_its_outcome_and_its_own_event(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    assert run_bulk_step() == 4
    assert outcomes(bulk_id) == {DONE: 4}
    assert {world.task(task_id).state for task_id in tasks} == {TaskState.CANCELLED}
    told = Event.objects.filter(kind="CANCELLED")
    assert {(row.actor, row.request_id, row.data["reason"]) for row in told} == {
        ("operator:olga", f"bulk:{bulk_id}", WHY)
    }
    assert Event.objects.get(kind="BULK_STARTED").data["tasks"] == 4
    assert Event.objects.get(kind="BULK_FINISHED").data["outcomes"] == {DONE: 4}
    assert run_bulk_step() == 0
    assert Event.objects.filter(kind="BULK_FINISHED").count() == 1


def test_a_task_that_comes_to_match_after_the_review_is_not_acted_on(
    olga: Actor, tasks: list[UUID]
) -> None:
    bulk_id = started(olga, wanted=TaskFilter(state=TaskState.READY))
    late = world.submit(world.node("late")).tasks[0].task_id
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 4}
    assert world.task(late).state == TaskState.READY


def test_what_changed_since_the_review_is_left_alone(olga: Actor, tasks: list[UUID]) -> None:
    fleet = world.worker()
    bulk_id = reviewed(olga, *tasks)
    claim = world.claim_one(by=fleet, of=tasks[0])
    start_bulk(bulk_id=bulk_id, reason=WHY, actor=olga)
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 3, CHANGED: 1}
    assert world.task(tasks[0]).state == TaskState.CLAIMED
    world.commit(claim, by=fleet)


def test_what_can_not_be_acted_on_is_listed_apart(olga: Actor, tasks: list[UUID]) -> None:
    world.finish(tasks[0], by=world.worker())
    cancel_task(task_id=tasks[1], reason=WHY, actor=olga)
    bulk_id = started(olga, *tasks)
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 2, CANNOT: 2}
    back = started(olga, *tasks, verb=Verb.REOPEN)
    run_bulk_step()
    assert outcomes(back) == {DONE: 3, CANNOT: 1}
    assert world.task(tasks[1]).state == TaskState.READY


def test_steps_are_bounded_and_follow_each_other(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    assert [run_bulk_step(limit=3) for _ in range(3)] == [3, 1, 0]
    assert outcomes(bulk_id) == {DONE: 4}


@pytest.mark.parametrize("verb", list(Verb))
def test_a_step_that_died_before_it_could_say_so_acts_once(
    olga: Actor, tasks: list[UUID], monkeypatch: pytest.MonkeyPatch, verb: Verb
) -> None:
    if verb is Verb.REOPEN:
        for task_id in tasks:
            cancel_task(task_id=task_id, reason=WHY, actor=olga)
    later = read_clock() + timedelta(hours=1)
    if verb is Verb.WAKE:
        for task_id in tasks:
            snooze_task(
                task_id=task_id, expected_state_version=1, not_before=later, reason=WHY, actor=olga
            )
    bulk_id = reviewed(olga, *tasks, verb=verb)
    until = later if verb is Verb.SNOOZE else None
    start_bulk(bulk_id=bulk_id, reason=WHY, actor=olga, not_before=until)

    def dies(*_told: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bulk_steps, "_note", dies)
        with pytest.raises(KeyboardInterrupt):
            run_bulk_step()
    versions = {task_id: world.task(task_id).state_version for task_id in tasks}
    assert run_bulk_step() == 0  # taken, and nobody else takes them for a minute
    with any_time() as cursor:
        cursor.execute("UPDATE coordinator_bulkitem SET taken_at = taken_at - interval '2 minutes'")
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 4}
    acted = [task_id for task_id in tasks if world.task(task_id).state_version != versions[task_id]]
    assert len(acted) == 3  # the first one was done before the step died
    told = Event.objects.filter(task_id__in=tasks, request_id=f"bulk:{bulk_id}", refusal_key=None)
    assert told.count() == 4


def test_two_steps_at_once_share_the_items(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    with world.holding(
        "SELECT id FROM coordinator_bulkitem ORDER BY id LIMIT 2 FOR UPDATE"
    ) as holder:
        assert run_bulk_step() == 2
        holder.release()
    assert run_bulk_step() == 2
    assert outcomes(bulk_id) == {DONE: 4}


def test_starting_twice_starts_once(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    again = start_bulk(bulk_id=bulk_id, reason="Another reason.", actor=olga)
    assert isinstance(again, Started)
    assert again.replayed
    assert BulkJob.objects.get().reason == WHY
    assert Event.objects.filter(kind="BULK_STARTED").count() == 1


def test_only_who_reviewed_it_starts_it(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = reviewed(olga, *tasks)
    bob = replace(olga, name="bob", id=olga.id + 1)
    answer = start_bulk(bulk_id=bulk_id, reason=WHY, actor=bob)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.FORBIDDEN
    assert BulkJob.objects.get().started_at is None


def test_an_old_review_has_to_be_made_anew(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = reviewed(olga, *tasks)
    with any_time() as cursor:
        cursor.execute("UPDATE coordinator_bulkjob SET reviewed_at = now() - interval '61 minutes'")
    answer = start_bulk(bulk_id=bulk_id, reason=WHY, actor=olga)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.STATE_VERSION_MISMATCH


def test_a_set_in_which_nothing_can_be_done_is_not_started(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = reviewed(olga, *tasks, verb=Verb.REOPEN)
    answer = start_bulk(bulk_id=bulk_id, reason=WHY, actor=olga)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.ALREADY_SETTLED


@pytest.mark.parametrize("wanted", [None, TaskFilter(owner="nobody")])
def test_an_empty_set_is_no_review(olga: Actor, tasks: list[UUID], wanted: Any) -> None:
    answer = review_bulk(verb=Verb.CANCEL, wanted=wanted, actor=olga)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.INVALID
    assert not BulkJob.objects.exists()


def test_a_set_has_a_most_and_says_that_there_is_more(
    olga: Actor, tasks: list[UUID], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulks, "MAX_TASKS", 3)
    found = read_bulk(reviewed(olga, wanted=TaskFilter()))
    assert found is not None
    assert (found.total, found.facts.more) == (3, True)
    exact = read_bulk(reviewed(olga, *tasks[:3]))
    assert exact is not None
    assert not exact.facts.more


def test_a_stopped_job_leaves_the_rest_alone(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    run_bulk_step(limit=1)
    assert stop_bulk(bulk_id=bulk_id, reason=WHY, actor=olga) == Stopped(bulk_id, 3)
    run_bulk_step()
    assert outcomes(bulk_id) == {DONE: 1, STOPPED: 3}
    found = read_bulk(bulk_id)
    assert found is not None
    assert found.facts.state == "STOPPED"
    assert isinstance(stop_bulk(bulk_id=bulk_id, reason=WHY, actor=olga), Refusal)
    assert list_bulks()[0][1:] == (4, 4)


def test_who_lost_the_permission_does_nothing_more(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = started(olga, *tasks)
    User.objects.get(username="olga").groups.set([Group.objects.get(name="viewer")])
    run_bulk_step()
    assert outcomes(bulk_id) == {"FORBIDDEN": 4}
    assert {world.task(task_id).state for task_id in tasks} == {TaskState.READY}


@pytest.mark.parametrize(
    ("constraint", "change"),
    [
        ("bulk_verb", {"verb": "approve"}),
        ("bulk_started_with_reason", {"reason": None}),
        ("bulk_finished_after_start", {"started_at": None, "finished_at": "2026-01-01T00:00Z"}),
    ],
)
def test_the_database_refuses_a_job_that_makes_no_sense(
    olga: Actor, tasks: list[UUID], constraint: str, change: dict[str, Any]
) -> None:
    bulk_id = started(olga, *tasks)
    with pytest.raises(IntegrityError, match=constraint), transaction.atomic():
        BulkJob.objects.filter(pk=bulk_id).update(**change)


def test_a_task_is_in_a_set_once(olga: Actor, tasks: list[UUID]) -> None:
    bulk_id = reviewed(olga, *tasks, *tasks)
    assert BulkItem.objects.filter(job_id=bulk_id).count() == 4
    with pytest.raises(IntegrityError, match="bulk_item_once"), transaction.atomic():
        BulkItem.objects.filter(job_id=bulk_id).update(task_id=tasks[0])


def test_the_background_takes_a_started_job_further(olga: Actor, tasks: list[UUID]) -> None:
    from coordinator.tasks import run_bulk_jobs

    bulk_id = started(olga, *tasks)
    assert run_bulk_jobs() == 4
    assert outcomes(bulk_id) == {DONE: 4}
