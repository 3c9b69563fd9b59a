"""Hints that work may be claimable: workers wait for one instead of polling (contract 4, 7).

Only ever hints: losing all of them delays work by a second, it loses none. A process has one
listener (one connection, LISTEN) and wakes the requests that wait; these hold no transaction
and no connection meanwhile. NOTIFY is sent after the commit, on its own: inside it, it would
serialise all commits of the database.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import psycopg
from django.db import DatabaseError, connection

from coordinator.intake_shares import place_sql
from coordinator.outcomes import Refusal, not_found

from . import queue_ids

CHANNEL: Final = "tenure_ready"
#: Beyond so many waiting requests a process answers at once: they must not starve the rest.
MAX_WAITING: Final = 24
MAX_WAIT_SECONDS: Final = 30
POLL_AFTER_SECONDS: Final = 2.0
#: Whether there is work of some kinds is looked for among the next so many tasks; beyond them there may be.
KINDS_AMONG: Final = 1_000
#: After a call that was for other kinds the next look comes so much later at the earliest.
VAIN_PAUSE_SECONDS: Final = 0.05
#: How often the listener looks by itself: for `not_before`s that come due, lapsed leases, lost NOTIFYs.
LOOK_SECONDS: Final = 1.0
_RECONNECT_SECONDS: Final = 1.0
#: Of the connection's parameters. `options` has timeouts that would end a connection that only listens.
_NOT_THE_LISTENERS: Final = frozenset(
    {"options", "application_name", "pool", "context", "cursor_factory", "prepare_threshold"}
)

_log = logging.getLogger(__name__)

#: Where a queue's claims look: in SHADOW in the lane beside it.
_LANES: Final = """
SELECT q.id FROM unnest(%s::int[]) AS q(id) CROSS JOIN LATERAL (
  SELECT CASE WHEN b.rollout_stage = 'SHADOW' AND b.name NOT LIKE '%%~shadow'
              THEN (SELECT r.id FROM coordinator_queue r WHERE r.name = b.name || '~shadow') ELSE b.id END AS id,
         b.intake_share AS share
  FROM coordinator_queue b WHERE b.id = q.id) lane
"""
#: What a canary does not let in is no work: a worker would ask for it at once, and again.
_LET_IN: Final = f"(lane.share = 0 OR {place_sql('t.task_id')} < lane.share)"
_OPEN: Final = f"""
FROM coordinator_task t
WHERE t.queue_id = lane.id AND t.claimable_at IS NOT NULL AND t.claimable_at <= clock_timestamp() AND {_LET_IN}
"""
_LAPSED: Final = f"""
FROM coordinator_task t
WHERE t.queue_id = lane.id AND t.state = 'CLAIMED' AND t.claimable_at IS NULL
  AND t.lease_expires_at <= clock_timestamp() AND {_LET_IN}
"""
_MAY_HAVE_WORK: Final = f"{_LANES} WHERE EXISTS (SELECT 1 {_OPEN}) OR EXISTS (SELECT 1 {_LAPSED})"
_MAY_HAVE_KINDS: Final = f"""
{_LANES} WHERE EXISTS (SELECT 1 {_LAPSED} AND t.kind = ANY(%s::text[])) OR (
  SELECT bool_or(n.kind = ANY(%s::text[])) OR count(*) = %s
  FROM (SELECT t.kind {_OPEN} ORDER BY t.priority DESC, t.claimable_at LIMIT %s) n)
"""  # noqa: S608 (constants of ours)


@dataclass(frozen=True, slots=True)
class Hint:
    may_have_work: bool
    poll_after_seconds: float = 0.0


def notify(queue_id: int) -> None:
    """Tell waiting workers that the queue may have work. Never fails its caller: it is only a hint."""
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(queue_id)])
    except DatabaseError:
        _log.warning("hint not sent", exc_info=True)


def wait_for_work(
    *, queue: str, wait_seconds: float = 0, kinds: Sequence[str] | None = None
) -> Hint | Refusal:
    """Answer when the queue may have work, of `kinds` if given, or after `wait_seconds` (at most MAX_WAIT_SECONDS).

    Beyond MAX_WAITING waiting requests of this process it answers at once, with
    `poll_after_seconds`. Where KINDS_AMONG tasks of other kinds come first, there may be some behind them.
    """
    queue_id = next(queue_ids.candidates(queue), None)
    if queue_id is None:
        return not_found("queue")
    ticket = _board.ticket(queue_id)  # taken before the look, so that nothing is missed in between
    try:
        if _may_have_work(queue_id, kinds):
            return Hint(True)
        seconds = min(float(wait_seconds), MAX_WAIT_SECONDS)
        if seconds <= 0:
            return Hint(False, POLL_AFTER_SECONDS)
        if not _board.admit():
            return Hint(False, POLL_AFTER_SECONDS)
        try:
            connection.close()  # back to the pool: a waiting request holds none
            _listener.ensure_running()
            return Hint(_wait(queue_id, ticket, seconds, kinds))
        finally:
            _board.leave()
    finally:
        _board.drop(queue_id)


def _may_have_work(queue_id: int, kinds: Sequence[str] | None) -> bool:
    with connection.cursor() as cursor:
        if kinds is None:
            cursor.execute(_MAY_HAVE_WORK, [[queue_id]])
        else:
            wanted = list(kinds)
            cursor.execute(_MAY_HAVE_KINDS, [[queue_id], wanted, wanted, KINDS_AMONG, KINDS_AMONG])
        return bool(cursor.fetchall())


def _wait(queue_id: int, ticket: int, seconds: float, kinds: Sequence[str] | None) -> bool:
    """Until the queue is called for; for some kinds, until a look after that finds one of them."""
    until = time.monotonic() + seconds
    while _board.wait(queue_id, ticket, until - time.monotonic()):
        if kinds is None:
            return True
        ticket = _board.called(queue_id)
        found = _may_have_work(queue_id, kinds)
        connection.close()
        if found:
            return True
        time.sleep(min(VAIN_PAUSE_SECONDS, max(0.0, until - time.monotonic())))
    return False


@dataclass
class _Board:
    """Who waits for which queue, and how often each has been called."""

    changed: threading.Condition = field(default_factory=threading.Condition)
    calls: dict[int, int] = field(default_factory=dict)
    interest: dict[int, int] = field(default_factory=dict)
    waiting: int = 0

    def ticket(self, queue_id: int) -> int:
        with self.changed:
            self.interest[queue_id] = self.interest.get(queue_id, 0) + 1
            return self.calls.setdefault(queue_id, 0)

    def called(self, queue_id: int) -> int:
        """How often so far; for who waits already."""
        with self.changed:
            return self.calls[queue_id]

    def drop(self, queue_id: int) -> None:
        with self.changed:
            self.interest[queue_id] -= 1
            if not self.interest[queue_id]:
                del self.interest[queue_id], self.calls[queue_id]

    def admit(self) -> bool:
        with self.changed:
            if self.waiting >= MAX_WAITING:
                return False
            self.waiting += 1
            return True

    def leave(self) -> None:
        with self.changed:
            self.waiting -= 1

    def wait(self, queue_id: int, ticket: int, seconds: float) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.calls[queue_id] != ticket, timeout=seconds)

    def call(self, called: list[int]) -> None:
        with self.changed:
            for queue_id in called:
                if queue_id in self.calls:
                    self.calls[queue_id] += 1
            self.changed.notify_all()

    def wanted(self) -> list[int]:
        with self.changed:
            return list(self.interest)


class _Listener:
    """One thread a process, started by the first waiting request; ends when nobody waits for long."""

    idle_seconds: Final = 60.0

    def __init__(self, board: _Board) -> None:
        self._board = board
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._turn = 0
        self._is_running = False
        self._last_wanted = 0.0

    def ensure_running(self) -> None:
        """For who is on the board already: the listener ends only where nobody is."""
        with self._lock:
            if self._thread is None or not self._is_running or not self._thread.is_alive():
                self._turn, self._is_running, self._last_wanted = (
                    self._turn + 1,
                    True,
                    time.monotonic(),
                )
                self._thread = threading.Thread(
                    target=self._run, args=[self._turn], name="tenure-hints", daemon=True
                )
                self._thread.start()

    def _run(self, turn: int) -> None:
        while not self._ends(turn):
            try:
                with psycopg.connect(_conninfo(), autocommit=True) as listening:
                    listening.execute(f"LISTEN {CHANNEL}")
                    while not self._ends(turn):
                        self._listen(listening)
            except psycopg.Error:
                _log.warning("hints: the listener lost its connection", exc_info=True)
                time.sleep(_RECONNECT_SECONDS)

    def _ends(self, turn: int) -> bool:
        """Whether nobody has waited for long. Who comes at this very moment finds it here, or starts another one:
        that one's turn has come then, and this one's stays over.
        """
        with self._lock:
            now = time.monotonic()
            if turn != self._turn:
                return True
            if self._board.wanted():
                self._last_wanted = now
            elif now - self._last_wanted >= self.idle_seconds:
                self._is_running = False
            return not self._is_running

    def _listen(self, listening: "psycopg.Connection[tuple[object, ...]]") -> None:
        for note in listening.notifies(timeout=LOOK_SECONDS, stop_after=1):
            self._board.call([int(note.payload)])
            return
        wanted = self._board.wanted()
        if wanted:
            rows = listening.execute(_MAY_HAVE_WORK, [wanted]).fetchall()
            self._board.call([int(str(row[0])) for row in rows])


def listener_name() -> str:
    """What this process's listener is called in pg_stat_activity."""
    return f"tenure hints {os.getpid()}"


def _conninfo() -> str:
    """Where the listener connects, as everybody does (TLS and keepalives, too), but for the server's own timeouts."""
    parameters = connection.get_connection_params()
    wanted = {
        key: value
        for key, value in parameters.items()
        if key not in _NOT_THE_LISTENERS and value not in (None, "")
    }
    return psycopg.conninfo.make_conninfo("", **wanted, application_name=listener_name())


_board: Final = _Board()
_listener: Final = _Listener(_board)
