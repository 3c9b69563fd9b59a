"""Ties between a process and the ones it starts: children die with their parent, and no stranger is ever signalled."""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PR_SET_PDEATHSIG = 1
ON_LINUX = sys.platform.startswith("linux")


def dies_with_parent(death_signal: signal.Signals) -> Callable[[], None] | None:
    """A `preexec_fn` that has the kernel send `death_signal` to the child when we die, even by kill -9.

    Linux only (None elsewhere). The tie is to the *thread* that starts the child: start children from the main one.
    It is set after the switch of the user, which would clear it.
    """
    if not ON_LINUX:
        return None
    libc = ctypes.CDLL(None)
    parent = os.getpid()

    def tie() -> None:
        libc.prctl(PR_SET_PDEATHSIG, int(death_signal))
        if os.getppid() != parent:  # we died between the fork and the line above
            os._exit(1)

    return tie


def command_line(pid: int) -> list[str]:
    """The arguments that `pid` was started with; empty for a zombie, or when there is no such process."""
    if ON_LINUX:
        try:
            raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return []
        return [part.decode(errors="surrogateescape") for part in raw.split(b"\0") if part]
    shown = subprocess.run(
        ["/bin/ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True
    )
    return shown.stdout.split()


def signal_if(pid: int, number: signal.Signals, *, is_ours: Callable[[int], bool]) -> bool:
    """Send `number` to `pid` if `is_ours` says so; true when it was sent.

    On Linux the process is held by a pidfd while we look: a number that is recycled between the look and the signal
    cannot make us hit a stranger.
    """
    if not ON_LINUX:
        if not is_ours(pid):
            return False
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)
        return True
    try:
        handle = os.pidfd_open(pid)
    except OSError:  # no such process
        return False
    try:
        if not is_ours(pid):
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        return True
    finally:
        os.close(handle)
