"""Single calls that arrive at once: heard as one batch, each answered, judged and told of by itself."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import connection, connections

from coordinator.actors import Worker
from coordinator.gathering import MAX_GATHERED, MAX_LANES, Gathering
from coordinator.models import Event, Queue, Task
from coordinator.outcomes import Outcome
from coordinator.services import together
from coordinator.services.answers import RequestKey
from coordinator.services.claims import claim_tasks
from coordinator.services.commits import CommitItem, Committed
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, Renewed
from tests import world
from tests.counted import alone, connections_in_use
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)


class Sender:
    """Answers each number with its double; stands still where it is told to."""

    def __init__(self) -> None:
        self.batches: list[list[int]] = []
        self.goes = threading.Event()
        self.entered = threading.Semaphore(0)
        self.stands_at: set[int] = set()
        self.fails_at: set[int] = set()

    def __call__(self, items: Sequence[int]) -> Sequence[int]:
        self.batches.append(list(items))
        self.entered.release()
        if self.stands_at & set(items):
            assert self.goes.wait(60)
        if self.fails_at & set(items):
            raise ValueError(f"no {sorted(self.fails_at & set(items))}")
        return [2 * item for item in items]


class Crowd:
    def __init__(self, sender: Sender) -> None:
        self.gathering: Gathering[int, int] = Gathering()
        self.sender = sender
        self._pool = ThreadPoolExecutor(2 * MAX_GATHERED)

    def ask(self, number: int, key: str = "k") -> Future[int]:
        return self._pool.submit(self.gathering.ask, key, number, self.sender)

    def until_waiting(self, count: int) -> None:
        pause = threading.Event()
        while sum(len(line.waiting) for line in self.gathering._lines.values()) < count:
            pause.wait(0.001)

    def close(self) -> None:
        self.sender.goes.set()
        self._pool.shutdown()


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Crowd]:
    monkeypatch.setattr("coordinator.gathering.PATIENCE_SECONDS", 3600)
    made = Crowd(Sender())
    yield made
    made.close()


def test_a_call_that_meets_nobody_is_sent_at_once_and_alone(crowd: Crowd) -> None:
    assert [crowd.ask(number).result(60) for number in (1, 2, 3)] == [2, 4, 6]
    assert crowd.sender.batches == [[1], [2], [3]]
    assert crowd.gathering._lines == {}


def test_what_arrives_meanwhile_goes_together_and_each_has_its_own_answer(crowd: Crowd) -> None:
    crowd.sender.stands_at = {0}
    first = crowd.ask(0)
    crowd.sender.entered.acquire()
    rest = []
    for number in range(1, 8):
        rest.append(crowd.ask(number))
        crowd.until_waiting(number)
    crowd.sender.goes.set()
    assert first.result(60) == 0
    assert [each.result(60) for each in rest] == [2 * number for number in range(1, 8)]
    assert crowd.sender.batches == [[0], list(range(1, 8))]


def test_a_batch_has_its_most_and_the_rest_goes_with_the_next(crowd: Crowd) -> None:
    crowd.sender.stands_at = {0}
    asked = [crowd.ask(0)]
    crowd.sender.entered.acquire()
    asked += [crowd.ask(number) for number in range(1, MAX_GATHERED + 11)]
    crowd.until_waiting(MAX_GATHERED + 10)
    crowd.sender.goes.set()
    assert [each.result(60) for each in asked] == [2 * n for n in range(MAX_GATHERED + 11)]
    assert [len(batch) for batch in crowd.sender.batches] == [1, MAX_GATHERED, 10]


def test_calls_of_another_key_neither_wait_nor_go_along(crowd: Crowd) -> None:
    crowd.sender.stands_at = {0}
    held = crowd.ask(0)
    crowd.sender.entered.acquire()
    assert crowd.ask(1, key="another").result(60) == 2
    assert not held.done()


def test_one_bad_call_of_a_batch_fails_alone(crowd: Crowd) -> None:
    crowd.sender.stands_at, crowd.sender.fails_at = {0}, {2}
    first = crowd.ask(0)
    crowd.sender.entered.acquire()
    rest = []
    for number in (1, 2, 3):
        rest.append(crowd.ask(number))
        crowd.until_waiting(number)
    crowd.sender.goes.set()
    assert first.result(60) == 0
    assert (rest[0].result(60), rest[2].result(60)) == (2, 6)
    with pytest.raises(ValueError, match=r"no \[2\]"):
        rest[1].result(60)
    assert sorted(crowd.sender.batches[2:]) == [[1], [2], [3]]
    assert crowd.ask(5).result(60) == 10, "the lane is free again"


def test_whoever_waits_too_long_behind_a_stuck_batch_opens_a_lane(
    crowd: Crowd, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.gathering.PATIENCE_SECONDS", 0.01)
    crowd.sender.stands_at = {0}
    stuck = crowd.ask(0)
    crowd.sender.entered.acquire()
    assert crowd.ask(1).result(60) == 2
    assert not stuck.done()


def test_there_are_so_many_lanes_at_most(crowd: Crowd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gathering.PATIENCE_SECONDS", 0.01)
    crowd.sender.stands_at = set(range(10))
    asked = []
    for number in range(MAX_LANES):
        asked.append(crowd.ask(number))
        crowd.sender.entered.acquire()
    asked.append(crowd.ask(9))
    assert not crowd.sender.entered.acquire(timeout=0.2)
    crowd.sender.goes.set()
    assert [each.result(60) for each in asked] == [0, 2, 4, 6, 18]
    assert crowd.gathering._lines == {}


# --- real calls -----------------------------------------------------------------------------------

CALLS = 6


@pytest.fixture
def queue(transactional_db: None) -> Queue:
    return world.queue()


def pile_up(
    queue: Queue,
    gathering: Any,
    calls: Sequence[Callable[[], Any]],
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> list[Any]:
    """The first call stands at the queue's gate, as behind a bump, until all others wait behind it."""

    def run(call: Callable[[], Any]) -> Any:
        try:
            return call()
        finally:
            connections.close_all()

    with (
        ThreadPoolExecutor(len(calls)) as pool,
        world.holding("SELECT pg_advisory_xact_lock(1, %s)", [queue.pk]) as gate,
    ):
        asked = []
        for index, call in enumerate(calls):
            asked.append(pool.submit(run, call))
            wait_for(partial(_has_piled_up, gathering, index))
        meanwhile()
        gate.release()
        return [each.result(60) for each in asked]


def wait_for(condition: Callable[[], object]) -> None:
    pause = threading.Event()
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it never came to that"
        pause.wait(0.001)


def _has_piled_up(gathering: Any, count: int) -> bool:
    return bool(gathering._lines) and waiting(gathering) == count


def waiting(gathering: Any) -> int:
    return sum(len(line.waiting) for line in gathering._lines.values())


def sent_by(number: int, worker: Worker) -> Worker:
    """The same credential, in a request of its own."""
    return replace(worker, request_id=f"request-{number:04}", address=f"10.0.0.{number}")


def told(kind: str) -> list[tuple[str, str, int]]:
    """Request, address and transaction of the events of this kind, in order."""
    rows = Event.objects.filter(kind=kind).order_by("id")
    return [(row.request_id, row.data["address"], row.xid) for row in rows]


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.gathering.PATIENCE_SECONDS", 3600)


def claimed(count: int, worker: Worker) -> list[Claim]:
    world.submit(*(node(f"n{number}") for number in range(count)))
    return world.claim(by=worker, limit=count)


def commit_of(claim: Claim, worker: Worker, **changes: Any) -> Callable[[], Any]:
    fence = replace(claim.fence, **changes)
    item = CommitItem(claim.fence.attempt_id, fence, claim.input_digest, result={"ok": True})
    return lambda: together.commit_result(item, worker=worker)


@pytest.mark.usefixtures("patient", "history_holds")
def test_commits_that_arrive_at_once_are_one_transaction_and_each_names_its_request(
    queue: Queue,
) -> None:
    worker = world.worker()
    claims = claimed(CALLS, worker)
    calls = [commit_of(claim, sent_by(n, worker)) for n, claim in enumerate(claims)]
    answers = pile_up(queue, together._COMMITS, calls)
    assert all(isinstance(answer, Committed) for answer in answers)
    events = told("COMMITTED")
    assert [event[:2] for event in events] == [
        (f"request-{n:04}", f"10.0.0.{n}") for n in range(CALLS)
    ]
    assert len({xid for *_, xid in events}) == 2, "the first alone, the others together"


@pytest.mark.usefixtures("patient", "history_holds")
def test_one_late_commit_among_others_is_refused_alone_and_each_repeat_is_counted(
    queue: Queue,
) -> None:
    worker = world.worker()
    claims = claimed(3, worker)
    late = [commit_of(claims[1], sent_by(n, worker), claim_generation=9) for n in (1, 2, 3)]
    calls = [commit_of(claims[0], worker), *late, commit_of(claims[2], sent_by(5, worker))]
    answers = pile_up(queue, together._COMMITS, calls)
    outcomes = [answer.outcome for answer in answers]
    assert outcomes == ["COMMITTED", *[Outcome.FENCED] * 3, "COMMITTED"]
    (refusal,) = Event.objects.filter(kind="REFUSED")
    assert refusal.repeats == 2
    assert world.task(claims[1].fence.task_id).state == "CLAIMED"


@pytest.mark.usefixtures("patient", "history_holds")
def test_the_same_commit_twice_at_once_is_one_commit_and_its_repeat(queue: Queue) -> None:
    worker = world.worker()
    first, second = claimed(2, worker)
    calls = [commit_of(first, worker), *[commit_of(second, sent_by(n, worker)) for n in (1, 2)]]
    _, one, other = pile_up(queue, together._COMMITS, calls)
    assert one.result_commit_id == other.result_commit_id
    assert (one.replayed, other.replayed) == (False, True)


@pytest.mark.usefixtures("patient", "history_holds")
def test_renewals_that_arrive_at_once_are_each_judged(queue: Queue) -> None:
    worker = world.worker()
    claims = claimed(CALLS, worker)

    def renewal_of(claim: Claim, by: Worker, owner: str) -> Callable[[], Any]:
        item = Renewal(claim.fence.attempt_id, claim.fence, owner)
        return lambda: together.renew_lease(item, worker=by)

    calls = [
        renewal_of(claim, sent_by(n, worker), claim.owner if n != 3 else "another")
        for n, claim in enumerate(claims)
    ]
    answers = pile_up(queue, together._RENEWALS, calls)
    assert [isinstance(answer, Renewed) for answer in answers] == [n != 3 for n in range(CALLS)]
    assert [event[:2] for event in told("REFUSED")] == [("request-0003", "10.0.0.3")]


def claim_of(number: int, worker: Worker, **changes: Any) -> Callable[[], Any]:
    asked: dict[str, Any] = {
        "queue": "q",
        "worker": sent_by(number, worker),
        "scheduler_epoch": 1,
        "owner": f"w{number}",
        "request": RequestKey(f"scope-{number}", "the-key", "body"),
        "together": together.CLAIMS,
    } | changes
    return lambda: claim_tasks(**asked)


@pytest.mark.usefixtures("patient", "history_holds")
def test_claims_that_arrive_at_once_are_one_transaction_and_each_gets_its_own(
    queue: Queue,
) -> None:
    world.submit(*(node(f"n{number}") for number in range(CALLS)))
    worker = world.worker()
    calls = [claim_of(number, worker) for number in range(CALLS)]
    answers = pile_up(queue, together.CLAIMS, calls)
    claims = [answer.claims[0] for answer in answers]
    assert len({claim.fence.task_id for claim in claims}) == CALLS
    assert [claim.owner for claim in claims] == [f"w{number}" for number in range(CALLS)]
    rows = {claim.owner: world.task(claim.fence.task_id) for claim in claims}
    assert all(row.owner == owner for owner, row in rows.items())
    events = told("CLAIMED")
    assert [event[:2] for event in events] == [
        (f"request-{n:04}", f"10.0.0.{n}") for n in range(CALLS)
    ]
    assert len({xid for *_, xid in events}) == 2
    again = [call() for call in calls]
    assert all(answer.replayed for answer in again)
    assert [answer.claims[0].fence for answer in again] == [claim.fence for claim in claims]


@pytest.mark.usefixtures("patient", "history_holds")
def test_where_there_are_fewer_tasks_than_claims_the_others_get_none(queue: Queue) -> None:
    world.submit(node("a"), node("b"), node("c"))
    worker = world.worker()
    calls = [claim_of(number, worker) for number in range(CALLS)]
    answers = pile_up(queue, together.CLAIMS, calls)
    assert [len(answer.claims) for answer in answers] == [1, 1, 1, 0, 0, 0]
    world.submit(node("d"))
    assert len(calls[-1]().claims) == 1, "an empty answer is not kept under the key"


@pytest.mark.usefixtures("patient", "history_holds")
def test_a_claim_and_its_repeat_at_once_are_one_grant(queue: Queue) -> None:
    world.submit(*(node(f"n{number}") for number in range(4)))
    worker = world.worker()
    twice = {"owner": "w", "request": RequestKey("scope", "the-key", "body")}
    calls = [claim_of(0, worker), claim_of(1, worker, **twice), claim_of(2, worker, **twice)]
    _, one, other = pile_up(queue, together.CLAIMS, calls)
    assert {one.replayed, other.replayed} == {False, True}
    assert one.claims[0].fence == other.claims[0].fence
    assert Task.objects.filter(state="CLAIMED").count() == 2


@pytest.mark.usefixtures("patient", "history_holds")
def test_what_must_be_refused_is_refused_to_each_and_on_record_for_each(queue: Queue) -> None:
    world.submit(*(node(f"n{number}") for number in range(CALLS)))
    worker = world.worker()
    Queue.objects.update(intake="STOPPED")
    calls = [claim_of(number, worker) for number in range(CALLS)]
    answers = pile_up(queue, together.CLAIMS, calls)
    assert [answer.outcome for answer in answers] == [Outcome.INTAKE_STOPPED] * CALLS
    (refusal,) = Event.objects.filter(kind="REFUSED")
    assert refusal.repeats == CALLS - 1
    assert not Task.objects.filter(state="CLAIMED").exists()


def test_only_what_differs_in_nothing_but_its_sender_goes_together() -> None:
    worker = world.worker()
    other = replace(worker, id=worker.id + 1)
    narrow = replace(worker, queues=frozenset({"q", "r"}))
    keys = {
        together._credential(sent_by(n, each)) for n in (1, 2) for each in (worker, other, narrow)
    }
    assert len(keys) == 3


@pytest.mark.usefixtures("patient")
def test_who_waits_for_a_batch_leaves_its_connection_to_others(queue: Queue) -> None:
    """Else those that wait hold all of the pool, and whoever is to send their batch gets none."""
    worker = world.worker()
    claims = claimed(CALLS, worker)

    def after_a_look_up(call: Callable[[], Any]) -> Any:
        connection.ensure_connection()
        return call()

    alone()  # no earlier test's thread holds one
    answers = pile_up(
        queue,
        together._COMMITS,
        [partial(after_a_look_up, commit_of(claim, worker)) for claim in claims],
        meanwhile=lambda: wait_for(lambda: connections_in_use() == 2),  # ours, and the sender's
    )
    assert all(isinstance(answer, Committed) for answer in answers)
