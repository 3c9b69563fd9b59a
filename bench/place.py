"""A place to measure in: a private PostgreSQL with stock durability, the web processes, and a queue on it."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from coordinator.site.postgres import Postgres
from coordinator.site.web import WEB_THREADS, threads_environment, web_options

ROOT = Path(__file__).resolve().parent.parent
QUEUE = "bench"
#: All processes of a place share it. It guards nothing: the place is on this machine alone, for a while.
SECRET = "known-to-everyone-who-reads-the-bench-and-so-no-secret"
READY_SECONDS = 60.0
#: Stock durability: fsync and synchronous_commit stay on. Only room for the clients is made.
SETTINGS = {"max_connections": "200"}


@dataclass(frozen=True, slots=True)
class Target:
    """Where clients of the API send to."""

    port: int
    token: str

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Place:
    """Everything that a measurement needs; gone when it is left, except for a `folder` that was given."""

    def __init__(
        self, *, folder: Path | None = None, web_workers: int = 2, web_threads: int = WEB_THREADS
    ) -> None:
        self.is_kept = folder is not None
        self.folder = folder.resolve() if folder else Path(tempfile.mkdtemp(prefix="tenure-bench-"))
        self.folder.mkdir(parents=True, exist_ok=True)
        self.folder.chmod(0o755)
        self.postgres = Postgres(self.folder, settings=SETTINGS)
        self.web_workers, self.web_threads = web_workers, web_threads
        self.web: subprocess.Popen[bytes] | None = None
        self.port = free_port()
        self.token = ""

    def __enter__(self) -> Self:
        try:
            self.postgres.start()
            self.manage("migrate", "--verbosity", "0", TENURE_DB_TIMEOUTS="off")
            self.token = self._find_credential()
            self.start_web()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self.stop_web()
        self.postgres.stop()
        if not self.is_kept:
            shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def target(self) -> Target:
        return Target(self.port, self.token)

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            **threads_environment(),
            "DATABASE_URL": self.postgres.url,
            "TENURE_STATE": str(self.folder),
            "TENURE_LOG_LEVEL": "WARNING",
            "SECRET_KEY": os.environ.get("SECRET_KEY") or SECRET,
            "PYTHONPATH": str(ROOT),
        }

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A superuser's connection. Writes to protected tables name a point, as everywhere."""
        connection = psycopg.connect(self.postgres.url, autocommit=True)
        connection.execute("SELECT set_config('tenure.point', 'bench', false)")
        return connection

    def start_web(self) -> None:
        command = [
            str(Path(sys.executable).with_name("granian")),
            *web_options(
                host="127.0.0.1",
                port=self.port,
                processes=self.web_workers,
                threads=self.web_threads,
            ),
        ]
        # In a session of its own: a Ctrl-C in the terminal is for us, and we stop it in order.
        self.web = subprocess.Popen(command, cwd=ROOT, env=self.environment, start_new_session=True)
        until = time.monotonic() + READY_SECONDS
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(
                    f"http://127.0.0.1:{self.port}/api/v1/readyz", timeout=2
                ):
                    return
            except OSError:
                time.sleep(0.1)
        raise RuntimeError("the web processes did not get ready")

    def stop_web(self) -> None:
        if self.web is not None:
            self.web.send_signal(signal.SIGTERM)
            self.web.wait(20)
            self.web = None

    def web_memory_mib(self) -> float:
        """Resident memory of the largest web process, in MiB."""
        assert self.web is not None
        children = Path(f"/proc/{self.web.pid}/task/{self.web.pid}/children").read_text().split()
        sizes = [_resident_mib(pid) for pid in [*map(int, children), self.web.pid]]
        return max(sizes)

    def _find_credential(self) -> str:
        """The token of a folder that was kept, or a new one."""
        kept = self.folder / "token"
        if not kept.exists():
            made = self._make_credential()
            kept.touch(mode=0o600)
            kept.write_text(made)
        return kept.read_text()

    def _make_credential(self) -> str:
        self.manage("shell", "--no-imports", "-c", _MAKE_QUEUE)
        told = self.manage(
            *("create_credential", "bench", "--pool", "bench", "--queue", QUEUE),
            *("--scope", "work", "--scope", "submit", "--json"),
        )
        token: str = json.loads(told)["token"]
        return token

    def manage(self, *arguments: str, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment | environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        return done.stdout


_MAKE_QUEUE = f"""
from coordinator.actors import system
from coordinator.services.queues import create_pool, create_queue
create_pool(name="bench", actor=system("bench"))
create_queue(name="{QUEUE}", active_pool="bench", actor=system("bench"))
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _resident_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    return 0.0


def fdatasync_per_second(folder: Path, writes: int = 150) -> int:
    """8 KiB appends with fdatasync: how fast the disk is just now. Compare only runs where it is alike."""
    with tempfile.NamedTemporaryFile(dir=folder) as file:
        begin = time.perf_counter()
        for _ in range(writes):
            os.write(file.fileno(), b"x" * 8192)
            os.fdatasync(file.fileno())
        return round(writes / (time.perf_counter() - begin))
