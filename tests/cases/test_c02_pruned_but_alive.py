"""C02 — pruned but alive: the old run finishes later and gives the slot back twice."""

import pytest

from coordinator.models import Attempt, Event, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.leases import sweep
from tests import world
from tests.cases.moving_clock import advance
from tests.history import check, nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]


def slots_in_use() -> int:
    """Tasks that hold the key; the key's unique index bounds it by 1."""
    return Task.objects.filter(serial_held=True).count()


def test_c02_a_slot_is_given_back_once_by_whoever_holds_it() -> None:
    a, b, c = (world.worker(name=name) for name in "ABC")
    run = world.submit(
        *(node(name, serial_key="K", priority=-int(name[1])) for name in ("T1", "T2", "T3"))
    )
    first = world.claim_one(by=a, ttl_seconds=30)  # 1: t=0, and every renewal is lost
    assert first.node_id == "T1"
    advance(31)
    assert sweep() != {}  # 2
    (second,) = world.claim(by=b, ttl_seconds=30)
    assert (second.node_id, second.fence.claim_generation) == ("T1", 2)
    assert slots_in_use() == 1
    with nothing_moves():
        assert world.claim(by=c, ttl_seconds=30) == []  # 3
        for _ in range(11):  # 4
            answer = world.try_commit(first, by=a)
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.FENCED
        assert slots_in_use() == 1
        assert world.claim(by=c, ttl_seconds=30) == []  # 5
    world.commit(second, by=b)
    assert slots_in_use() == 0
    c_got, d_got = at_once(lambda: world.claim(by=c), lambda: world.claim(by=b))  # 6
    granted = c_got + d_got
    # Who is handed T2 may find the key taken by who was handed T3 in the same instant: no claim waits for another.
    assert [claim.node_id for claim in granted] in (["T2"], ["T3"])
    assert slots_in_use() == 1
    t1 = world.task_id(run, "T1")
    assert not Event.objects.filter(task_id=t1, kind="FAILED").exists()
    assert set(Attempt.objects.filter(task_id=t1).values_list("state", flat=True)) == {
        "FENCED",
        "COMMITTED",
    }


def test_c02_6_of_two_at_a_barrier_exactly_one_gets_the_free_slot() -> None:
    worker = world.worker()
    for turn in range(40):
        world.submit(node("T2", serial_key=f"K{turn}"), node("T3", serial_key=f"K{turn}"))
        first, second = at_once(lambda: world.claim(by=worker), lambda: world.claim(by=worker))
        assert len(first) + len(second) == 1
        check()
