"""The claims that this process holds, and the one signal that something about them changed."""

from __future__ import annotations

import queue
import threading
import time

from tenure.claim import Claim


class Wakeup:
    """Wakes the one thread that runs the worker.

    A SimpleQueue because its `put` may be called from a signal handler while the same thread waits in `get`; an Event
    or a Condition would deadlock there.
    """

    def __init__(self) -> None:
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()

    def ring(self) -> None:
        """Wake it."""
        self._tokens.put(None)

    def wait(self, seconds: float) -> None:
        """Sleep until somebody rings, at most so long; rings that piled up count once."""
        try:
            self._tokens.get(timeout=max(0.0, seconds))
        except queue.Empty:
            return
        while True:
            try:
                self._tokens.get_nowait()
            except queue.Empty:
                return


class Holdings:
    """A registry by attempt. A claim is in it from its grant until its end has been told, or given up on."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup
        self._lock = threading.Lock()
        self._claims: dict[str, Claim] = {}

    def add(self, claim: Claim) -> bool:
        """Hold a claim; False where it is held already (a repeated claim lists what we have)."""
        with self._lock:
            if claim.attempt_id in self._claims:
                return False
            self._claims[claim.attempt_id] = claim
            return True

    def drop(self, claim: Claim) -> None:
        """Hold it no longer."""
        with self._lock:
            self._claims.pop(claim.attempt_id, None)
        self._wakeup.ring()

    def all(self) -> list[Claim]:
        """Those held now."""
        with self._lock:
            return list(self._claims.values())

    def __len__(self) -> int:
        with self._lock:
            return len(self._claims)

    def wait_until_empty(self, deadline: float) -> bool:
        """Wait until nothing is held, at most until `deadline` on the monotonic clock."""
        while len(self):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self._wakeup.wait(left)
        return True
