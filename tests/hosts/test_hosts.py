"""Two web hosts against one PostgreSQL, jobs over Redis or RabbitMQ, workers on hosts of their own.

Which host a call comes over makes no difference, and a host or a broker that goes away costs time and nothing else.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from tests.hosts.brokers import BROKERS
from tests.hosts.installation import EITHER, WEB, Installation, installed
from tests.site.conftest import state_folder
from tests.site.waiting import until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("hosts"),
]

ROWS, COLUMNS = 20, 10
#: The broker goes away, and a worker's host, when so many tasks of a run are done: in the middle.
BROKEN_AT = 40
LEASE_SECONDS = 5


@pytest.fixture(scope="module")
def site() -> Iterator[Installation]:
    with state_folder() as folder, installed(folder) as found:
        yield found


@pytest.fixture(autouse=True)
def _history_holds(site: Installation) -> Iterator[None]:
    yield
    assert not site.broken_rules()


def grid(rows: int, columns: int) -> list[dict[str, Any]]:
    """Tasks in rows; each but the first row's waits for two of the row above."""
    return [
        {
            "node_id": f"{row}-{column}",
            "kind": "work",
            "input": {},
            "depends_on": sorted({f"{row - 1}-{column}", f"{row - 1}-{(column + 1) % columns}"})
            if row
            else [],
        }
        for row in range(rows)
        for column in range(columns)
    ]


def told_by(site: Installation, over: str, queue: str) -> float:
    """How many commits of a queue the figures tell, whichever host they came over."""
    start = f'tenure_events_total{{kind="COMMITTED",queue="{queue}"}} '
    lines = site.ask(over, "/metrics", by="olga").text.splitlines()
    return sum(float(line.removeprefix(start)) for line in lines if line.startswith(start))


def rolled_up(site: Installation) -> Any:
    """When the jobs have last counted; nobody else does while no one reads the figures."""
    return site.rows("SELECT rolled_at FROM coordinator_rollup")


@pytest.mark.parametrize("name", BROKERS)
def test_a_run_is_worked_off_over_both_hosts_while_the_broker_and_a_worker_go_away(
    site: Installation, name: str
) -> None:
    queue = f"run-{name}"
    broker, broker_url = BROKERS[name](site.hosts, "db", site.folder / name)
    with ExitStack() as stack:
        stack.enter_context(broker).until_ready()
        before = rolled_up(site)
        stack.enter_context(site.jobs("web2", broker_url=broker_url))
        until(lambda: rolled_up(site) != before, "the jobs to run")

        owners = {f"{name}-over-{host}": host for host in WEB}
        workers = [site.worker(queue, owner, over=host) for owner, host in owners.items()]
        for worker in workers:
            stack.enter_context(worker)
        firsts = [site.submit("web1", queue, owner) for owner in owners]
        until(lambda: all(is_committed(site, each) for each in firsts), "both to be at work")

        run = site.send("web1", "/runs", {"queue": queue, "nodes": grid(ROWS, COLUMNS)})
        away = site.submit("web2", queue, "away")
        until(lambda: done(site, queue) >= BROKEN_AT, "the run to be under way")
        held = site.claim("web1", queue, "away", ttl_seconds=LEASE_SECONDS, on="away")
        site.hosts.cut("away")
        stack.callback(site.hosts.mend, "away")
        broker.kill()
        until(lambda: done(site, queue) == ROWS * COLUMNS, "the run to end without its broker")
        for worker in workers:
            worker.kill()
        assert set(site.committed_by(queue)) == set(owners), "one host had it all"
        state = f"/runs/{run['run_id']}"
        until(lambda: site.send("web2", state)["state"] == "COMMITTED", "the run to be settled")

        before = rolled_up(site)
        broker.start()
        until(lambda: rolled_up(site) != before, "the jobs to be back")
        marked = "SELECT 1 FROM coordinator_task WHERE task_id = %s AND claimable_at IS NOT NULL"
        until(lambda: site.rows(marked, away) != [], "the lease to lapse")
        again = site.claim("web2", queue, "away")
        assert again["fence"]["claim_generation"] == held["fence"]["claim_generation"] + 1
        site.hosts.mend("away")
        assert refusal(commit_when_reachable(site, held)) == "FENCED"
        assert site.commit("web2", again).status_code == 200

    every = ROWS * COLUMNS + 1
    until(lambda: all(told_by(site, host, queue) >= every for host in WEB), "each to tell of all")


def done(site: Installation, queue: str) -> int:
    return sum(site.committed_by(queue).values())


def is_committed(site: Installation, task_id: str) -> bool:
    """As the host tells it that the task was not submitted over."""
    return bool(site.send("web2", f"/tasks/{task_id}")["state"] == "COMMITTED")


def commit_when_reachable(site: Installation, claimed: Any) -> httpx.Response:
    """A commit from the host that was cut off, as soon as a call gets through."""
    replies: list[httpx.Response] = []

    def is_answered() -> bool:
        try:
            replies.append(site.commit("web1", claimed, on="away"))
        except httpx.TransportError:
            return False
        return True

    until(is_answered, "the host to be back")
    return replies[-1]


def refusal(reply: httpx.Response) -> str:
    assert reply.status_code == 409, reply.text
    return str(reply.json()["outcome"])


def test_who_waits_on_one_host_is_woken_by_a_submission_on_the_other(site: Installation) -> None:
    listens = (
        "SELECT 1 FROM pg_stat_activity WHERE application_name LIKE 'tenure hints %%'"
        " AND client_addr = %s::inet"
    )
    with ThreadPoolExecutor(1) as pool:
        hint = pool.submit(site.send, "web2", "/queues/hint/hint?wait_seconds=30")
        until(lambda: site.rows(listens, site.hosts.address("web2")) != [], "it to listen")
        assert not hint.done()
        site.submit("web1", "hint", "work")
        assert hint.result()["may_have_work"]
    claimed = site.claim("web2", "hint", "work")
    assert site.commit("web1", claimed).status_code == 200


def test_an_epoch_that_is_bumped_over_one_host_refuses_the_next_commit_over_the_other(
    site: Installation,
) -> None:
    site.submit("web1", "epoch", "work")
    claimed = site.claim("web2", "epoch", "work")
    said = {"queue": "epoch", "reason": "a bad release"}
    incident = site.send("web1", "/incidents", said, by="olga")["incident_id"]
    site.send("web1", f"/incidents/{incident}/preview", by="olga")
    bump = {"expected_epoch": 1, "confirm": "epoch", "reason": "nobody else is there"}
    site.send("web1", f"/incidents/{incident}/bump", bump, by="olga")
    assert refusal(site.commit("web2", claimed)) == "FENCED"
    told = site.send("web1", "/queues/epoch")
    assert told == site.send("web2", "/queues/epoch")
    assert told["scheduler_epoch"] == 2


def test_workers_go_on_over_the_other_host_when_theirs_is_cut_off(site: Installation) -> None:
    first = first_address(site)
    theirs = next(name for name in WEB if site.hosts.address(name) == first)
    site.send(theirs, "/runs", {"queue": "cut", "nodes": grid(6, 8)})
    with site.worker("cut", "either", over=EITHER):
        until(lambda: done(site, "cut") >= 8, "the run to be under way")
        site.hosts.cut(theirs)
        try:
            left = 48 - done(site, "cut")
            until(lambda: done(site, "cut") == 48, "the run to end over the other host")
        finally:
            site.hosts.mend(theirs)
    assert left > 0, "all was over before the cut"
    until(lambda: is_ready(site, theirs), "the host to be back")


def first_address(site: Installation) -> str:
    """Which web server the name that leads to both is tried at first."""
    asked = site.hosts.command("work", "getent", "ahostsv4", EITHER)
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()[0]


def is_ready(site: Installation, host: str) -> bool:
    try:
        return site.ask(host, "/readyz").status_code == 200
    except httpx.TransportError:
        return False


def test_the_database_takes_nobody_from_another_host_without_its_password(
    site: Installation,
) -> None:
    wrong = site.environment("web1")["DATABASE_URL"].replace("database-password", "guessed")
    asked = site.hosts.command(
        "web1", str(site.database.binaries / "psql"), wrong, "-c", "SELECT 1"
    )
    refused = subprocess.run(asked, check=False, capture_output=True, text=True)
    assert refused.returncode != 0
    assert "password authentication failed" in refused.stderr
