"""Hints wake idle workers, bounded and without a connection; losing them all loses no work (contract 4, 7)."""

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import connection
from psycopg.conninfo import conninfo_to_dict

from coordinator import tasks
from coordinator.actors import Worker
from coordinator.models import Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services import hints
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import release_attempt
from coordinator.services.epochs import bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.hints import Hint, wait_for_work
from coordinator.services.runs import Submitted
from tests import world
from tests.counted import alone, connections_in_use
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

#: Longer than any test waits, however busy its machine: whoever answers earlier was woken.
LONG = 300


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


#: The listener looks by itself now and then; so rarely that only calls count, or at every turn.
RARELY, OFTEN = 3600.0, 0.02


@pytest.fixture(autouse=True)
def looks(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A listener of its own for each test, that only calls wake; it has ended before the next one starts."""
    monkeypatch.setattr(hints, "LOOK_SECONDS", RARELY)
    monkeypatch.setattr(hints, "MAX_WAIT_SECONDS", LONG)
    yield
    until(lambda: not hints._board.waiting, "the waiting requests to be gone")
    monkeypatch.setattr(hints, "LOOK_SECONDS", OFTEN)
    monkeypatch.setattr(hints._Listener, "idle_seconds", 0.0)
    monkeypatch.setattr(hints, "CHANNEL", CHANNEL)
    thread = hints._listener._thread
    if thread is not None:
        hints.notify(0)
        until(lambda: not thread.is_alive(), "the listener to end")


CHANNEL = hints.CHANNEL


def until(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.002)


def listens() -> bool:
    """There is one, and its first word has been LISTEN; what it has asked since is seen in its place."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
            " AND datname = current_database() AND query <> '' AND state = 'idle'",
            [
                hints.listener_name()
            ],  # other processes of the test run may listen on this database too
        )
        return bool(cursor.fetchall() == [(1,)])


class Waiter:
    """A request that waits for work in a thread of its own."""

    def __init__(
        self, *, queue: str = "q", seconds: float = LONG, kinds: list[str] | None = None
    ) -> None:
        self.hint: Hint | Refusal | None = None
        self._before = hints._board.waiting
        self._queue, self._seconds, self._kinds = queue, seconds, kinds
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.hint = wait_for_work(
                queue=self._queue, wait_seconds=self._seconds, kinds=self._kinds
            )
        finally:
            connection.close()

    def until_waiting(self) -> "Waiter":
        until(lambda: hints._board.waiting > self._before, "the request to wait")
        until(listens, "the listener")
        return self

    def answer(self) -> Hint | Refusal | None:
        self.thread.join(LONG / 2)
        assert not self.thread.is_alive(), "nobody woke it"
        return self.hint


def test_work_that_is_there_is_told_at_once() -> None:
    world.submit()
    assert wait_for_work(queue="q", wait_seconds=LONG) == Hint(may_have_work=True)


def test_without_work_and_without_waiting_it_says_when_to_come_again() -> None:
    answer = wait_for_work(queue="q", wait_seconds=0)
    assert answer == Hint(may_have_work=False, poll_after_seconds=hints.POLL_AFTER_SECONDS)
    assert hints.POLL_AFTER_SECONDS > 0


def test_an_unknown_queue_is_not_found() -> None:
    answer = wait_for_work(queue="nowhere", wait_seconds=LONG)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.NOT_FOUND


def test_nothing_comes_within_the_wait_and_the_answer_says_so() -> None:
    assert wait_for_work(queue="q", wait_seconds=0.05) == Hint(may_have_work=False)


def _after_submission(_worker: Worker) -> Callable[[], Any]:
    return world.submit


def _after_commit(worker: Worker) -> Callable[[], Any]:
    world.submit(node("a"), node("b", "a"))
    return partial(world.commit, world.claim_one(by=worker), by=worker)


def _after_release(worker: Worker) -> Callable[[], Any]:
    world.submit()
    claim = world.claim_one(by=worker)
    return partial(
        release_attempt, attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=worker
    )


def _after_bump(worker: Worker) -> Callable[[], Any]:
    world.submit()
    world.claim_one(by=worker)
    return partial(bump_epoch, queue="q", expected_epoch=1, reason="x", actor=world.operator())


def _after_serial_cancel(worker: Worker) -> Callable[[], Any]:
    world.submit(node("a", serial_key="k"))
    claim = world.claim_one(by=worker)
    _hold_back(world.submit(node("b", serial_key="k")))
    return partial(_cancel_and_let_go, claim)


def _hold_back(run: Submitted) -> None:
    """Not due for now: the hint looks at what may be claimable, and a busy key is only seen by the claim."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET claimable_at = clock_timestamp() + interval '1 hour' WHERE task_id = %s",
            [run.tasks[0].task_id],
        )


def _cancel_and_let_go(claim: Claim) -> None:
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_task SET claimable_at = clock_timestamp() WHERE state = 'READY'"
        )
    cancel_task(task_id=claim.fence.task_id, reason="stop", actor=world.operator())


EVENTS = {
    "a submission": _after_submission,
    "the last parent's commit": _after_commit,
    "a release": _after_release,
    "a bump": _after_bump,
    "a cancel that frees a serial key": _after_serial_cancel,
}


@pytest.mark.parametrize("prepare", EVENTS.values(), ids=EVENTS.keys())
def test_what_makes_work_claimable_calls_the_waiting_workers(
    prepare: Callable[[Worker], Callable[[], Any]],
) -> None:
    worker = world.worker()
    happens = prepare(worker)
    waiter = Waiter().until_waiting()
    happens()
    assert waiter.answer() == Hint(may_have_work=True)
    assert len(world.claim(by=worker)) == 1


def test_the_sweep_calls_for_lapsed_leases() -> None:
    worker = world.worker()
    world.submit()
    claim = world.claim_one(by=worker)
    waiter = Waiter().until_waiting()
    world.lapse(claim.fence.task_id)
    tasks.sweep()
    assert waiter.answer() == Hint(may_have_work=True)


@pytest.mark.parametrize("event", ["a lapse", "a task that comes due", "a call that was lost"])
def test_what_nobody_calls_for_is_found_by_the_listeners_own_look(
    event: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "LOOK_SECONDS", OFTEN)
    worker = world.worker()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    run = world.submit(node("a", not_before=later if "due" in event else None))
    if "lapse" in event:
        world.claim_one(by=worker)
    elif "lost" in event:
        world.finish(world.task_id(run, "a"), by=worker)
    waiter = Waiter().until_waiting()
    if "lapse" in event:
        world.lapse(world.task_id(run, "a"))
    elif "due" in event:
        world.make_due(world.task_id(run, "a"))
    else:
        monkeypatch.setattr(hints, "notify", lambda _queue_id: None)
        world.submit()
    assert waiter.answer() == Hint(may_have_work=True)
    assert len(world.claim(by=worker)) == 1


def test_another_queues_work_wakes_nobody_here() -> None:
    world.queue(name="other")
    here, there = Waiter().until_waiting(), Waiter(queue="other")
    there.until_waiting()
    world.submit(queue_name="other")
    assert there.answer() == Hint(may_have_work=True)
    here.thread.join(0.5)
    assert here.thread.is_alive()
    world.submit()
    assert here.answer() == Hint(may_have_work=True)


def test_a_waiting_request_holds_no_connection_and_no_transaction() -> None:
    def connections() -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
                " AND backend_type = 'client backend' AND application_name LIKE 'tenure%'"
                " AND (state <> 'idle' OR xact_start IS NOT NULL) AND pid <> pg_backend_pid()"
            )
            return {pid for (pid,) in cursor.fetchall()}

    alone()  # no earlier test's thread holds one
    waiters = [Waiter().until_waiting() for _ in range(8)]
    until(lambda: connections_in_use() == 1, "their connections to be back in the pool")
    until(lambda: connections() == set(), "their transactions to be over")
    assert hints._board.waiting == 8
    world.submit()
    assert {waiter.answer() for waiter in waiters} == {Hint(may_have_work=True)}


def test_beyond_the_bound_it_answers_at_once_and_a_place_that_is_left_is_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hints, "MAX_WAITING", 2)
    waiters = [Waiter().until_waiting() for _ in range(2)]
    assert wait_for_work(queue="q", wait_seconds=LONG) == Hint(False, hints.POLL_AFTER_SECONDS)
    world.submit()
    for waiter in waiters:
        assert waiter.answer() == Hint(may_have_work=True)
    world.claim(by=world.worker())
    again = Waiter().until_waiting()
    world.submit()
    assert again.answer() == Hint(may_have_work=True)


def _gone(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE pid = %s", [pid])
        return bool(cursor.fetchall() == [(0,)])


def test_the_listener_survives_the_loss_of_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "_RECONNECT_SECONDS", 0.05)
    waiter = Waiter().until_waiting()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid), pid FROM pg_stat_activity"
            " WHERE application_name = %s AND datname = current_database()",
            [hints.listener_name()],
        )
        ((ended, pid),) = cursor.fetchall()
    assert ended
    until(lambda: _gone(pid) and listens(), "the listener to come back")
    world.submit()
    assert waiter.answer() == Hint(may_have_work=True)


class LeavesLate(hints._Listener):
    """Between a listener's decision to end and its end there is time, in which another may be started."""

    def __init__(self, board: hints._Board) -> None:
        super().__init__(board)
        self.stays = 0
        self.leaves, self.may_leave = threading.Event(), threading.Event()

    def _ends(self, turn: int) -> bool:
        if ends := super()._ends(turn):
            self.leaves.set()
            self.may_leave.wait(LONG)
        else:
            self.stays += 1
        return ends


def test_a_listener_that_leaves_does_not_go_on_beside_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hints, "LOOK_SECONDS", OFTEN)
    board = hints._Board()
    listener = LeavesLate(board)
    monkeypatch.setattr(hints._Listener, "idle_seconds", 0.0)
    board.ticket(1)
    listener.ensure_running()
    first = listener._thread
    assert first is not None
    until(lambda: listener.stays > 1, "it to listen")
    board.drop(1)
    assert listener.leaves.wait(LONG)
    board.ticket(1)
    listener.ensure_running()
    second = listener._thread
    assert second is not None
    assert second is not first
    listener.may_leave.set()
    until(lambda: not first.is_alive(), "the first one to end")
    assert second.is_alive()
    board.drop(1)
    until(lambda: not second.is_alive(), "the second one to end")


def test_a_hint_that_can_not_be_sent_fails_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "CHANNEL", "x" * 100)  # longer than PostgreSQL takes
    run = world.submit()
    assert world.task(world.task_id(run, "a")).state == "READY"
    assert len(world.claim(by=world.worker())) == 1


def test_the_listener_connects_as_every_other_connection_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = {"sslmode": "verify-full", "sslrootcert": "/etc/ca.pem", "keepalives_idle": "30"}
    options = {**connection.settings_dict["OPTIONS"], **asked}
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    told = conninfo_to_dict(hints._conninfo())
    assert asked.items() <= told.items()
    assert "options" not in told, "the server's timeouts would end it"
    assert told["application_name"] == hints.listener_name()


def test_who_takes_some_kinds_is_told_of_these_only() -> None:
    world.submit(node("a", kind="other"))
    assert wait_for_work(queue="q", kinds=["mine"]) == Hint(False, hints.POLL_AFTER_SECONDS)
    assert wait_for_work(queue="q", kinds=["mine", "other"]) == Hint(may_have_work=True)
    assert wait_for_work(queue="q") == Hint(may_have_work=True)


def test_work_of_other_kinds_leaves_a_waiting_worker_alone_and_its_own_wakes_it() -> None:
    world.submit(node("a", kind="other"))
    waiter, all_kinds = Waiter(kinds=["mine"]).until_waiting(), Waiter(kinds=["later"])
    all_kinds.until_waiting()
    world.submit(node("b", kind="other"))
    until(lambda: hints._board.calls, "the call")
    world.submit(node("c", kind="mine"))
    assert waiter.answer() == Hint(may_have_work=True)
    assert all_kinds.hint is None
    world.submit(node("d", kind="later"))
    assert all_kinds.answer() == Hint(may_have_work=True)


def test_a_wait_for_some_kinds_ends_in_time_however_often_others_call(lane: Queue) -> None:
    world.submit(node("a", kind="other"))
    waiter = Waiter(kinds=["mine"], seconds=0.5)

    def has_ended() -> bool:
        hints.notify(lane.pk)
        return not waiter.thread.is_alive()

    until(has_ended, "the wait to end")
    assert waiter.answer() == Hint(may_have_work=False)


def test_the_listener_does_not_end_while_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who came shortly before it would have ended has found it alive, and started no other."""
    waiter = Waiter().until_waiting()
    thread = hints._listener._thread
    assert thread is not None
    monkeypatch.setattr(hints._Listener, "idle_seconds", 0.0)
    hints.notify(0)  # it is over its time now, and looks whether to go on
    thread.join(0.2)
    world.submit()
    assert waiter.answer() == Hint(may_have_work=True)


def test_behind_many_tasks_of_other_kinds_there_may_be_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world.submit(*(node(f"n{number}", kind="other") for number in range(3)))
    monkeypatch.setattr(hints, "KINDS_AMONG", 3)
    assert wait_for_work(queue="q", kinds=["mine"]) == Hint(may_have_work=True)
    monkeypatch.setattr(hints, "KINDS_AMONG", 4)
    assert wait_for_work(queue="q", kinds=["mine"]) == Hint(False, hints.POLL_AFTER_SECONDS)


def test_a_lapsed_lease_is_work_of_its_kind() -> None:
    run = world.submit(node("a", kind="mine"))
    world.claim_one(by=world.worker())
    assert wait_for_work(queue="q", kinds=["mine"]) == Hint(False, hints.POLL_AFTER_SECONDS)
    world.lapse(world.task_id(run, "a"))
    assert wait_for_work(queue="q", kinds=["mine"]) == Hint(may_have_work=True)
    assert wait_for_work(queue="q", kinds=["other"]) == Hint(False, hints.POLL_AFTER_SECONDS)
