"""Is there one order of a task's calls that explains all of their answers, and respects real time?

Independent of the product: it knows a task as (generation, is it held, how did it end) and nothing of leases, epochs,
locks or tables. A hold may be lost at any moment (a lease ran out, an epoch rose), and is never regained. It searches
as Wing and Gong do, with the memory of Lowe: every order in which no call comes after one that began after its answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

#: More states than this are given up on, and that is a failure too.
MOST_STATES = 200_000
CANCELLED = "CANCELLED"
#: A commit whose answer nobody heard.
UNHEARD = "?"


class Verb(StrEnum):
    GRANT = "was granted"
    HOLD = "was told that it holds"
    COMMIT = "was told COMMITTED"
    MAYBE_COMMIT = "asked to commit, unheard"
    LET_GO = "let go"
    FENCED = "was fenced"
    TOLD_CANCELLED = "was told CANCELLED"
    CANCEL = "cancelled"
    MAYBE_CANCEL = "asked to cancel, unheard"
    TOO_LATE = "was told that the commit came first"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Operation:
    """One call on one task. `ended` is infinite where it may take effect at any time, or never."""

    verb: Verb
    began: float
    ended: float
    generation: int = 0
    #: The commit's id; of a read the state that it saw.
    result: str = ""
    client: str = ""

    @property
    def is_optional(self) -> bool:
        return self.verb in (Verb.MAYBE_COMMIT, Verb.MAYBE_CANCEL)


class Register(NamedTuple):
    """A task as the checker knows it."""

    generation: int = 0
    holds: bool = False
    #: Empty, CANCELLED, UNHEARD, or a commit's id.
    end: str = ""


class Undecided(Exception):
    """Too many orders to try."""


def explain(operations: list[Operation], *, unheard_claims: list[float]) -> bool:
    """Whether one order explains everything. `unheard_claims`: when the claims began whose answers nobody heard.

    Raises Undecided where there are too many orders to tell.
    """
    ordered = sorted(operations, key=lambda each: each.began)
    required = sum(1 << place for place, each in enumerate(ordered) if not each.is_optional)
    start = (0, Register())
    waiting, known = [start], {start}
    while waiting:
        done, register = waiting.pop()
        if done & required == required:
            return True
        for place in _next(ordered, done):
            for after in _apply(ordered[place], register, unheard_claims):
                state = (done | 1 << place, after)
                if state not in known:
                    known.add(state)
                    waiting.append(state)
        if len(known) > MOST_STATES:
            raise Undecided
    return False


def _next(ordered: list[Operation], done: int) -> list[int]:
    """What may come next: everything that began before the first answer still to come."""
    left = [place for place in range(len(ordered)) if not done >> place & 1]
    first_answer = min(ordered[place].ended for place in left)
    return [place for place in left if ordered[place].began <= first_answer]


def _apply(operation: Operation, at: Register, unheard_claims: list[float]) -> list[Register]:
    """How the task may stand after it; nothing where it can't have been answered so."""
    generation, is_open = operation.generation, not at.end
    holds = is_open and at.holds and at.generation == generation
    match operation.verb:
        case Verb.GRANT:
            unheard = sum(1 for began in unheard_claims if began <= operation.ended)
            possible = is_open and at.generation < generation <= at.generation + 1 + unheard
            return [Register(generation, True)] if possible else []
        case Verb.HOLD:
            return [at] if holds else []
        case Verb.COMMIT if is_open:
            return [at._replace(holds=False, end=operation.result)] if holds else []
        case Verb.COMMIT:
            same = at.generation == generation and at.end in (operation.result, UNHEARD)
            return [at._replace(end=operation.result)] if same else []
        case Verb.MAYBE_COMMIT:
            return [at._replace(holds=False, end=UNHEARD)] if holds else []
        case Verb.LET_GO:
            return [at._replace(holds=False)] if holds else []
        case Verb.FENCED:
            return [at._replace(holds=False)] if at.generation == generation else [at]
        case Verb.TOLD_CANCELLED:
            return [at] if at.end == CANCELLED else []
        case Verb.CANCEL | Verb.MAYBE_CANCEL:
            possible = at.end in ("", CANCELLED)
            return [at._replace(holds=False, end=CANCELLED)] if possible else []
        case Verb.TOO_LATE:
            return [at] if at.end not in ("", CANCELLED) else []
        case Verb.READ:
            return _read(operation, at, unheard_claims)


def _read(read: Operation, at: Register, unheard_claims: list[float]) -> list[Register]:
    ended = read.result if read.result not in ("CLAIMED", "OPEN") else ""
    if read.generation != at.generation:
        unheard = sum(1 for began in unheard_claims if began <= read.ended)
        if not at.generation < read.generation <= at.generation + unheard:
            return []
        if at.end not in ("", CANCELLED):  # a commit says of which generation it is
            return []
        at = at._replace(generation=read.generation, holds=not at.end)
    if ended == CANCELLED:
        return [at] if at.end == CANCELLED else []
    if ended:
        return [at._replace(end=ended)] if at.end in (ended, UNHEARD) else []
    if at.end:
        return []
    if read.result == "CLAIMED":
        return [at] if at.holds else []
    return [at._replace(holds=False)]
