"""The member processes: started, listened to, frozen, woken and stopped. Never any process but these."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

NAMES = ("ada", "grace", "edsger", "barbara", "tony", "leslie", "frances", "niklaus")
STOP_SECONDS = 10.0
#: A member that dies is started again, so often; then something is wrong that restarts don't mend.
MOST_RESTARTS = 5


@dataclass(frozen=True)
class Line:
    """What a member said; `{"what": "ended"}` when it is no more."""

    member: Member
    said: dict[str, Any]


@dataclass(eq=False)
class Member:
    """One process and its name."""

    name: str
    process: subprocess.Popen[str]
    frozen: bool = False
    restarts: int = 0

    def freeze(self) -> None:
        """SIGSTOP: it does nothing more, not even notice."""
        self.process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def wake(self) -> None:
        """SIGCONT: it goes on where it was and knows of nothing."""
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False


@dataclass
class Crew:
    """All members, and everything that they say in one queue."""

    arguments: Sequence[str]
    environment: dict[str, str]
    members: list[Member] = field(default_factory=list)
    said: queue.SimpleQueue[Line] = field(default_factory=queue.SimpleQueue)

    _waiting: list[str] = field(default_factory=list)

    def start(self, size: int, *, hold_first: bool) -> None:
        """Start the members. The one to be frozen is the first, and alone until `start_others`.

        On a busy machine the others would have done all there is before it got anything to be frozen in.
        """
        names = [
            NAMES[number % len(NAMES)] + ("" if number < len(NAMES) else str(number))
            for number in range(size)
        ]
        if hold_first:
            self._start(names[0], ["--hold-first"], restarts=0)
            self._waiting = names[1:]
        else:
            self._waiting = names
            self.start_others()

    def start_others(self) -> None:
        """Start those who have waited, once."""
        names, self._waiting = self._waiting, []
        for name in names:
            self._start(name, [], restarts=0)

    def restart(self, member: Member) -> bool:
        """Start a member again that ended by itself; False when that has been tried often enough."""
        self.members.remove(member)
        if member.restarts >= MOST_RESTARTS:
            return False
        self._start(member.name, [], restarts=member.restarts + 1)
        return True

    def stop(self) -> None:
        """SIGTERM to each, a while for what they hold, and SIGKILL to whoever is left."""
        for member in self.members:
            if member.process.poll() is None:
                member.process.terminate()
                if member.frozen:
                    member.wake()
        deadline = time.monotonic() + STOP_SECONDS
        for member in self.members:
            try:
                member.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                member.process.kill()
                member.process.wait()

    def _start(self, name: str, more: Sequence[str], *, restarts: int) -> None:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "examples.review.member",
                "--name",
                name,
                *self.arguments,
                *more,
            ],
            env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            # Ctrl-C in a terminal reaches the whole group; members are stopped by us alone.
            start_new_session=True,
        )
        member = Member(name, process, restarts=restarts)
        self.members.append(member)
        threading.Thread(target=self._listen, args=(member,), daemon=True).start()

    def _listen(self, member: Member) -> None:
        assert member.process.stdout is not None
        with member.process.stdout as stream:
            for text in stream:
                try:
                    self.said.put(Line(member, json.loads(text)))
                except ValueError:
                    continue
        self.said.put(Line(member, {"what": "ended"}))
