"""Failed authentication is bounded per address, so that guessing and broken fleets cost little.

Kept in each server process: a bound that needs the database would be paid by every request,
and what it protects has 256 random bits. A prefix that was good here lately still gets
through: one broken worker must not lock out a fleet that shares its address.
"""

import threading
import time
from collections import OrderedDict
from typing import Final

MAX_FAILURES: Final = 30
WINDOW_SECONDS: Final = 60.0
MAX_ADDRESSES: Final = 10_000
MAX_PREFIXES: Final = 2_000


class FailureThrottle:
    """Counts failures of an address within a window that begins with the first of them."""

    def __init__(
        self, *, max_failures: int = MAX_FAILURES, window_seconds: float = WINDOW_SECONDS
    ) -> None:
        self.max_failures = max_failures
        self.window_seconds = window_seconds
        self._failures: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._good: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()

    def seconds_to_wait(self, address: str, prefix: str) -> int:
        """0 while the address may try; else how long its window lasts."""
        if not self._failures:
            return 0
        with self._lock:
            began, count = self._failures.get(address, (0.0, 0))
            left = began + self.window_seconds - time.monotonic()
            if count < self.max_failures or left <= 0 or prefix in self._good:
                return 0
            return int(left) + 1

    def note_failure(self, address: str) -> None:
        now = time.monotonic()
        with self._lock:
            began, count = self._failures.pop(address, (now, 0))
            if now - began > self.window_seconds:
                began, count = now, 0
            self._failures[address] = (began, count + 1)
            while len(self._failures) > MAX_ADDRESSES:
                self._failures.popitem(last=False)

    def note_success(self, prefix: str) -> None:
        if prefix in self._good:
            return
        with self._lock:
            self._good[prefix] = None
            while len(self._good) > MAX_PREFIXES:
                self._good.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._failures.clear()
            self._good.clear()


FAILURES: Final = FailureThrottle()
