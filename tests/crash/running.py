"""An installation as a person starts it, a run on it, and workers that may be killed: all of it real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tenure import Client
from tests.history import broken_rules
from tests.site.launching import CHECKOUT, Up, environment, manage
from tests.site.waiting import until

QUEUE, POOL = "crash", "crashing"
LAYERS, WIDTH = 4, 6
#: A handler takes so long; a run of two workers some seconds.
STEP_SECONDS = 0.15


def told(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kill(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


@dataclass
class Installation:
    """`up` with a queue, an operator's token and a fleet's token."""

    up: Up
    operator: str
    fleet: str

    @classmethod
    def of(cls, up: Up) -> "Installation":
        state = {"TENURE_STATE": str(up.state)}
        operator = told(
            manage("create_operator", "crash", "--role", "admin", "--token", "--json", **state)
        )["token"]
        made = cls(up, operator, "")
        made.administer("/pools", {"name": POOL})
        policy = {"default_ttl_seconds": 5, "max_attempts": 20, "retry_backoff_seconds": 0}
        made.administer("/queues", {"name": QUEUE, "active_pool": POOL, **policy})
        made.fleet = told(
            manage(
                "create_credential", "fleet", "--pool", POOL, "--queue", QUEUE, "--scope", "work", "--json", **state
            )
        )["token"]  # fmt: skip
        return made

    def administer(self, path: str, body: dict[str, Any]) -> None:
        reply = httpx.post(
            f"{self.up.url}/api/v1{path}",
            json=body,
            headers={"Authorization": f"Bearer {self.operator}"},
            timeout=30,
        )
        assert reply.status_code in (200, 201), reply.text

    def client(self) -> Client:
        return Client(self.up.url, self.operator)

    @property
    def gate(self) -> Path:
        """Without this file no node of the last layer ends: no run is over before the test has killed what it kills."""
        return self.up.state.parent / "gate"

    def submit(self) -> "RunningRun":
        """Layers of nodes, each of which waits for all of the layer before."""
        self.gate.unlink(missing_ok=True)
        layers = [[f"{layer}-{number}" for number in range(WIDTH)] for layer in range(LAYERS)]
        nodes = [
            {
                "node_id": name,
                "kind": "work",
                "input": {"name": name},
                "depends_on": layers[index - 1] if index else [],
            }
            for index, names in enumerate(layers)
            for name in names
        ]
        with self.client() as client:
            run = client.submit_run(queue=QUEUE, nodes=nodes)
        return RunningRun(self, run.run_id)

    def worker(self, stack: ExitStack) -> "subprocess.Popen[bytes]":
        """An SDK worker in a process of its own; killed with the stack at the latest."""
        started = subprocess.Popen(
            [
                sys.executable, "-m", "tests.crash.worker_program",
                QUEUE, str(STEP_SECONDS), f"{LAYERS - 1}-", str(self.gate),
            ],
            cwd=CHECKOUT,
            env=environment(TENURE_URL=self.up.url, TENURE_TOKEN=self.fleet),
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(kill, started)
        return started

    def kill_part(self, word: str) -> None:
        """The first process with `word` in its command line; it may be on its way back from an earlier test."""
        until(lambda: any(word in words for words in self.up.processes().values()), word)
        os.kill(self.up.pid_of(word), signal.SIGKILL)

    def kill_everything(self) -> None:
        """`up` and all that it has started, PostgreSQL's processes too."""
        for pid in sorted(self.up.processes()):
            with suppress(ProcessLookupError):  # it went down with another one
                os.kill(pid, signal.SIGKILL)
        self.up.stop(signal.SIGKILL)

    def start_again(self) -> None:
        """On the same state folder and port."""
        self.up = Up(self.up.state, port=self.up.port).until_running()

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        url = (self.up.state / "database_url").read_text().strip()
        with psycopg.connect(url) as connection:
            return connection.execute(sql, parameters).fetchall()

    def rules_that_do_not_hold(self) -> dict[str, Any]:
        url = (self.up.state / "database_url").read_text().strip()
        with psycopg.connect(url) as connection, connection.cursor() as cursor:
            return broken_rules(cursor)


@dataclass
class RunningRun:
    at: Installation
    run_id: str

    def committed(self) -> int:
        """Canonical commits so far; none where the database is away just now."""
        try:
            return int(
                self.at.rows(
                    "SELECT count(*) FROM coordinator_canonicalcommit c JOIN coordinator_task t"
                    " ON t.task_id = c.task_id JOIN coordinator_run r ON r.id = t.run_id WHERE r.run_id = %s",
                    [self.run_id],
                )[0][0]
            )
        except (psycopg.OperationalError, OSError):
            return 0

    def until_halfway(self) -> None:
        until(lambda: self.committed() >= LAYERS * WIDTH // 3, "a third of the run")
        assert self.committed() < LAYERS * WIDTH, "the run was over before anything was killed"

    def until_complete(self) -> None:
        self.at.gate.touch()
        until(lambda: self.committed() >= LAYERS * WIDTH, "the run to complete")
        until(lambda: self.state() != "ACTIVE", "the run to be settled")

    def state(self) -> str:
        rows = self.at.rows("SELECT state FROM coordinator_run WHERE run_id = %s", [self.run_id])
        return str(rows[0][0])

    def must_be_whole(self) -> None:
        """COMMITTED, with one canonical commit and one committed attempt a task, and everything else in order."""
        assert self.state() == "COMMITTED"
        commits = self.at.rows(
            "SELECT t.node_id, count(DISTINCT c.result_commit_id), count(DISTINCT a.attempt_id)"
            " FROM coordinator_task t JOIN coordinator_run r ON r.id = t.run_id"
            " LEFT JOIN coordinator_canonicalcommit c ON c.task_id = t.task_id"
            " LEFT JOIN coordinator_attempt a ON a.task_id = t.task_id AND a.state = 'COMMITTED'"
            " WHERE r.run_id = %s GROUP BY 1",
            [self.run_id],
        )
        assert len(commits) == LAYERS * WIDTH
        assert {counts for _, *rest in commits for counts in [tuple(rest)]} == {(1, 1)}
        assert not self.at.rules_that_do_not_hold()
