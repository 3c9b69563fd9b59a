"""Processes that may be frozen, killed and started again."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.site.kinship import dies_with_parent
from tests.sdk.served import ROOT


@dataclass
class Part:
    """One process and its children, in a session of their own. Start it from the main thread."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    is_frozen: bool = False
    #: How often what was done to it.
    deaths: int = 0
    freezes: int = 0
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def of_module(
        cls, name: str, module: str, *arguments: str, environment: Mapping[str, str], log: Path
    ) -> Part:
        return cls(name, [sys.executable, "-m", module, *arguments], environment, log)

    def start(self) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=ROOT,
                env=dict(self.environment),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
                preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one system call
            )

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def say(self, line: str) -> None:
        """A line to its standard input; lost where it is dead."""
        if self.process is not None and self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.write(line.encode() + b"\n")
                self.process.stdin.flush()

    def freeze(self) -> None:
        self._signal(signal.SIGSTOP)
        self.is_frozen = True
        self.freezes += 1

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)
        self.is_frozen = False

    def kill(self) -> None:
        """kill -9 to all of it, at once."""
        self._signal(signal.SIGKILL)
        self.is_frozen = False
        if self.process is not None:
            self.process.wait(60)
            if self.process.stdin is not None:
                with contextlib.suppress(OSError):
                    self.process.stdin.close()

    def _signal(self, number: signal.Signals) -> None:
        if self.process is None or self.process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
