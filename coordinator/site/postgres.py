"""PostgreSQL on this machine, without an installation: real server programs, our own life cycle.

    state/postgres.lock         held (flock) by the one launcher that may touch anything below
    state/postgres/data         the cluster; appears at once, by a rename after initdb has finished
    state/postgres/run          the unix socket; there is no TCP port
    state/postgres/server.log
    state/database_url          where it was last started, for commands run beside `up`
    state/postgres.home         only where root's own home hides the state folder: what stands for state/postgres

The server dies with its launcher. After a kill -9 of either the next start takes over what was left behind.
"""

import contextlib
import fcntl
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from coordinator.site.accounts import NoAccount, server_account
from coordinator.site.binaries import BinariesMissing, find_binaries, reachable_binaries
from coordinator.site.cluster import (
    ROLE,
    PostgresError,
    complaint_of,
    ensure_cluster,
    server_environment,
)
from coordinator.site.kinship import command_line, dies_with_parent, signal_if
from coordinator.site.places import DATABASE, PORT, default_places, make_places, reachable_places

LOG_LIMIT_BYTES = 16 * 1024 * 1024
START_SECONDS = 60.0
STOP_SECONDS = 30.0
PAUSE_SECONDS = 0.02
STILL_LEAVING = "pre-existing shared memory block"


class Postgres:
    """One server for one state folder. Not for use from several threads; start it from the main one."""

    def __init__(self, state: Path, *, settings: Mapping[str, str] | None = None) -> None:
        self.state = state.resolve()
        self.settings = dict(settings or {})
        self.process: subprocess.Popen[bytes] | None = None
        self._lock: IO[str] | None = None
        try:
            self.account = server_account()
            self.binaries = find_binaries()
        except (NoAccount, BinariesMissing) as error:
            raise PostgresError(str(error)) from error
        self.places = default_places(self.state)

    @property
    def url(self) -> str:
        return self.places.url

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> Self:
        """Start the server and wait until it answers; create the cluster and the database on the first start.

        Raises PostgresError when another launcher holds the state folder, or the folder or the programs are unusable.
        """
        self._take_lock()
        try:
            self._prepare()
            ensure_cluster(self.places.data, binaries=self.binaries, account=self.account)
            self._clear_what_was_left()
            self._launch()
            self._create_database()
        except BaseException:
            self.stop()
            raise
        (self.state / "database_url").write_text(self.url + "\n")
        return self

    def stop(self) -> None:
        """Stop the server that we started, if it runs: open transactions are rolled back. Then let the lock go."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # "fast" shutdown
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.send_signal(
                    signal.SIGQUIT
                )  # "immediate": recovers from its log at the next start
                self.process.wait()
        self.process = None
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def died(self) -> bool:
        """True when the server was started and is no longer there."""
        return self.process is not None and self.process.poll() is not None

    def restart(self) -> None:
        """Start again after the server died, keeping the lock."""
        self._clear_what_was_left()
        self._launch()

    def _take_lock(self) -> None:
        try:
            self.state.mkdir(parents=True, exist_ok=True)
            lock = (self.state / "postgres.lock").open("a+")
        except OSError as error:
            raise PostgresError(
                f"The state folder {self.state} cannot be used: {error.strerror}. "
                "Choose another with --state or TENURE_STATE."
            ) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise PostgresError(
                f"Another process already runs the database of {self.state}. Stop it, or choose another state folder "
                "with --state or TENURE_STATE."
            ) from error
        self._lock = lock

    def _prepare(self) -> None:
        self.places = reachable_places(self.state, account=self.account)
        make_places(self.places, account=self.account)
        try:
            self.binaries = reachable_binaries(
                self.binaries, account=self.account, spare=self.places.home / "programs"
            )
        except BinariesMissing as error:
            raise PostgresError(str(error)) from error

    def _clear_what_was_left(self) -> None:
        """Stop a server whose launcher was killed, and remove its lock files.

        We hold the flock: nobody else can be starting one here.
        """
        pid_file = self.places.data / "postmaster.pid"
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(pid_file.read_text().split()[0])
            if signal_if(pid, signal.SIGINT, is_ours=self._is_ours):
                deadline = time.monotonic() + STOP_SECONDS
                while self._is_ours(pid) and time.monotonic() < deadline:
                    time.sleep(PAUSE_SECONDS)
                if self._is_ours(pid):
                    raise PostgresError(
                        f"An earlier server (process {pid}) does not stop. End it, then start again."
                    )
        pid_file.unlink(missing_ok=True)
        for stale in self.places.run.glob(
            ".s.PGSQL.*"
        ):  # the socket's lock file carries the same, perhaps recycled, number
            stale.unlink(missing_ok=True)

    def _is_ours(self, pid: int) -> bool:
        arguments = command_line(pid)
        return (
            bool(arguments)
            and Path(arguments[0]).name == "postgres"
            and str(self.places.data) in arguments
        )

    def _launch(self) -> None:
        """Start the server process and wait until it is ready.

        Backends of a killed server may need a moment to leave: then it is tried again.
        """
        deadline = time.monotonic() + START_SECONDS
        while True:
            self._rotate_log()
            written = self.places.log.stat().st_size if self.places.log.exists() else 0
            self.process = self._spawn()
            if self._wait_ready(deadline):
                return
            complaint = self._log_since(written)
            if STILL_LEAVING in complaint and time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)
                continue
            raise PostgresError(
                f"PostgreSQL does not start in {self.places.home}: {complaint_of(complaint)} (see {self.places.log})"
            )

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [
            str(self.binaries / "postgres"), "-D", str(self.places.data), "-k", str(self.places.run), "-p", str(PORT),
            "-c", "listen_addresses=", "-c", "unix_socket_permissions=0700",
        ]  # fmt: skip
        for name, value in self.settings.items():
            command += ["-c", f"{name}={value}"]
        with self.places.log.open("ab") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=server_environment(),
                start_new_session=True,  # a Ctrl-C in the terminal is for the launcher, which stops us last
                preexec_fn=dies_with_parent(signal.SIGINT),  # noqa: PLW1509 - one system call
                **self.account.as_popen(),
            )

    def _wait_ready(self, deadline: float) -> bool:
        assert self.process is not None
        while self.process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                lines = (self.places.data / "postmaster.pid").read_text().splitlines()
                if lines[0].strip() == str(self.process.pid) and lines[7].strip() == "ready":
                    return True
            if time.monotonic() > deadline:
                self.process.send_signal(signal.SIGQUIT)
                self.process.wait()
                break
            time.sleep(PAUSE_SECONDS)
        return False

    def _create_database(self) -> None:
        import psycopg
        from psycopg import sql

        server = {"host": str(self.places.run), "port": PORT, "user": ROLE, "dbname": "postgres"}
        with psycopg.connect(**server, autocommit=True) as connection:  # type: ignore[arg-type]
            known = connection.execute(
                "SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]
            ).fetchone()
            if known is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE)))

    def _rotate_log(self) -> None:
        if self.places.log.exists() and self.places.log.stat().st_size > LOG_LIMIT_BYTES:
            self.places.log.replace(self.places.log.with_suffix(".log.1"))

    def _log_since(self, offset: int) -> str:
        with self.places.log.open("rb") as log:
            log.seek(offset)
            return log.read().decode(errors="replace")
