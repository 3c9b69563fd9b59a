"""Cooperative stop: the first signal asks, the second insists."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from tenure.holdings import Wakeup


class StopSwitch:
    """How urgently the worker is to stop. Only a number is changed in the signal handler, and the worker rung."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._asked = 0

    @property
    def on(self) -> bool:
        """Claim nothing more; let handlers finish within the grace time."""
        return self._asked > 0

    @property
    def at_once(self) -> bool:
        """Give back what is still held, now."""
        return self._asked > 1

    def press(self) -> None:
        """Ask to stop; a second time, insist."""
        self._asked += 1
        self._wakeup.ring()

    @contextmanager
    def on_signals(self) -> Iterator[None]:
        """SIGTERM and SIGINT press the switch; the handlers that were there before are put back at the end.

        Python runs signal handlers in the main thread only; a worker in another thread is stopped by `press`.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: FrameType | None) -> None:
        self.press()
