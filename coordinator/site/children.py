"""The processes that `up` starts: each in a session of its own, watched, restarted a bounded number of times, stopped.

Nothing here ever signals a process that it did not start: a group is only signalled while its leader is ours and
not yet reaped, so its number cannot belong to anyone else.
"""

import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from coordinator.site.kinship import dies_with_parent

LOG_LIMIT_BYTES = 16 * 1024 * 1024
RESTARTS = 5
RESTART_WINDOW_SECONDS = 120.0
PAUSE_SECONDS = 0.05
# Not on macOS before Python 3.13: there a leader is reaped when it is noticed, and its group is left to die by itself.
CAN_LOOK_WITHOUT_REAPING = hasattr(os, "waitid")


@dataclass(frozen=True, slots=True)
class Plan:
    """How to run one child. `log` None: it writes to our terminal. `needed`: we give up when it can't be kept alive."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path | None
    grace_seconds: float
    needed: bool = True


@dataclass(slots=True)
class Child:
    """One running plan."""

    plan: Plan
    process: subprocess.Popen[bytes] | None = None
    starts: deque[float] = field(default_factory=deque)
    asked: bool = False

    def start(self) -> None:
        self.starts.append(time.monotonic())
        log = self.plan.log
        output = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists() and log.stat().st_size > LOG_LIMIT_BYTES:
                log.replace(log.with_suffix(".log.1"))
            output = log.open("ab")
        try:
            self.process = subprocess.Popen(
                self.plan.command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT if output else None,
                cwd=self.plan.folder,
                env=dict(self.plan.environment),
                start_new_session=True,  # Ctrl-C reaches us alone; we stop the others in order
                preexec_fn=dies_with_parent(signal.SIGTERM),  # noqa: PLW1509 - one system call
            )
        finally:
            if output is not None:
                output.close()

    def has_exited(self) -> bool:
        """True when the leader is gone. It stays unreaped, so that its number remains ours."""
        if self.process is None or self.process.returncode is not None:
            return True
        if not CAN_LOOK_WITHOUT_REAPING:
            return self.process.poll() is not None
        return (
            os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        )

    def sweep(self) -> int:
        """After the leader's exit: kill what is left of its session's group, reap it, and return its exit code."""
        assert self.process is not None
        if self.process.returncode is None:
            self._signal_group(signal.SIGKILL)
        return self.process.wait()

    def ask_to_stop(self) -> None:
        """SIGTERM, once: some take a second one for impatience."""
        if not self.asked and not self.has_exited():
            assert self.process is not None
            self.process.send_signal(signal.SIGTERM)
        self.asked = True

    def stop(self, *, hurry: Callable[[], bool]) -> None:
        """SIGTERM, wait for the grace time (or until `hurry`), then end the whole group."""
        if self.process is None:
            return
        self.ask_to_stop()
        deadline = time.monotonic() + self.plan.grace_seconds
        while not self.has_exited() and time.monotonic() < deadline and not hurry():
            time.sleep(PAUSE_SECONDS)
        self.sweep()

    def may_restart(self) -> bool:
        """At most RESTARTS starts again within RESTART_WINDOW_SECONDS."""
        horizon = time.monotonic() - RESTART_WINDOW_SECONDS
        while self.starts and self.starts[0] < horizon:
            self.starts.popleft()
        return len(self.starts) <= RESTARTS

    def last_words(self, lines: int = 5) -> str:
        """The end of its log, for the line that tells of its death."""
        if self.plan.log is None or not self.plan.log.exists():
            return ""
        with self.plan.log.open("rb") as log:
            log.seek(max(0, self.plan.log.stat().st_size - 4096))
            text = log.read().decode(errors="replace")
        return "\n".join(f"    {line}" for line in text.splitlines()[-lines:] if line.strip())

    def _signal_group(self, number: signal.Signals) -> None:
        assert self.process is not None
        try:
            os.killpg(self.process.pid, number)
        except (
            ProcessLookupError,
            PermissionError,
        ):  # an empty group; macOS says "not permitted" for zombies
            return


def how_it_ended(code: int) -> str:
    """Either `exit code 3` or `killed by SIGKILL`."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
