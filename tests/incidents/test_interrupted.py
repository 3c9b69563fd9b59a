"""An incident that is cut off: the server killed between any two steps, or a step stopped at any statement."""

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection

from coordinator import rounds
from coordinator.actors import Worker
from coordinator.models import Incident, Queue
from coordinator.services.answers import RequestKey
from tests import world
from tests.history import nothing_moves, standing
from tests.incidents import rollback
from tests.incidents.people import Person
from tests.sdk.conftest import Site
from tests.sdk.served import Served
from tests.site.waiting import until
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


# --- the server is killed --------------------------------------------------------------------------


@pytest.fixture
def server(
    transactional_db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Served]:
    # A step that is to be killed while it waits for a lock must still be waiting then.
    monkeypatch.setenv("TENURE_LOCK_TIMEOUT_MS", "120000")
    monkeypatch.setenv("TENURE_STATEMENT_TIMEOUT_MS", "120000")
    started = Served(tmp_path / "web.log")
    started.start()
    yield started
    started.kill()


@pytest.fixture
def site(server: Served, by: Worker) -> Site:
    return Site(server.url, "q", "")


Reading = dict[str, Any]


def killed_and_started(server: Served, person: Person, path: str) -> Reading:
    before: Reading = person.get(path)
    server.kill()
    server.start()
    assert person.get(path) == before
    return before


@pytest.mark.slow
def test_a_server_that_is_killed_between_any_two_steps_leaves_the_incident_where_it_was(
    server: Served, site: Site, by: Worker
) -> None:
    world.submit()
    world.stage(world.claim_one(by=by), by=by)
    olga, otto = (Person(site.url, site.operator_token("operator")) for _ in range(2))
    opened = olga.must("/incidents", {"queue": "q", "reason": "bad deploy"})
    path = f"/incidents/{opened['incident_id']}"
    steps: list[tuple[str, Reading, str]] = [
        ("bump", {"expected_epoch": 1, "confirm": "q"}, "BUMPED"),
        ("candidates", {"decision": "KEEP", "reason": "to compare"}, "BUMPED"),
        ("switch", {"to_pool": "green"}, "SWITCHED"),
        ("resume", {}, "CLOSED"),
    ]
    for step, body, state in steps:
        killed_and_started(server, olga, path)
        if step == "switch":
            rollback.run_out(Incident.objects.get().incident_id)
        first = otto.must(f"{path}/{step}", body)
        killed_and_started(server, olga, path)
        again = otto.must(f"{path}/{step}", body)  # its answer was lost with the server
        assert again == first | {"replayed": True}
        assert olga.get(path)["state"] == state
    world.claim_one(by=world.worker(name="g", pool_name="green"))


@pytest.mark.slow
@pytest.mark.parametrize("step", ["bump", "switch"])
def test_a_server_that_is_killed_in_a_step_has_done_nothing_of_it(
    server: Served, site: Site, by: Worker, step: str
) -> None:
    """The step waits for its queue's gate when the server dies; its session ends with it."""
    world.submit()
    world.claim_one(by=by)
    olga, otto = (Person(site.url, site.operator_token("operator")) for _ in range(2))
    incident = olga.must("/incidents", {"queue": "q", "reason": "bad deploy"})["incident_id"]
    bodies: dict[str, Reading] = {
        "bump": {"expected_epoch": 1, "confirm": "q"},
        "switch": {"to_pool": "green"},
    }
    if step == "switch":
        otto.must(f"/incidents/{incident}/bump", bodies["bump"])
        rollback.run_out(incident)
    with nothing_moves():
        gate = [Queue.objects.get(name="q").pk]
        with world.holding("SELECT pg_advisory_xact_lock(1, %s)", gate) as holder:
            calling = threading.Thread(
                target=_ignoring_the_end, args=(otto, f"/incidents/{incident}/{step}", bodies[step])
            )
            calling.start()
            world.wait_until_blocked(_waiter_of(holder.pid), by=holder.pid)
            server.kill()
            calling.join(60)
            _end_sessions_that_wait_for(holder.pid)
    server.start()
    receipt = otto.must(f"/incidents/{incident}/{step}", bodies[step])
    assert receipt["replayed"] is False


def _ignoring_the_end(person: Person, path: str, body: Reading) -> None:
    try:
        person.post(path, body)
    except httpx.TransportError:
        return


def _waiter_of(pid: int) -> int:
    found: list[int] = []

    def waits() -> bool:
        found[:] = _pids_that_wait_for(pid)
        return bool(found)

    until(waits, "the step to wait for the gate")
    return found[0]


def _pids_that_wait_for(pid: int) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT a.pid FROM pg_stat_activity a WHERE %s = ANY (pg_blocking_pids(a.pid))", [pid]
        )
        return [row[0] for row in cursor.fetchall()]


def _end_sessions_that_wait_for(pid: int) -> None:
    """What the operating system's keep-alive does in the end: a session whose client is gone is ended."""
    with connection.cursor() as cursor:
        for waiter in _pids_that_wait_for(pid):
            cursor.execute("SELECT pg_terminate_backend(%s, 10000)", [waiter])


# --- a step is stopped at a statement --------------------------------------------------------------


class Cut(Exception):
    """The connection broke here."""


class Scissors(list[list[str]]):
    """Lets so many rounds and statements of a step through, and cuts the next one off."""

    def __init__(self, left: int) -> None:
        super().__init__()
        self.left = left

    def append(self, statements: list[str]) -> None:
        self.take()

    def take(self) -> None:
        if self.left == 0:
            raise Cut
        self.left -= 1

    def __call__(self, execute: Callable[..., Any], *arguments: Any) -> Any:
        self.take()
        return execute(*arguments)


def cut_off_after(count: int, step: Callable[[], Any]) -> bool:
    """Run the step, and cut it off; whether it was long enough for that."""
    scissors = Scissors(count)
    token = rounds.sent.set(scissors)
    try:
        with connection.execute_wrapper(scissors):
            step()
    except Cut:
        return True
    finally:
        rounds.sent.reset(token)
    return False


REQUEST = RequestKey("operator", "k" * 16, "digest")
STEPS: dict[str, tuple[list[str], Callable[..., Any]]] = {
    "open": ([], lambda _: rollback.open_(request=REQUEST)),
    "bump": (["open"], partial(rollback.bump, expected_epoch=1)),
    "decide": (["open", "bump"], rollback.decide),
    "switch": (["open", "bump", "decide"], rollback.switch),
    "resume": (["open", "bump", "decide", "switch"], rollback.resume),
    "abort": (["open"], rollback.abort),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_that_is_cut_off_at_any_statement_has_changed_nothing_or_everything(
    by: Worker, name: str
) -> None:
    world.submit(node("a"), node("b"))
    world.stage(world.claim_one(by=by), by=by)
    before, step = STEPS[name]
    incident: Any = None
    for each in [*before, name]:
        if each == "switch":
            rollback.run_out(incident)
        if each != name:
            answer = STEPS[each][1](incident)
            incident = incident or answer.incident_id
    stood, count = standing(), 0
    while cut_off_after(count, lambda: step(incident)) and standing() == stood:
        count += 1
        assert count < 100, "the step never ended"
    assert count >= 5, "nothing was cut off"
    # By now it was taken: whole, or so late that only its answer was lost. Asked again, it says so.
    assert step(incident).replayed
