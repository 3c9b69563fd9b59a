"""Two real PostgreSQL servers, a primary and the standby that streams from it, behind one address.

folder/primary, folder/standby    a state folder each, as `up` keeps it
folder/current                    a link to the socket folder of the one that clients reach: a virtual address
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Self

import psycopg

from coordinator.site.accounts import Account
from coordinator.site.cluster import ROLE, server_environment
from coordinator.site.places import PORT, make_places, reachable_places, socket_url
from coordinator.site.postgres import Postgres
from tests.site.waiting import until


class Pair:
    """`synchronous`: a commit is answered once the standby has it on disk. Start from the main thread."""

    def __init__(self, folder: Path, *, synchronous: bool) -> None:
        self._link = folder / "current"
        self.url = socket_url(self._link)
        self.primary = Postgres(folder / "primary")
        self.standby = Postgres(folder / "standby")
        self._synchronous = synchronous

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        # The standby first: a primary's shutdown waits until its log has been sent.
        self.standby.stop()
        self.primary.stop()

    def _start(self) -> None:
        self.primary.start()
        self._point_to(self.primary)
        _copy(self.primary, self.standby)
        self.standby.start()
        until(lambda: bool(self._of_standby("TRUE")), "the standby to stream")
        if self._synchronous:
            # After the copy, whose settings would else make the promoted one wait for a standby of its own.
            ask(self.primary, "ALTER SYSTEM SET synchronous_standby_names = '*'")
            ask(self.primary, "SELECT pg_reload_conf()")
            until(lambda: bool(self._of_standby("sync_state = 'sync'")), "it to be synchronous")

    def _of_standby(self, condition: str) -> list[Any]:
        streaming = "SELECT 1 FROM pg_stat_replication WHERE state = 'streaming'"
        return ask(self.primary, f"{streaming} AND {condition}")

    def catch_up(self) -> None:
        """Until the standby has applied what the primary has written so far."""
        ((position,),) = ask(self.primary, "SELECT pg_current_wal_insert_lsn()")
        applied = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
        until(lambda: ask(self.standby, applied, position) == [(True,)], "the standby to catch up")

    def cut(self) -> None:
        """The standby hears nothing more. From here on everything that the primary writes is lost with it."""
        ask(self.standby, "ALTER SYSTEM SET primary_conninfo = ''")
        ask(self.standby, "SELECT pg_reload_conf()")
        until(lambda: not self._of_standby("TRUE"), "the line to be cut")
        until(lambda: not ask(self.standby, "SELECT pid FROM pg_stat_wal_receiver"), "it to notice")

    def kill_primary(self) -> None:
        """All of its processes at once, as when the machine loses power: none gets to say goodbye."""
        process = self.primary.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)  # it starts none while they are counted
        for pid in [*_children(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def promote(self) -> None:
        """The standby takes writes, and the address leads to it."""
        assert ask(self.standby, "SELECT pg_promote(true, 60)") == [(True,)]
        self._point_to(self.standby)

    def _point_to(self, server: Postgres) -> None:
        new = self._link.with_name("current.new")
        new.symlink_to(server.places.run)
        new.replace(self._link)


def ask(server: Postgres, sql: str, *parameters: Any) -> list[Any]:
    """Straight to one of the two, past the address."""
    with psycopg.connect(server.url, autocommit=True) as connection:
        found = connection.execute(sql, parameters or None)
        return found.fetchall() if found.description else []


def _copy(primary: Postgres, standby: Postgres) -> None:
    """What `pg_basebackup` makes of a running primary: a standby that will stream from it."""
    account: Account = primary.account
    standby.state.mkdir()
    places = reachable_places(standby.state, account=account)
    make_places(places, account=account)
    where = ("--host", str(primary.places.run), "--port", str(PORT), "--username", ROLE)
    subprocess.run(
        [
            str(primary.binaries / "pg_basebackup"), "--pgdata", str(places.data), *where,
            "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
        ],
        cwd="/",
        env=server_environment(),
        check=True,
        capture_output=True,
        **account.as_popen(),
    )  # fmt: skip


def _children(parent: int) -> list[int]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(after_name[1]) == parent:
            found.append(int(folder.name))
    return found
