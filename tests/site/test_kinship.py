"""Nobody but our own children is ever signalled."""

import os
import signal
import subprocess
import sys

from coordinator.site.kinship import command_line, signal_if
from tests.site.waiting import until


def test_a_process_that_is_not_ours_gets_no_signal() -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        assert signal_if(sleeper.pid, signal.SIGKILL, is_ours=lambda pid: False) is False
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


def test_one_of_ours_gets_it() -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    ours = sleeper.pid
    assert signal_if(ours, signal.SIGTERM, is_ours=lambda pid: pid == ours) is True
    assert sleeper.wait() == -signal.SIGTERM


def test_a_number_that_nobody_has_is_no_error() -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    assert signal_if(gone.pid, signal.SIGKILL, is_ours=lambda pid: True) is False


def test_a_zombie_has_no_command_line() -> None:
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    assert command_line(zombie.pid) == []
    zombie.wait()


def test_a_child_dies_with_a_parent_that_is_killed() -> None:
    code = (
        "import subprocess, signal, time\n"
        "from coordinator.site.kinship import dies_with_parent\n"
        "child = subprocess.Popen(['sleep', '600'], preexec_fn=dies_with_parent(signal.SIGTERM))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    until(lambda: command_line(child) == [], "the child to follow its parent")
