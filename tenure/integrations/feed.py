"""A feed of legacy events: buffered in memory, sent by a thread of its own, never in the host's way.

Nothing here raises into the host, waits for the network in its threads, or grows without a bound.
What does not fit is dropped and counted; the count travels with the next batch.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tenure.errors import Problem, TenureError
from tenure.retrying import ONCE, Repeat, spread
from tenure.transport import Call, Transport, json_bytes

log = logging.getLogger("tenure.shadow")

#: Events that wait to be sent, at most; further ones are dropped and counted.
MAX_BUFFERED = 10_000
#: Of one request: the coordinator takes no more, and no body above a MiB.
MAX_BATCH = 500
#: How long an event waits for company.
FLUSH_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
TIMEOUT_SECONDS = 10.0
#: How long a process that ends waits for its last events to be sent.
LAST_SECONDS = 3.0

Event = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class FeedCounts:
    """What became of the events of this process. `dropped`: the buffer was full. `refused`: the coordinator
    would not have them. `errors`: faults of the feed itself, which the host never saw.
    """

    taken: int
    sent: int
    dropped: int
    refused: int
    errors: int


class Feed:
    """Takes events from any thread and sends them in order. One of its own in each process, also after a fork."""

    def __init__(
        self,
        *,
        url: str,
        token: str,
        queue: str,
        source: str,
        beat: Callable[[], None] | None = None,
    ) -> None:
        self._address = (url, token)
        self._transport().close()  # a wrong address or token is told at once, to who writes the line
        self._queue = queue
        self._source = source
        self.beat = beat
        self._start_anew()
        os.register_at_fork(after_in_child=self._start_anew)

    def _start_anew(self) -> None:
        """The parent's events are the parent's; locks and threads did not come through the fork."""
        self._events: deque[Event] = deque()
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._boot = uuid.uuid4().hex[:12]
        self._taken = self._sent = self._dropped = self._refused = self._errors = 0
        self._told_lost = 0
        self._warned = False

    @property
    def counts(self) -> FeedCounts:
        return FeedCounts(
            taken=self._taken,
            sent=self._sent,
            dropped=self._dropped,
            refused=self._refused,
            errors=self._errors,
        )

    def _transport(self) -> Transport:
        return Transport(*self._address, timeout_seconds=TIMEOUT_SECONDS, retry=ONCE, connections=1)

    def tell(self, *, task_key: str, event: str, owner: str, **told: Any) -> None:
        """Take an event, now; some microseconds, and no exception whatever happens."""
        try:
            self._taken += 1
            if len(self._events) >= MAX_BUFFERED:
                self._dropped += 1
                return
            self._events.append(
                {
                    "source": self._source,
                    "event_id": f"{self._boot}-{self._taken}-{uuid.uuid4().hex[:8]}",
                    "task_key": task_key[:500],
                    "event": event,
                    "owner": owner[:200],
                    "at": datetime.now(UTC).isoformat(),
                    **{name: value for name, value in told.items() if value is not None},
                }
            )
            self.run()
            if len(self._events) >= MAX_BATCH:
                self._wake.set()
        except Exception as error:  # noqa: BLE001 (the host must not notice)
            self.count_error(error)

    def run(self) -> None:
        """Start this process's sender, unless it runs."""
        if self._thread is not None and self._thread.is_alive():
            return
        with self._starting:
            if self._thread is None or not self._thread.is_alive():
                self._closing = False
                self._thread = threading.Thread(
                    target=self._send_on, name="tenure-shadow", daemon=True
                )
                self._thread.start()

    def count_error(self, error: Exception) -> None:
        """A fault of the feed: counted, told once in the log, never raised."""
        self._errors += 1
        if not self._warned:
            self._warned = True
            log.warning("the shadow feed had a fault; the host's tasks go on", exc_info=error)

    def flush(self, timeout_seconds: float = LAST_SECONDS) -> bool:
        """Wait until everything taken so far was sent, at most so long; whether it was."""
        deadline = time.monotonic() + timeout_seconds
        while self._events or (self._thread is not None and not self._idle.is_set()):
            if time.monotonic() >= deadline or self._thread is None:
                return not self._events
            self._wake.set()
            time.sleep(0.01)
        return True

    def close(self, timeout_seconds: float = LAST_SECONDS) -> None:
        """Send what is left, within the time, and end the thread. A later event starts it again."""
        self.flush(timeout_seconds)
        self._closing = True
        self._wake.set()

    # --- the thread ---------------------------------------------------------------------------

    def _send_on(self) -> None:
        thread, pause = threading.current_thread(), FLUSH_SECONDS
        transport = self._transport()
        try:
            while not self._closing and self._thread is thread:
                self._idle.set()
                self._wake.wait(pause)
                self._wake.clear()
                self._idle.clear()
                pause = self._round(transport, pause)
        finally:
            self._idle.set()
            transport.close()

    def _round(self, transport: Transport, pause: float) -> float:
        """Send everything that waits; how long to wait before the next look."""
        try:
            if self.beat is not None:
                self.beat()
            while self._events:
                if not self._send_batch(transport):
                    return spread(0.5, 1.0) * min(
                        LONGEST_PAUSE_SECONDS, max(FIRST_PAUSE_SECONDS, pause) * 2
                    )
        except Exception as error:  # noqa: BLE001 (the thread must live on)
            self.count_error(error)
            return FIRST_PAUSE_SECONDS
        return FLUSH_SECONDS

    def _send_batch(self, transport: Transport) -> bool:
        """One request with the oldest events. They leave the buffer when they are answered, whatever the answer."""
        batch = [self._events[place] for place in range(min(MAX_BATCH, len(self._events)))]
        lost = self._dropped + self._refused
        body = {"queue": self._queue, "events": batch, "lost": lost - self._told_lost}
        headers = {"Content-Type": "application/json"}
        call = Call(
            method="POST",
            path="shadow/events",
            content=json_bytes(body),
            headers=headers,
            repeat=Repeat.BY_NATURE,
        )
        try:
            answer = transport.send(call)
        except Problem as problem:
            if problem.status in (401, 403, 404, 429) or problem.status >= 500:
                self._tell_trouble(problem)
                return False  # somebody may mend that; the events wait as long as there is room
            self._refused += len(batch)
            self._tell_trouble(problem)
        except TenureError as error:
            self._tell_trouble(error)
            return False
        else:
            self._told_lost = lost
            self._sent += len(batch)
            self._refused += int(answer.body.get("refused", 0))
        for _ in batch:
            self._events.popleft()
        return True

    def _tell_trouble(self, error: Exception) -> None:
        if not self._warned:
            self._warned = True
            log.warning("the shadow feed can't deliver: %s", error)
