"""A seeded scheduler over real connections: each statement of a service waits for its turn.

Services send their statements in rounds (coordinator/rounds.py). Here a round is taken apart:
before each statement the player stops, and the scheduler says who may send its next one. Who
then waits for a lock, as PostgreSQL itself says, is left waiting, and the others go on. So the
locks, snapshots and clocks are the real ones, and only the order is ours.
"""

import queue
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

import psycopg
import pytest
from django.db import connection

from coordinator import pipeline
from coordinator.pipeline import Statement

#: How long a player may take for a statement before PostgreSQL is asked whether it waits for a lock.
GLANCE_SECONDS: Final = 0.004
#: A player that is neither back nor waiting for a lock by then has hung: the test fails.
HUNG_SECONDS: Final = 60.0


class At(Enum):
    """Where a player is."""

    YIELD = auto()  # before a statement, waiting for its turn
    SENDING = auto()
    BLOCKED = auto()  # waiting for a lock that another holds
    FINISHED = auto()


class Cut(Enum):
    """How a connection breaks."""

    BEFORE = auto()  # the statement never reached the server
    AFTER = auto()  # it ran; its answer, that of a COMMIT too, is lost


@dataclass(slots=True)
class Player:
    """One thread with one connection, for many schedules. `pid` is the connection's."""

    number: int
    at: At = At.FINISHED
    pid: int = 0
    answer: Any = None
    error: BaseException | None = None
    sent: int = 0
    cut: tuple[int, Cut] | None = None  # which statement, and how; once
    was_cut: bool = False
    turn: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    calls: "queue.Queue[Callable[[], Any] | None]" = field(default_factory=queue.Queue)


class Stage:
    """So many players. `perform` runs one call of each, in an order that the seed says."""

    def __init__(self, players: int) -> None:
        self._moved = threading.Condition()
        self.players = [Player(number) for number in range(players)]
        self.seen: Counter[str] = Counter()
        self.twist: Callable[[Statement], Statement] = lambda statement: statement
        self._monitor = psycopg.connect(**_parameters(), autocommit=True)
        self._threads = [
            threading.Thread(target=self._play, args=(player,), daemon=True)
            for player in self.players
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        for player in self.players:
            player.calls.put(None)
        for thread in self._threads:
            thread.join(HUNG_SECONDS)
        self._monitor.close()

    def perform(self, calls: Sequence[Callable[[], Any]], *, seed: object) -> list[Any]:
        """The answers, in the order of the calls. Raises what a call raised."""
        chance, players, last = random.Random(str(seed)), self.players[: len(calls)], None
        turns = 0
        for player, call in zip(players, calls, strict=True):
            player.answer, player.error, player.sent, player.at = None, None, 0, At.SENDING
            player.calls.put(call)
        while True:
            ready = self._ready(players)
            if not ready:
                break
            player = chance.choice(ready)
            turns += last is not None and last is not player
            last = player
            self._give_turn(player)
        self.seen["schedules"] += 1
        self.seen["turns passed"] += turns
        self.seen["interleaved"] += turns >= len(calls)
        for player in players:
            if player.error is not None:
                raise player.error
        return [player.answer for player in players]

    def _ready(self, players: Sequence[Player]) -> list[Player]:
        """Who may go on; waits while everybody is busy or blocked. Empty once all have finished."""
        with self._moved:
            done = self._moved.wait_for(
                lambda: (
                    all(player.at is not At.SENDING for player in players)
                    and (
                        any(player.at is At.YIELD for player in players)
                        or all(player.at is At.FINISHED for player in players)
                    )
                ),
                HUNG_SECONDS,
            )
            assert done, [(player.number, player.at, player.sent) for player in players]
            return [player for player in players if player.at is At.YIELD]

    def _give_turn(self, player: Player) -> None:
        with self._moved:
            player.at = At.SENDING
            player.turn.release()
            while not self._moved.wait_for(lambda: player.at is not At.SENDING, GLANCE_SECONDS):
                if player.pid and self._waits_for_a_lock(player.pid):
                    player.at = At.BLOCKED
                    self.seen["waited for a lock"] += 1

    def _waits_for_a_lock(self, pid: int) -> bool:
        row = self._monitor.execute("SELECT cardinality(pg_blocking_pids(%s))", [pid]).fetchone()
        return row is not None and row[0] > 0

    # --- in the player's thread -----------------------------------------------------------------

    def _play(self, player: Player) -> None:
        _playing.me = (self, player)
        while (call := player.calls.get()) is not None:
            try:
                _let_pause()
                player.answer = call()
            except BaseException as error:  # noqa: BLE001 - raised again by `perform`
                player.error = error
            finally:
                self._move(player, At.FINISHED)
        with connection.cursor() as cursor:
            for name in _LIMITS:
                cursor.execute(f"RESET {name}")
        connection.close()

    def _move(self, player: Player, at: At) -> None:
        with self._moved:
            player.at = at
            self._moved.notify_all()

    def step(
        self, player: Player, raw: "psycopg.Connection[Any]", statement: Statement
    ) -> list[tuple[Any, ...]]:
        """Wait for the turn, then send this one statement."""
        player.pid = raw.info.backend_pid
        self._move(player, At.YIELD)
        player.turn.acquire()
        player.sent += 1
        cut = player.cut[1] if player.cut and player.cut[0] == player.sent else None
        player.was_cut |= cut is not None
        if cut is Cut.BEFORE:
            _break(raw)
        (rows,) = _run(raw, [self.twist(statement)])
        if cut is Cut.AFTER:
            _break(raw)
        return rows


#: A schedule pauses wherever it likes; that is no reason to give up.
_LIMITS: Final = ("lock_timeout", "statement_timeout", "idle_in_transaction_session_timeout")


def _let_pause() -> None:
    with connection.cursor() as cursor:
        for name in _LIMITS:
            cursor.execute(f"SET {name} = 0")


_playing = threading.local()
_run: Final = pipeline.run


def _stepped(raw: "psycopg.Connection[Any]", statements: Sequence[Statement]) -> list[Any]:
    playing: tuple[Stage, Player] | None = getattr(_playing, "me", None)
    if playing is None:
        return _run(raw, statements)
    stage, player = playing
    return [stage.step(player, raw, statement) for statement in statements]


def _break(raw: "psycopg.Connection[Any]") -> None:
    raw.pgconn.finish()
    raise psycopg.OperationalError("the connection was cut by the schedule")


def _parameters() -> dict[str, Any]:
    wanted = ("host", "port", "user", "password", "dbname")
    given = connection.get_connection_params()
    return {key: given[key] for key in wanted if given.get(key)}


@contextmanager
def stage(players: int) -> Iterator[Stage]:
    """Players whose statements wait for their turn; everybody else's go as ever."""
    made = Stage(players)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "run", _stepped)
        try:
            yield made
        finally:
            made.close()
