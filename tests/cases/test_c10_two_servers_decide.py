"""C10 — two servers decide the next step at once.

Children are rows from the submission on, and a commit releases them in its own transaction: there is no second step for
a sweep or another server to take. What is raced here is everything that could think it had to.
"""

from functools import partial
from typing import Any

import pytest
from django.db import DatabaseError, connection

from coordinator import tasks
from coordinator.models import Attempt, Event, Task
from coordinator.services.commits import Committed
from coordinator.services.runs import Submitted
from tests import world
from tests.history import nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

CHILDREN = 20


def fan() -> Submitted:
    return world.submit(node("P"), *(node(f"c{i}", "P", kind="child") for i in range(CHILDREN)))


def released() -> dict[Any, int]:
    found: dict[Any, int] = {}
    for task_id in Event.objects.filter(kind="UNBLOCKED").values_list("task_id", flat=True):
        found[task_id] = found.get(task_id, 0) + 1
    return found


def test_c10_a_hundred_times_twenty_children_are_released_once_each() -> None:
    worker = world.worker()
    for _ in range(100):
        run = fan()
        claim = world.claim_one(by=worker, of=world.task_id(run, "P"))
        commit = partial(world.try_commit, claim, by=worker)
        answers: list[Any] = at_once(commit, tasks.sweep, commit, tasks.settle_runs, commit)
        commits = [answer for answer in answers if isinstance(answer, Committed)]
        assert sorted(answer.replayed for answer in commits) == [False, True, True]
        assert all(len(answer.released) == CHILDREN for answer in commits)
    assert Task.objects.filter(kind="child").count() == 100 * CHILDREN
    assert len(released()) == 100 * CHILDREN
    assert set(released().values()) == {1}


def test_c10_4_twenty_workers_get_twenty_different_grants_and_the_next_one_nothing() -> None:
    worker = world.worker()
    run = fan()
    world.finish(world.task_id(run, "P"), by=worker)
    answers: list[Any] = at_once(*[partial(world.claim, by=worker)] * CHILDREN)
    granted = [claim for claims in answers for claim in claims]
    while len(granted) < CHILDREN:  # a claimant that only met locked rows came away empty
        granted += world.claim(by=worker)
    assert len({claim.fence.task_id for claim in granted}) == CHILDREN
    assert {claim.attempt_number for claim in granted} == {1}
    with nothing_moves():
        assert world.claim(by=worker) == []
    assert Attempt.objects.filter(task__kind="child").count() == CHILDREN


def test_c10_5_a_server_killed_between_the_commit_and_the_release_has_done_neither() -> None:
    worker = world.worker()
    run = fan()
    claim = world.claim_one(by=worker, of=world.task_id(run, "P"))
    last = max(task.task_id for task in run.tasks if task.node_id != "P")
    with nothing_moves():
        with world.holding_task(last) as holder:
            s1 = world.Rival(partial(world.try_commit, claim, by=worker))
            world.wait_until_blocked(s1.pid, by=holder.pid)  # it has P and 19 children
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s, 60_000)", [s1.pid])
            with pytest.raises(DatabaseError):
                s1.result()
    s2 = world.commit(claim, by=worker)
    assert not s2.replayed
    assert len(s2.released) == CHILDREN
    assert set(released().values()) == {1}
