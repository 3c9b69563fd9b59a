"""`manage.py up`: one command starts everything, Ctrl-C stops all of it, and a crash of any part is survived."""

import os
import re
import shutil
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.site.conftest import state_folder
from tests.site.launching import Up, free_port, manage
from tests.site.waiting import until

SIGN_IN = re.compile(r"is running at (\S+) - sign in as (\S+) with the password (\S+)")


Launch = Callable[..., Up]

# One process of the test run keeps the shared `up`.
pytestmark = pytest.mark.xdist_group("up")


@pytest.fixture
def launch() -> Iterator[Launch]:
    """`Up`, waited for until it runs unless told otherwise; none outlives its test."""
    launched: list[Up] = []

    def start(state: Path, *, wait: bool = True, **options: Any) -> Up:
        launched.append(Up(state, **options))
        return launched[-1].until_running() if wait else launched[-1]

    yield start
    for one in launched:
        one.stop(signal.SIGTERM)


@pytest.fixture(scope="module")
def up() -> Iterator[Up]:
    """Shared: whatever a test does to it, it must still run afterwards."""
    with state_folder() as folder:
        running = Up(folder / "var").until_running()
        yield running
        assert running.stop(signal.SIGTERM) == 0, running.told()


def answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/api/v1/readyz", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def signs_in(url: str, name: str, password: str) -> bool:
    with httpx.Client(base_url=url) as browser:
        page = browser.get("/sign-in")
        found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert found is not None
        form = {
            "username": name,
            "password": password,
            "csrfmiddlewaretoken": found[1],
            "next": "/",
        }
        return browser.post("/sign-in", data=form).status_code == 302


def mend_of(message: str) -> str:
    """A refusal is one message: no traceback, nothing else."""
    assert "Traceback" not in message
    assert len(message.strip().splitlines()) == 1, message
    return message.strip()


def test_it_says_where_it_runs_and_how_to_sign_in_and_that_is_true(up: Up) -> None:
    told = SIGN_IN.search(up.told())
    assert told is not None
    assert told[1] == up.url
    assert signs_in(up.url, told[2], told[3])
    assert not signs_in(up.url, told[2], "another password")
    kept = up.state / "admin_password"
    assert kept.read_text().strip() == told[3]
    assert kept.stat().st_mode & 0o777 == 0o600
    assert manage("doctor", TENURE_STATE=str(up.state)).returncode == 0


def connected(database: str) -> "psycopg.Connection[Any]":
    """A connection, once the server answers: an earlier test may have killed it, and it recovers."""
    found: list[psycopg.Connection[Any]] = []

    def answers_now() -> bool:
        try:
            found.append(psycopg.connect(database, autocommit=True))
        except psycopg.OperationalError:
            return False
        return True

    until(answers_now, "the database to be back")
    return found[0]


def test_the_sweeps_of_each_second_arrive_and_are_worked_off(up: Up) -> None:
    database = (up.state / "database_url").read_text().strip()
    log = up.state / "logs" / "worker.log"
    with connected(database) as connection:

        def number(query: str) -> int:
            row = connection.execute(query).fetchone()
            assert row is not None
            return int(row[0])

        def sweep() -> None:
            before = number(sent)
            until(lambda: number(sent) > before + 2, "beat to send sweeps")
            until(lambda: number(waiting) == 0, "the worker to take them")

        sent = "SELECT last_value FROM pgmq.q_tenure_msg_id_seq"
        # What a worker has taken is not seen until it is through; a job whose worker was killed, for some minutes.
        waiting = "SELECT count(*) FROM pgmq.q_tenure WHERE vt <= clock_timestamp()"
        sweep()  # jobs that were under way when another test killed what they lean on are over then
        begun = log.stat().st_size
        sweep()
    told = log.read_bytes()[begun:].decode()
    assert "Traceback" not in told, told


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_stops_all_that_it_started_and_goes_on_with_the_same_data(
    state: Path, number: signal.Signals, launch: Launch
) -> None:
    first = launch(state / "var")
    assert {"granian", "worker", "beat", "postgres"} <= {
        word
        for words in first.processes().values()
        for word in ("granian", "worker", "beat", "postgres")
        if f" {word} " in words or f"/{word} " in words
    }
    assert first.stop(number) == 0
    assert first.processes() == {}
    assert first.told().strip().endswith("Stopped.")
    again = launch(state / "var", port=first.port)
    assert SIGN_IN.search(again.told()) is not None
    assert again.told().splitlines()[0] == first.told().splitlines()[0]
    assert again.stop() == 0


def test_a_signal_while_it_is_still_starting_leaves_nothing(state: Path, launch: Launch) -> None:
    starting = launch(state / "var", wait=False)
    until(
        lambda: any("postgres -D" in words for words in starting.processes().values()),
        "the database",
    )
    assert starting.stop() == 0
    assert starting.processes() == {}


def test_killed_outright_it_takes_its_children_along_and_the_next_one_starts(
    state: Path, launch: Launch
) -> None:
    first = launch(state / "var")
    first.stop(signal.SIGKILL)
    again = launch(state / "var", port=first.port)
    assert answers(again.url)
    assert sum("manage.py up" in words for words in again.processes().values()) == 1
    assert again.stop() == 0
    until(lambda: not again.processes(), "everything to be gone")


@pytest.mark.parametrize(
    ("victim", "word"),
    [
        ("web", " -m granian "),
        ("worker", "coordinator.site.celery worker"),
        ("beat", " --schedule "),
        ("database", "bin/postgres -D"),
    ],
)
def test_a_part_that_is_killed_comes_back(up: Up, victim: str, word: str) -> None:
    killed, told = up.pid_of(word), len(up.told())
    os.kill(killed, signal.SIGKILL)
    until(lambda: "starting it again" in up.told()[told:], f"{victim} to be missed")
    until(
        lambda: any(word in words for pid, words in up.processes().items() if pid != killed), victim
    )
    # Each of the web processes: one whose connections were broken may lose a call before it has looked at them.
    until(lambda: all(answers(up.url) for _ in range(8)), "the web server to answer")
    assert not up.has_ended()


def test_a_second_one_on_the_same_state_folder_is_refused(up: Up) -> None:
    refused = manage("up", "--state", str(up.state), "--port", str(free_port()), "--no-demo")
    assert refused.returncode == 1
    assert re.search(r"already runs.*\(process \d+\).*--state", mend_of(refused.stderr))
    assert answers(up.url)


def test_two_state_folders_run_side_by_side(up: Up, state: Path, launch: Launch) -> None:
    other = launch(state / "other")
    assert answers(up.url)
    assert answers(other.url)
    assert other.stop() == 0
    assert answers(up.url)


def test_a_port_in_use_is_refused_by_number(state: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        refused = manage("up", "--state", str(state / "var"), "--port", str(port))
    assert refused.returncode == 1
    assert re.search(rf"Port {port} on 127.0.0.1 is in use.*--port", mend_of(refused.stderr))
    assert not (state / "var" / "postgres").exists()


@pytest.mark.parametrize("port", ["0", "65536", "http"])
def test_a_port_that_is_none_is_refused(port: str) -> None:
    assert manage("up", "--port", port).returncode != 0


def test_a_half_initialised_database_is_refused_with_the_mend(state: Path) -> None:
    (state / "var" / "postgres" / "data").mkdir(parents=True)
    refused = manage("up", "--state", str(state / "var"), "--port", str(free_port()))
    assert refused.returncode == 1
    assert re.search("not a complete database folder.*move it away", mend_of(refused.stderr))


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("postgresql://someone@127.0.0.1:1/nothing", "cannot be reached.*correct DATABASE_URL"),
        ("sqlite:///db.sqlite3", "not PostgreSQL"),
        ("nonsense", "not a database address"),
        ("postgresql://someone@127.0.0.1:5432/", "no database name"),
    ],
)
def test_a_wrong_database_url_is_refused_with_the_mend(
    state: Path, url: str, complaint: str
) -> None:
    refused = manage(
        "up", "--state", str(state / "var"), "--port", str(free_port()), DATABASE_URL=url
    )
    assert refused.returncode == 1
    assert re.search(complaint, mend_of(refused.stderr))


def test_a_password_in_a_wrong_database_url_is_not_shown(state: Path) -> None:
    url = "postgresql://someone:tell-nobody@127.0.0.1:1/nothing"
    refused = manage(
        "up", "--state", str(state / "var"), "--port", str(free_port()), DATABASE_URL=url
    )
    assert refused.returncode == 1
    assert "tell-nobody" not in refused.stdout + refused.stderr


def test_it_works_on_a_database_that_is_already_there(up: Up, state: Path, launch: Launch) -> None:
    database = (up.state / "database_url").read_text().strip()
    with connected(database) as connection:
        connection.execute("CREATE DATABASE elsewhere")
    outside = database.rsplit("/", 1)[0] + "/elsewhere"
    guest = launch(state / "guest", DATABASE_URL=outside)
    assert answers(guest.url)
    assert guest.stop() == 0
    assert not (state / "guest" / "postgres").exists()
    assert answers(up.url)


@pytest.fixture
def files(state: Path) -> Path:
    """Something real to review, and enough of it that the story of the frozen worker is told."""
    folder = state / "files"
    shutil.copytree(Path(__file__).parent, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def test_the_fleet_works_freezes_one_of_its_own_and_all_of_it_is_stopped(
    state: Path, files: Path, launch: Launch
) -> None:
    shown = launch(state / "var", demo=files)
    until(lambda: "FENCED" in shown.told(), "the frozen worker's commit to be refused")
    assert "takes" in shown.told()
    assert any("examples.review" in words for words in shown.processes().values())
    assert shown.stop() == 0
    assert shown.processes() == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_frozen_worker_is_not_left_behind(
    state: Path, files: Path, number: signal.Signals, launch: Launch
) -> None:
    shown = launch(state / "var", demo=files)
    until(lambda: "is frozen" in shown.told(), "a worker to be frozen")
    shown.stop(number)
    until(lambda: shown.processes() == {}, "everything to be gone")
