"""Waiting for work: on the server's hint, in a thread of its own so that a stop never has to wait for it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence

from tenure.attempts import AttemptCalls
from tenure.holdings import Wakeup
from tenure.retrying import spread

log = logging.getLogger("tenure")

#: The longest that one hint is waited for; the server allows 30.
HINT_SECONDS = 20
#: Without a hint, asking for work goes on at this pace.
FALLBACK_SECONDS = 5.0
#: Hints that led to no claim (a faster worker, a task behind many of other kinds) slow the asking down to this.
LONGEST_PAUSE_SECONDS = 5.0
FIRST_PAUSE_SECONDS = 0.05


class HintWaiter:
    """At most one hint is waited for at a time. Losing it delays work and loses none."""

    def __init__(self, calls: AttemptCalls, wakeup: Wakeup, *, kinds: Sequence[str] = ()) -> None:
        self._calls = calls
        self._kinds = kinds
        self._wakeup = wakeup
        self._asked = threading.Semaphore(0)
        self._waiting = threading.Event()
        self._pause_seconds = 0.0
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="tenure-hint", daemon=True)

    def start(self) -> None:
        """Start the thread. It is never joined: it ends with the process, or when its connection is closed."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the hint that it may be waiting for."""
        self._stopped = True
        self._asked.release()

    @property
    def waiting(self) -> bool:
        """Whether an answer is still due."""
        return self._waiting.is_set()

    @property
    def pause_seconds(self) -> float:
        """How long to wait after the last answer before asking for work."""
        return self._pause_seconds

    def ask(self) -> None:
        """Wait for the next hint; rings when it has come."""
        if not self._waiting.is_set():
            self._waiting.set()
            self._asked.release()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if self._stopped:
                return
            self._pause_seconds = self._wait()
            self._waiting.clear()
            self._wakeup.ring()

    def _wait(self) -> float:
        began = time.monotonic()
        try:
            hint = self._calls.hint(HINT_SECONDS, kinds=self._kinds)
        except Exception as error:  # noqa: BLE001 - a waiter that is gone would leave the worker idle for ever
            log.debug("no hint: %s", error)
            return max(0.0, jittered(FALLBACK_SECONDS) - (time.monotonic() - began))
        if hint.poll_after_seconds:
            return jittered(hint.poll_after_seconds)
        return 0.0


class Patience:
    """Pauses that double while nothing comes of asking, with jitter, and start anew once something does."""

    def __init__(self, first_seconds: float, longest_seconds: float) -> None:
        self._first = first_seconds
        self._longest = longest_seconds
        self._next = first_seconds

    def reset(self) -> None:
        """Something came of it."""
        self._next = self._first

    def pause_seconds(self) -> float:
        """The next pause."""
        pause = jittered(self._next)
        self._next = min(self._longest, self._next * 2)
        return pause


def jittered(seconds: float) -> float:
    """Between the time and a quarter more: never earlier than was asked, and a fleet does not come back as one."""
    return seconds * spread(1.0, 1.25)
