"""Single calls that arrive while others are under way, sent as one batch (performance.md).

Most of what a transaction costs is fixed, however many calls it serves. Nobody waits for others to
come: who arrives where a lane is free is sent at once, alone; who arrives meanwhile is
gathered, and goes with the next batch as soon as a lane is free again. So an idle server answers
as fast as ever, and a busy one spends less on each call.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar, cast

Item = TypeVar("Item")
Answer = TypeVar("Answer")

#: Calls in one batch, at most; a process has not many more threads.
MAX_GATHERED: Final = 50
#: Who has waited so long for a batch that is under way (on a row that another holds) opens another lane.
PATIENCE_SECONDS: Final = 0.05
MAX_LANES: Final = 4

Send = Callable[[Sequence[Item]], Sequence[Answer]]


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


@dataclass(slots=True, eq=False)
class _Ticket(Generic[Item]):
    """One call: its own thread waits until it is answered, or has to send a batch or itself."""

    item: Item
    #: Locked until it is answered, appointed or left alone, each of which happens once. An Event does the same with a
    #: condition and three locks, which a busy server spends a twentieth of its time on.
    turn: threading.Lock = field(default_factory=_locked)
    answer: object = None
    is_answered: bool = False
    leads: "list[_Ticket[Item]] | None" = None


@dataclass(slots=True)
class _Line(Generic[Item]):
    lanes: int = 0
    waiting: list[_Ticket[Item]] = field(default_factory=list)


class Gathering(Generic[Item, Answer]):
    """Calls that `send` takes many of, and answers in order. Those with one key may go together."""

    def __init__(self, *, before_waiting: Callable[[], None] = lambda: None) -> None:
        """`before_waiting`: called by who waits for others, to let go of what these may need to go on."""
        self._before_waiting = before_waiting
        self._lock = threading.Lock()
        self._lines: dict[Hashable, _Line[Item]] = {}

    def ask(self, key: Hashable, item: Item, send: "Send[Item, Answer]") -> Answer:
        """The item's answer; raises what `send` raises for it alone.

        Where a batch fails, each of its calls is sent again alone: `send` is a transaction, so
        that nothing of the batch has happened, and one bad call never spoils another.
        """
        ticket = _Ticket(item)
        batch = self._arrive(key, ticket)
        if batch is None:
            self._before_waiting()
        while batch is None:
            if not ticket.turn.acquire(timeout=PATIENCE_SECONDS):
                batch = self._lose_patience(key, ticket)
            elif ticket.is_answered:
                return cast(Answer, ticket.answer)
            elif ticket.leads is None:
                return send([item])[0]
            else:
                batch = ticket.leads
        return self._lead(key, batch, send)

    def _arrive(self, key: Hashable, ticket: _Ticket[Item]) -> list[_Ticket[Item]] | None:
        with self._lock:
            line = self._lines.setdefault(key, _Line())
            if line.lanes == 0:
                line.lanes = 1
                return [ticket]
            line.waiting.append(ticket)
            return None

    def _lose_patience(self, key: Hashable, ticket: _Ticket[Item]) -> list[_Ticket[Item]] | None:
        """The batch to send in a lane of its own; None where it was answered or appointed just now."""
        with self._lock:
            line = self._lines.get(key)
            if line is None or ticket not in line.waiting or line.lanes >= MAX_LANES:
                return None
            line.lanes += 1
            line.waiting.remove(ticket)
            return [ticket, *_take(line, MAX_GATHERED - 1)]

    def _lead(
        self, key: Hashable, batch: list[_Ticket[Item]], send: "Send[Item, Answer]"
    ) -> Answer:
        me, *others = batch
        try:
            answers = send([ticket.item for ticket in batch])
        except BaseException as error:
            self._hand_over(key)
            for ticket in others:
                ticket.turn.release()  # neither answered nor a leader: it goes alone
            if not others or not isinstance(error, Exception):
                raise
            return send([me.item])[0]
        self._hand_over(key)
        for ticket, answer in zip(others, answers[1:], strict=True):
            ticket.answer, ticket.is_answered = answer, True
            ticket.turn.release()
        return answers[0]

    def _hand_over(self, key: Hashable) -> None:
        """The lane goes to whoever has waited longest, with all who wait; or it is closed."""
        with self._lock:
            line = self._lines[key]
            batch = _take(line, MAX_GATHERED)
            if not batch:
                line.lanes -= 1
                if line.lanes == 0:
                    del self._lines[key]
                return
            batch[0].leads = batch
        batch[0].turn.release()


def _take(line: _Line[Item], most: int) -> list[_Ticket[Item]]:
    taken, line.waiting = line.waiting[:most], line.waiting[most:]
    return taken
