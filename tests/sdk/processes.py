"""Worker processes of a test: started, listened to, signalled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, Self

from tests.sdk.conftest import Site
from tests.sdk.served import ROOT
from tests.sdk.threads import PATIENCE_SECONDS


class Program:
    """A Python module as a process; killed at the end of the `with`, whatever happened."""

    def __init__(self, module: str, *arguments: str, url: str, token: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**os.environ, "TENURE_URL": url, "TENURE_TOKEN": token},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        # A worker that says nothing must end the test, not hold it open.
        self._watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        self._watchdog.daemon = True
        self._watchdog.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watchdog.cancel()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def until(self, beginning: str) -> str:
        """Read on until a line begins so; the line."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.strip())
            if line.startswith(beginning):
                return line.strip()
        raise AssertionError(f"the worker ended without {beginning!r}: {self.lines}")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def go(self) -> None:
        """Let its handler return."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def counts(self) -> dict[str, Any]:
        """What it said at its own end."""
        found: dict[str, Any] = json.loads(self.until("{"))
        assert self._process.wait(60) == 0
        return found

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(60)


class Process(Program):
    """`tests.sdk.program` with a queue."""

    def __init__(
        self, site: Site, *, until: str, grace: float = 20, url: str | None = None
    ) -> None:
        super().__init__(
            "tests.sdk.program",
            site.queue,
            until,
            str(grace),
            url=url or site.url,
            token=site.token,
        )
