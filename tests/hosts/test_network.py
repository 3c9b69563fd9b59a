"""The hosts themselves: they reach each other and nothing else, can be cut off, and never outlive their run."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from coordinator.site.kinship import command_line
from tests.hosts.network import Hosts, remove_what_dead_runs_left
from tests.site.launching import CHECKOUT
from tests.site.waiting import until

pytestmark = pytest.mark.xdist_group("hosts")

NAMED = Path("/run/netns")
#: A run that is killed with a program on one of its hosts; it tells its own number and the program's.
KILLED = """
import os, subprocess, sys
from tests.hosts.network import Hosts
hosts = Hosts("one")
hosts.__enter__()
program = subprocess.Popen(hosts.command("one", "sleep", "1000"))
print(os.getpid(), program.pid, flush=True)
sys.stdin.read()
"""


def reaches(hosts: Hosts, one: str, other: str) -> bool:
    with hosts.inside(other):
        listening = socket.create_server((hosts.address(other), 0))
    with listening, hosts.inside(one):
        try:
            socket.create_connection(listening.getsockname(), 1).close()
        except OSError:
            return False
        return True


def test_hosts_reach_each_other_until_one_is_cut_off_and_again_afterwards() -> None:
    with Hosts("one", "other") as hosts:
        until(lambda: reaches(hosts, "one", "other"), "the switch to know both")
        hosts.cut("other")
        assert not reaches(hosts, "one", "other")
        hosts.mend("other")
        until(lambda: reaches(hosts, "one", "other"), "the host to be back")
    assert list(NAMED.glob(f"tenure-hosts-{os.getpid()}-*")) == []


def test_a_host_reaches_nothing_of_the_machine_that_it_is_on() -> None:
    with Hosts("one") as hosts, socket.create_server(("127.0.0.1", 0)) as listening:
        with hosts.inside("one"), pytest.raises(OSError, match="refused"):
            socket.create_connection(listening.getsockname(), 1)
        socket.create_connection(listening.getsockname(), 1).close()


def test_what_a_killed_run_has_left_is_removed_by_the_next_one() -> None:
    run = subprocess.Popen(
        [sys.executable, "-c", KILLED],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with run:
        assert run.stdout is not None
        number, program = map(int, run.stdout.readline().split())
        until(lambda: command_line(program)[:1] == ["sleep"], "the program to be on its host")
        run.send_signal(signal.SIGKILL)
    left = f"tenure-hosts-{number}-*"
    assert {each.name.rpartition("-")[2] for each in NAMED.glob(left)} == {"one", "switch"}
    remove_what_dead_runs_left()
    assert list(NAMED.glob(left)) == []
    until(lambda: command_line(program) == [], "the program to be gone")
