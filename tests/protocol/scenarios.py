"""The downstreams that the contract promises to keep clean, and those of which it says that no wording can.

`dispatches` is how many acceptances one slot may get in the suite; `--full` gives one more.
"""

from dataclasses import dataclass, replace
from typing import Final

from .rules import CONTRACT, Downstream, Guarantee, Key, Model, Rules
from .world import Violation


@dataclass(frozen=True, kw_only=True)
class Promise:
    """A search that must see everything and find nothing."""

    name: str
    downstream: Downstream
    dispatches: int = 2
    rules: Rules = CONTRACT

    def model(self, *, more: int = 0) -> Model:
        return Model(
            downstream=self.downstream, rules=self.rules, dispatches=self.dispatches + more
        )


@dataclass(frozen=True, kw_only=True)
class Failure:
    """A search that must find each violation named, in as many steps as given: fewer can't do it."""

    name: str
    why: str
    downstream: Downstream
    finds: dict[Violation, int]  # with the length of the shortest story
    rules: Rules = CONTRACT
    dispatches: int = 2

    def model(self) -> Model:
        return Model(downstream=self.downstream, rules=self.rules, dispatches=self.dispatches)


CONDITIONAL: Final = Downstream(
    guarantee=Guarantee.CONDITIONAL_WRITE, repeats=True, another_writer=True
)
CONDITIONAL_LATE: Final = Downstream(
    guarantee=Guarantee.CONDITIONAL_WRITE,
    repeats=True,
    another_writer=True,
    time_passes=True,
    refuses_late=True,
)
KEYED: Final = Downstream(guarantee=Guarantee.IDEMPOTENT_KEY, repeats=True, time_passes=True)
KEYED_LATE: Final = Downstream(
    guarantee=Guarantee.IDEMPOTENT_KEY, repeats=True, time_passes=True, refuses_late=True
)
RESERVED: Final = Downstream(guarantee=Guarantee.RESERVATION, repeats=True)
RESERVED_LATE: Final = Downstream(
    guarantee=Guarantee.RESERVATION, repeats=True, time_passes=True, refuses_late=True
)
GATED: Final = Downstream(guarantee=Guarantee.GATED, repeats=True)
QUERIED_LATE: Final = Downstream(
    guarantee=Guarantee.QUERY_ONLY, time_passes=True, refuses_late=True
)
QUERIED: Final = Downstream(guarantee=Guarantee.QUERY_ONLY, time_passes=True)
BLIND: Final = Downstream(guarantee=Guarantee.NONE, time_passes=True)

#: The same where the old process is known dead, so that an operator may assert absence.
CONDITIONAL_DEAD: Final = replace(CONDITIONAL, time_passes=True, frozen_wakes=False)
KEYED_DEAD: Final = replace(KEYED, frozen_wakes=False)
RESERVED_DEAD: Final = replace(RESERVED, time_passes=True, frozen_wakes=False)
GATED_DEAD: Final = replace(GATED, time_passes=True, frozen_wakes=False)
QUERIED_DEAD: Final = replace(QUERIED, frozen_wakes=False)
BLIND_DEAD: Final = replace(BLIND, frozen_wakes=False)

PROMISED: Final = (
    Promise(name="CONDITIONAL_WRITE", downstream=CONDITIONAL, dispatches=3),
    Promise(name="CONDITIONAL_WRITE, refuses_late", downstream=CONDITIONAL_LATE),
    Promise(name="IDEMPOTENT_KEY, keys outlive calls", downstream=KEYED),
    Promise(name="IDEMPOTENT_KEY, refuses_late", downstream=KEYED_LATE),
    Promise(name="RESERVATION by name", downstream=RESERVED),
    Promise(name="RESERVATION by name, refuses_late", downstream=RESERVED_LATE),
    Promise(name="GATED", downstream=GATED, dispatches=3),
    Promise(name="QUERY_ONLY, refuses_late", downstream=QUERIED_LATE, dispatches=3),
    *(
        Promise(name=f"{d.guarantee.name}, old process known dead", downstream=d, dispatches=most)
        for d, most in (
            (CONDITIONAL_DEAD, 2),
            (KEYED_DEAD, 2),
            (RESERVED_DEAD, 2),
            (GATED_DEAD, 3),
            (QUERIED_DEAD, 3),
            (BLIND_DEAD, 3),
        )
    ),
)

#: What no wording of the contract can keep clean, because the downstream does not do its part.
UNKEPT: Final = (
    Failure(
        name="QUERY_ONLY by elapsed time",
        why="a look-up long after the deadline says nothing of a worker that was frozen and wakes",
        downstream=QUERIED,
        rules=Rules(elapsed_time_seals=True),
        finds={
            Violation.COMMIT_DENIES: 10,
            Violation.CANCEL_DENIES: 10,
            Violation.PERFORMED_TWICE: 12,
        },
    ),
    Failure(
        name="NONE, a frozen worker wakes",
        why="a person's word that the old process is dead is only as good as the person",
        downstream=BLIND,
        finds={
            Violation.COMMIT_DENIES: 13,
            Violation.CANCEL_DENIES: 13,
            Violation.PERFORMED_TWICE: 19,
        },
    ),
    Failure(
        name="a fencing token alone",
        why="it keeps an old call from following a new one, not a new one from following an old",
        downstream=Downstream(guarantee=Guarantee.FENCING_TOKEN),
        finds={Violation.PERFORMED_TWICE: 11},
    ),
    Failure(
        name="CONDITIONAL_WRITE on a value that may return",
        why="who restores the value makes the condition true for an old call",
        downstream=replace(CONDITIONAL, value_returns=True),
        finds={Violation.PERFORMED_TWICE: 7},
    ),
    Failure(
        name="IDEMPOTENT_KEY forgotten under a frozen worker",
        why="a key that is forgotten before its last call arrives dedupes nothing",
        downstream=replace(KEYED, key=Key.LAPSES),
        finds={Violation.PERFORMED_TWICE: 9},
    ),
    Failure(
        name="RESERVATION without a name",
        why="two anonymous reservations can both be confirmed",
        downstream=replace(RESERVED, named=False),
        finds={Violation.PERFORMED_TWICE: 7},
    ),
    Failure(
        name="QUERY_ONLY behind a network that repeats",
        why="what dedupes nothing needs a transport that delivers once",
        downstream=replace(QUERIED_LATE, repeats=True),
        finds={Violation.PERFORMED_TWICE: 6},
    ),
    Failure(
        name="a refusal that speaks for one copy only",
        why="'not done' is taken for final, and then another copy of the same call is done",
        downstream=replace(CONDITIONAL, refusal_final=False),
        finds={Violation.COMMIT_DENIES: 8, Violation.CANCEL_DENIES: 8},
    ),
)
