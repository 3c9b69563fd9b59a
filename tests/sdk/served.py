"""A real coordinator on loopback: the web server as `up` starts it, on the test's own database."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
from django.db import connection

from coordinator.site.kinship import dies_with_parent
from coordinator.site.web import web_options
from tests.site.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Served:
    """One web server process. Stopped, killed and started again at will; always the same address."""

    def __init__(self, log: Path) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        url = urlsplit(os.environ["DATABASE_URL"])
        database = urlunsplit(url._replace(path=f"/{connection.settings_dict['NAME']}"))
        options = web_options(host="127.0.0.1", port=self.port, processes=1)
        command = [sys.executable, "-m", "granian", *options]
        environment = {**os.environ, "DATABASE_URL": database, "TENURE_DB_POOL_MAX": "16"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 - nothing but prctl
            )
        self._wait_until_ready()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)

    def kill(self) -> None:
        """kill -9 to the server and its worker process, at once."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(PATIENCE_SECONDS)

    def _wait_until_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            assert self._process.poll() is None, self._log.read_text()
            try:
                if httpx.get(f"{self.url}/api/v1/healthz", timeout=20).status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"no web server at {self.url}:\n{self._log.read_text()}")
