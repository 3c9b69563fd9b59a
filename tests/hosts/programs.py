"""Programs on a host: started, waited for, killed as when the power fails."""

import os
import signal
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.site.kinship import dies_with_parent
from tests.hosts.network import Hosts
from tests.site.launching import CHECKOUT
from tests.site.waiting import until


class Program:
    """One program and what it starts itself. In a `with`; it may be killed and started again."""

    def __init__(
        self,
        hosts: Hosts,
        host: str,
        *words: str,
        log: Path,
        environment: Mapping[str, str],
        port: int = 0,
    ) -> None:
        """`port`: where it answers once it is ready; 0: it needn't be waited for."""
        self._hosts, self._host, self._log, self._port = hosts, host, log, port
        self._command = hosts.command(host, *words)
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=CHECKOUT,
                env=self._environment,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one system call
            )

    def until_ready(self) -> Self:
        until(self._answers, f"{self._command[4]} on {self._host}, see {self._log.name}")
        return self

    def kill(self) -> None:
        """All of its processes at once."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
        if self._port:  # its children are nobody's to wait for
            until(lambda: not self._listens(), f"{self._host} to stop listening")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text(errors="replace")[-3000:]
        return self._listens()

    def _listens(self) -> bool:
        with self._hosts.inside(self._host):
            try:
                socket.create_connection((self._hosts.address(self._host), self._port), 1).close()
            except OSError:
                return False
        return True
