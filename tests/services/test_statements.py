"""What a call costs: a fixed number of statements and round trips, whatever the size of its batch (contract 7)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import OperationalError, connection

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Event, Queue
from coordinator.outcomes import Refusal
from coordinator.rounds import sent
from coordinator.services import transactions
from coordinator.services.answers import RequestKey
from coordinator.services.claims import Claimed, claim_tasks
from coordinator.services.commits import commit_results
from coordinator.services.epochs import bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases, sweep
from coordinator.services.memory import MemoryWrite
from coordinator.services.usage import Usage
from tests import world
from tests.races.crowd import at_once
from tests.world import commit_item, node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

SIZES = (1, 7, 60)


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


@contextmanager
def counting() -> Iterator[list[list[str]]]:
    """The statements that are sent inside, by round trip."""
    rounds: list[list[str]] = []
    token = sent.set(rounds)
    try:
        yield rounds
    finally:
        sent.reset(token)


def cost(call: Callable[[], Any]) -> list[int]:
    with counting() as rounds:
        call()
    return [len(statements) for statements in rounds]


def claims(count: int, *, by: Worker, **fields: Any) -> list[Claim]:
    world.submit(*(node(f"n{i}", **fields) for i in range(count)))
    got = world.claim(by=by, limit=count)
    assert len(got) == count
    return got


def test_a_claim_costs_the_same_for_one_and_for_many(worker: Worker) -> None:
    costs = []
    for size in SIZES:
        world.submit(*(node(f"n{i}") for i in range(size)))
        costs.append(cost(partial(world.claim, by=worker, limit=size)))
    assert costs[0] == costs[1] == costs[2]
    assert len(costs[0]) <= 4


def test_a_claim_of_lapsed_serial_tasks_costs_the_same_for_one_and_for_many(worker: Worker) -> None:
    costs = []
    for size in SIZES:
        world.submit(*(node(f"n{i}", serial_key=f"{size}-{i}") for i in range(size)))
        for claim in world.claim(by=worker, limit=size):
            world.lapse(claim.fence.task_id)
        sweep()
        costs.append(cost(partial(world.claim, by=worker, limit=size)))
    assert costs[0] == costs[1] == costs[2]
    assert len(costs[0]) <= 5  # one more: the keys


def test_renewals_cost_the_same_for_one_and_for_many(worker: Worker) -> None:
    costs = []
    for size in SIZES:
        items = [
            Renewal(c.fence.attempt_id, c.fence, c.owner, usage=Usage(input_tokens=1))
            for c in claims(size, by=worker)
        ]
        costs.append(cost(partial(renew_leases, items=items, worker=worker)))
    assert costs[0] == costs[1] == costs[2]
    assert len(costs[0]) == 2


def test_commits_cost_the_same_for_one_and_for_many_with_children_memory_and_usage(
    worker: Worker,
) -> None:
    costs = []
    for size in SIZES:
        world.submit(
            *(node(f"n{i}") for i in range(size)),
            *(node(f"c{i}", f"n{i}", kind="after") for i in range(size)),
            node("end", *(f"n{i}" for i in range(size)), kind="after"),
        )
        items = [
            replace(
                commit_item(claim),
                memory=(_write(f"{size}-{claim.node_id}"),),
                usage=Usage(output_tokens=1),
            )
            for claim in world.claim(by=worker, limit=size, kinds=["step"])
        ]
        costs.append(cost(partial(commit_results, items=items, worker=worker)))
    assert costs[0] == costs[1] == costs[2]
    assert len(costs[0]) == 2


def _write(key: str) -> MemoryWrite:
    return MemoryWrite("m", key, 0, "1", digests.sha256(b"1"))


def test_refusals_cost_the_same_for_one_and_for_many(worker: Worker) -> None:
    costs = []
    for size in SIZES:
        old = claims(size, by=worker)
        with world.guarded(), connection.cursor() as cursor:
            for table in ("task", "attempt"):
                cursor.execute(
                    f"UPDATE coordinator_{table} SET lease_expires_at = clock_timestamp() WHERE attempt_id = ANY(%s)",
                    [[claim.fence.attempt_id for claim in old]],
                )
        assert len(world.claim(by=worker, limit=size)) == size
        items = [commit_item(claim) for claim in old]
        costs.append(cost(partial(commit_results, items=items, worker=worker)))
        assert Event.objects.filter(kind="REFUSED").count() == sum(SIZES[: len(costs)])
    assert costs[0] == costs[1] == costs[2]


def test_a_bump_and_a_sweep_cost_the_same_for_one_and_for_many(worker: Worker) -> None:
    bumps, sweeps = [], []
    for epoch, size in enumerate(SIZES, 1):
        for claim in claims(size, by=worker):
            world.lapse(claim.fence.task_id)
        sweeps.append(cost(sweep))
        bumps.append(
            cost(
                partial(
                    bump_epoch, queue="q", expected_epoch=epoch, reason="x", actor=world.operator()
                )
            )
        )
        for claim in world.claim(by=worker, limit=100):
            world.commit(claim, by=worker)
    assert bumps[0] == bumps[1] == bumps[2]
    assert sweeps[0] == sweeps[1] == sweeps[2]
    assert len(sweeps[0]) == 1


def test_the_gate_comes_first_and_the_clock_last_in_every_locking_round(worker: Worker) -> None:
    (claim,) = claims(1, by=worker)
    with counting() as rounds:
        world.commit(claim, by=worker)
    locking = rounds[0]
    assert "set_config" in locking[0]
    assert "pg_advisory_xact_lock_shared" in locking[1]
    assert "pg_advisory_xact_lock_shared" in locking[2]
    assert "FOR UPDATE" in locking[3]
    assert locking[3].index("ORDER BY") < locking[3].index("FOR UPDATE")
    assert "scheduler_epoch" in locking[4]
    assert locking[-1] == "SELECT clock_timestamp()"


# --- transient conflicts --------------------------------------------------------------------------


def test_a_lock_that_is_not_had_in_time_is_tried_again_with_the_same_request(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first try gives up at `lock_timeout`; a later one of the same call is granted, once."""
    world.submit()
    (queue_id,) = Queue.objects.values_list("id", flat=True)
    tries = _count_pauses(monkeypatch)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '50ms'")
    try:
        with world.holding("SELECT pg_advisory_xact_lock(1, %s)", [queue_id]) as holder:
            tries.append(lambda: holder.release() if len(tries.pauses) == 2 else None)
            answer = claim_tasks(
                queue="q",
                worker=worker,
                scheduler_epoch=1,
                owner="me",
                request=RequestKey("fleet-1", "k", "body"),
            )
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert isinstance(answer, Claimed)
    assert len(answer.claims) == 1
    assert len(tries.pauses) == 2
    assert answer.claims[0].fence.claim_generation == 1


class _Pauses:
    """The pauses between tries, and what is to happen in one."""

    def __init__(self) -> None:
        self.pauses: list[float] = []
        self._then: list[Callable[[], Any]] = []

    def append(self, then: Callable[[], Any]) -> None:
        self._then.append(then)

    def __call__(self, seconds: float) -> None:
        self.pauses.append(seconds)
        for then in self._then:
            then()


def _count_pauses(monkeypatch: pytest.MonkeyPatch) -> _Pauses:
    pauses = _Pauses()
    monkeypatch.setattr(transactions, "time", SimpleNamespace(sleep=pauses))
    return pauses


def test_a_call_that_never_gets_its_lock_gives_up_after_a_bounded_number_of_tries(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims(1, by=worker)
    pauses = _count_pauses(monkeypatch)
    (queue_id,) = Queue.objects.values_list("id", flat=True)
    with connection.cursor() as cursor:
        cursor.execute("SET lock_timeout = '20ms'")
    try:
        with world.holding("SELECT pg_advisory_xact_lock(1, %s)", [queue_id]):
            with pytest.raises(OperationalError, match="lock timeout"):
                claim_tasks(queue="q", worker=worker, scheduler_epoch=1, owner="me")
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET lock_timeout")
    assert len(pauses.pauses) == transactions.MAX_TRIES - 1
    assert pauses.pauses == sorted(pauses.pauses)


def _patiently(call: Callable[[], Any]) -> Any:
    """With no limit of its own to how long a statement may take."""
    limits = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")
    with connection.cursor() as cursor:
        cursor.execute("; ".join(f"SET {limit} = 0" for limit in limits))
        try:
            return call()
        finally:
            cursor.execute("; ".join(f"RESET {limit}" for limit in limits))


def test_a_deadlock_victim_is_tried_again_and_both_get_through(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A foreign transaction locks two rows against the order of ours. PostgreSQL ends ours; ours commits all the same.

    Who closes the circle notices it, a second later. A third one keeps ours from closing it before the foreign
    one stands in it: what looks too early finds no circle, and doesn't look again. Ours pauses until the foreign one
    has taken what ours gave up: else it may take it again before the foreign one has woken.
    """
    low, middle, high = sorted(claims(3, by=worker), key=lambda claim: claim.fence.task_id)
    lock = "SELECT 1 FROM coordinator_task WHERE task_id = %s FOR UPDATE"
    with (
        world.holding(lock, [high.fence.task_id]) as foreign,
        world.holding(lock, [middle.fence.task_id]) as third,
    ):
        foreign.execute("SET deadlock_timeout = '60s'")
        tries, taken = _count_pauses(monkeypatch), threading.Event()
        tries.append(lambda: taken.wait(60))
        items = [commit_item(each) for each in (low, middle, high)]
        ours = world.Rival(partial(_patiently, partial(commit_results, items=items, worker=worker)))
        world.wait_until_blocked(ours.pid, by=third.pid)
        theirs = world.Rival(partial(foreign.execute, lock, [low.fence.task_id]))
        world.wait_until_blocked(foreign.pid, by=ours.pid)
        third.release()  # ours goes on to the last row, and waits for whom waits for it
        theirs.result()
        taken.set()
        foreign.release()
        answers = ours.result()
    assert [str(answer.outcome) for answer in answers] == ["COMMITTED"] * 3
    assert len(tries.pauses) == 1


def test_batches_in_opposite_orders_all_get_through(worker: Worker) -> None:
    held = claims(30, by=worker)
    items = [Renewal(c.fence.attempt_id, c.fence, c.owner, 60) for c in held]
    forth = partial(renew_leases, items=items, worker=worker)
    back = partial(renew_leases, items=list(reversed(items)), worker=worker)
    for answers in at_once(forth, back, forth, back, forth, back):
        assert not [answer for answer in answers if isinstance(answer, Refusal)]
