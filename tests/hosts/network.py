"""Hosts on this machine: Linux network namespaces on one bridge, each with an address of its own. They need root.

The bridge has a namespace of its own, too: nothing of it shows outside, and every run has the same addresses to itself.
A namespace's name tells whose it is, so that the next run removes what a killed one has left.
"""

import ctypes
import itertools
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

NETWORK: Final = "10.77.0.0/24"
MOST_HOSTS: Final = 200
_PREFIX: Final = "tenure-hosts"
_SWITCH: Final = "switch"
_NAMED: Final = Path("/run/netns")
_FILES: Final = Path("/etc/netns")  # `ip netns exec` lays what is there over /etc
_CLONE_NEWNET: Final = 0x40000000
_NUMBERS: Final = itertools.count()
_LIBC: Final = ctypes.CDLL(None, use_errno=True)


class NotLaidOut(Exception):
    """The machine refuses; a container's root needs CAP_NET_ADMIN and CAP_SYS_ADMIN."""


class Hosts:
    """`names` are the hosts. In a `with`; at its end, however it comes, whatever still runs on them is killed."""

    def __init__(self, *names: str) -> None:
        assert len(names) <= MOST_HOSTS
        self.names = names
        self._run = f"{_PREFIX}-{os.getpid()}-{_started(os.getpid())}-{next(_NUMBERS)}"

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise PermissionError("network namespaces need root: run these tests as root")
        remove_what_dead_runs_left()
        try:
            self._lay_out()
        except BaseException:
            _remove(self._run)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _remove(self._run)

    def address(self, name: str) -> str:
        return f"10.77.0.{2 + self.names.index(name)}"

    def know(self, name: str, addresses: dict[str, Sequence[str]]) -> None:
        """The host's own /etc/hosts: by name its addresses, in the order in which they are tried."""
        lines = [
            "127.0.0.1 localhost",
            *(f"{a} {n}" for n, many in addresses.items() for a in many),
        ]
        folder = _FILES / self._namespace(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text("\n".join(lines) + "\n")

    def command(self, name: str, *words: str) -> list[str]:
        """The command that runs `words` on a host, as the same process."""
        return ["ip", "netns", "exec", self._namespace(name), *words]

    @contextmanager
    def inside(self, name: str) -> Iterator[None]:
        """What this thread opens or starts meanwhile is the host's."""
        with Path("/proc/thread-self/ns/net").open() as home:
            with (_NAMED / self._namespace(name)).open() as there:
                _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def cut(self, name: str) -> None:
        """Pull the host's cable out of the switch: packets are lost in both directions, and nobody is told."""
        _ip("-n", self._namespace(_SWITCH), "link", "set", self._port(name), "down")

    def mend(self, name: str) -> None:
        _ip("-n", self._namespace(_SWITCH), "link", "set", self._port(name), "up")

    def _namespace(self, name: str) -> str:
        return f"{self._run}-{name}"

    def _port(self, name: str) -> str:
        return f"port{self.names.index(name)}"

    def _lay_out(self) -> None:
        switch = self._namespace(_SWITCH)
        _ip("netns", "add", switch)
        _ip("-n", switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", switch, "link", "set", "bridge", "up")
        for name in self.names:
            host, port = self._namespace(name), self._port(name)
            _ip("netns", "add", host)
            _ip("-n", switch, *f"link add {port} type veth peer name eth0 netns {host}".split())
            _ip("-n", switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", host, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
            _ip("-n", host, "link", "set", "lo", "up")
            _ip("-n", host, "link", "set", "eth0", "up")


def remove_what_dead_runs_left() -> None:
    """The namespaces of runs whose process is gone, and what runs in them."""
    runs = {"-".join(each.name.split("-")[:5]) for each in _NAMED.glob(f"{_PREFIX}-*")}
    for run in runs:
        pid, started, _ = run.removeprefix(f"{_PREFIX}-").split("-")
        if _started(int(pid)) != started:
            _remove(run)


def _remove(run: str) -> None:
    for namespace in sorted(each.name for each in _NAMED.glob(f"{run}-*")):
        _kill_all_in(namespace)
        with suppress(NotLaidOut):  # another run has just removed it as well
            _ip("netns", "delete", namespace)
        shutil.rmtree(_FILES / namespace, ignore_errors=True)
    with suppress(OSError):
        _FILES.rmdir()


def _kill_all_in(namespace: str) -> None:
    """Nobody but what was started on the host is in its namespace; one that forks is found again."""
    while pids := _ip_or_nothing("netns", "pids", namespace).split():
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], check=False, capture_output=True, text=True)
    if done.returncode:
        raise NotLaidOut(f"ip {' '.join(words)}: {done.stderr.strip()}")


def _ip_or_nothing(*words: str) -> str:
    return subprocess.run(["ip", *words], check=False, capture_output=True, text=True).stdout


def _started(pid: int) -> str:
    """When a process was started, in ticks: with its number it names it for ever. Empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""
