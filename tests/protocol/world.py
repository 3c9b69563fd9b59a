"""Everything that the search looks at: one task with one effect slot, its dispatches and what is outside.

A world is a tuple of small integers, so that it hashes fast and packs into a few bytes.

Generations, epochs and cancel generations have no numbers here. The contract compares them by equality only, so all
that matters of a fence is which of its counters are behind the task's: the `stale` bits. Two worlds that differ in
nothing but how often the task was granted are therefore one, and a search covers any number of generations.
"""

from enum import IntEnum
from itertools import chain
from typing import Any, Final, NamedTuple

OLD_GENERATION: Final = 1  # the attempt was taken over, released, parked or has committed
OLD_EPOCH: Final = 2  # the queue's epoch was bumped since the grant
OLD_CANCEL: Final = 4  # the task was cancelled since the grant
GONE: Final = 7  # a fence that every acceptance point refuses for good: all such are alike
REVIVED: Final = 8  # in mutants only: a fence that is behind, and let through again

#: Look-ups that saw nothing: begun before every deadline + settle had passed, or after; or by a key perhaps forgotten.
EARLY, AFTER_SETTLE, BY_OLD_KEY = 1, 2, 4

#: `World.place` of a downstream that dedupes: the key is fresh; too old to send again; perhaps forgotten.
KEY_FRESH, KEY_CLOSING, KEY_LAPSED = range(3)


class Task(IntEnum):
    """Contract 2. BLOCKED and FAILED are left out: for an effect they are READY and CANCELLED again."""

    READY = 0
    CLAIMED = 1
    AWAITING_APPROVAL = 2
    AWAITING_RECONCILIATION = 3
    COMMITTED = 4
    CANCELLED = 5
    SUPERSEDED = 6


class Effect(IntEnum):
    """The slot's state in the ledger (contract 2)."""

    UNBOUND = 0  # no attempt has prepared it yet: there is no row
    PREPARED = 1
    ACCEPTED = 2
    UNKNOWN = 3
    RESENDABLE = 4
    COMMITTED = 5
    VOID = 6


class Call(IntEnum):
    """Where the one transmission that a dispatch permits is. This is the truth; the ledger can't see it."""

    HELD = (
        0  # the worker has its 200 in hand, or may still get it by asking again; it may be frozen
    )
    SENT = (
        1  # on the way: it may arrive now, much later, or never, and, if the network repeats, again
    )
    INSIDE = 2  # the gate let it in, or its reservation stands: the tool is about to act
    OVER = 3  # nothing of it can arrive any more


class Outcome(IntEnum):
    """What the ledger knows of a dispatch. UNKNOWN is OPEN here: rules tell the two apart by the slot's state only."""

    OPEN = 0
    COMMITTED = 1
    REFUSED = 2  # the downstream said that it did not do it
    CLOSED = 3  # sealed: the gate, or a receiver that refuses late calls, lets it in no more


class Answer(IntEnum):
    """What the downstream answered. It may reach the worker now, late or never, and be reported any number of times."""

    NOTHING = 0
    DONE = 1
    NOT_DONE = 2


class Denied(IntEnum):
    """Who was told that this dispatch has not happened and can't any more."""

    NOBODY = 0
    LEDGER = 1  # the slot became PREPARED or VOID
    COMMIT = 2  # the task committed, or was superseded, without it
    CANCEL = 3  # a cancel receipt did not list it
    DRAIN = 4  # an incident's gate opened


class Approval(IntEnum):
    """Whether a person must grant the slot's next dispatch, and has (contract 9)."""

    NOT_NEEDED = 0
    NEEDED = 1
    PENDING = 2
    APPROVED = 3


class Incident(IntEnum):
    """STOPPED only bars what BUMPED bars too, so the two are one step; so are DRAINED, SWITCHED and CLOSED."""

    NONE = 0
    BUMPED = 1
    RESUMED = 2


class Dispatch(NamedTuple):
    """One acceptance (contract 2), with the call that it permits."""

    stale: int  # of the attempt that made it
    payload: int  # the bytes that it carries; 0 are those that the slot was bound to first
    call: Call = Call.HELD
    outcome: Outcome = Outcome.OPEN
    late: int = 0  # its call deadline and settle_seconds have passed
    redeemed: int = 0
    answer: Answer = Answer.NOTHING
    receipt: int = 0  # a late receipt is kept beside it
    denied: Denied = Denied.NOBODY

    @property
    def unsettled(self) -> bool:
        """Neither refused nor closed nor committed: as far as the ledger knows, its call may be out."""
        return self.outcome == Outcome.OPEN


class World(NamedTuple):
    """The task, its slot, the outside, and the fences that are still of use to somebody."""

    task: Task = Task.READY
    holder: int = GONE  # stale bits of the newest grant
    before: int = GONE  # stale bits of the grant before it
    cancels: int = 0  # cancels so far
    incident: Incident = Incident.NONE
    effect: Effect = Effect.UNBOUND
    payload: int = 0
    approval: Approval = Approval.NOT_NEEDED
    absent: int = 0  # look-ups that saw nothing and can still be written down
    performed: int = 0  # how often the outside has happened
    place: int = 0  # what the downstream remembers; its meaning is in downstreams.py
    dispatches: tuple[Dispatch, ...] = ()

    def key(self) -> bytes:
        """The world packed, one byte a field: exact, so that two worlds never share a key."""
        return bytes((*self[:-1], *chain.from_iterable(self.dispatches)))

    def changed(self, number: int, **fields: Any) -> "World":
        """This world with the given fields of one dispatch changed."""
        one = self.dispatches[number]._replace(**fields)
        return self._replace(
            dispatches=(*self.dispatches[:number], one, *self.dispatches[number + 1 :])
        )

    def aged(self, bits: int) -> "World":
        """This world after a counter went up: every fence that was given out so far is behind by `bits`."""
        return self._replace(
            holder=self.holder | bits,
            before=self.before | bits,
            dispatches=tuple(d._replace(stale=d.stale | bits) for d in self.dispatches),
        )

    def denied(self, to: Denied) -> "World":
        """This world after somebody was told that nothing accepted so far has happened or still can."""
        return self._replace(dispatches=tuple(d._replace(denied=to) for d in self.dispatches))


class Violation(IntEnum):
    """What must never be seen; none of them is zero, so that each is true. The texts end a counterexample."""

    PERFORMED_TWICE = 1
    OTHER_PAYLOAD = 2
    LEDGER_DENIES = 3
    COMMIT_DENIES = 4
    CANCEL_DENIES = 5
    DRAIN_DENIES = 6
    NEVER_HAPPENED = 7
    STALE_OWNER = 8
    SENT_TWICE = 9
    REDEEMED_TWICE = 10
    RECEIPT_IGNORED = 11
    NO_SUCH_ARROW = 12

    @property
    def text(self) -> str:
        return _TEXTS[self]


_TEXTS: Final = {
    Violation.PERFORMED_TWICE: "the outside effect happened twice",
    Violation.OTHER_PAYLOAD: "the outside effect happened with other bytes than the slot is bound to",
    Violation.LEDGER_DENIES: "the ledger says that it has not happened and can't any more, but it happened",
    Violation.COMMIT_DENIES: "the task was committed as if the effect had not happened, but it happened",
    Violation.CANCEL_DENIES: "the cancel receipt did not list the effect as not settled, but it happened",
    Violation.DRAIN_DENIES: "the incident's gate opened with nothing out, but a call of the old epoch landed",
    Violation.NEVER_HAPPENED: "the ledger says COMMITTED, but it never happened",
    Violation.STALE_OWNER: "an acceptance point let an owner through whose fence is behind",
    Violation.SENT_TWICE: "one acceptance was used for two transmissions",
    Violation.REDEEMED_TWICE: "the gate let one dispatch in twice",
    Violation.RECEIPT_IGNORED: "a send was permitted with a success of the same slot on file",
    Violation.NO_SUCH_ARROW: "the slot moved along no arrow of contract 2",
}


class Step(NamedTuple):
    """Something that can happen next: who does it, what they do, and the world after it."""

    who: str  # "holder", "before", "claimant", "owner of 1", or a name as it stands
    text: str
    world: World
    violation: Violation | None = None
