"""The words of the shadow: what a legacy scheduler tells, and what is said of it (contract 13)."""

from datetime import datetime
from enum import StrEnum
from typing import Final, NamedTuple


class LegacyKind(StrEnum):
    """What the legacy scheduler did with a task."""

    CLAIMED = "CLAIMED"  # handed it to `owner`
    RENEWED = "RENEWED"  # `owner` showed that it is alive
    RELEASED = "RELEASED"  # `owner` gave it back, to be tried again
    COMMITTED = "COMMITTED"  # took `owner`'s result
    FAILED = "FAILED"  # took `owner`'s failure
    CANCELLED = "CANCELLED"  # somebody cancelled it


class RoundVerdict(StrEnum):
    """One a task round; where several hold, the first one in time."""

    AGREE = "AGREE"
    DOUBLE_CLAIM = "DOUBLE_CLAIM"  # handed out while a lease was live, or after it was finished
    LATE_COMMIT = "LATE_COMMIT"  # took the result of an owner that no longer held it
    WINNER_DIFFERS = "WINNER_DIFFERS"  # both finished it, with another result or owner
    CANCEL_IGNORED = "CANCEL_IGNORED"  # handed out, or took a result, after the cancel
    STALE_INPUT = "STALE_INPUT"  # took a result that was made from another input
    LOST = "LOST"  # one side finished it, the other never


class Winner(StrEnum):
    """How a side ended the round, for the matrix of both sides."""

    FIRST = "FIRST"  # the result of the first owner that it was handed to
    LATER = "LATER"  # of one that it was handed to later
    STRANGER = "STRANGER"  # of one that it was never handed to
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    NOBODY = "NOBODY"


class Triage(StrEnum):
    """What a person found a mismatch to be. Each of them explains it; a fault of claim.v1 is none of them."""

    BUG = "BUG"  # a fault of the legacy scheduler, which claim.v1 mends
    EXPECTED = "EXPECTED"  # both are right; they differ on purpose
    NOISE = "NOISE"  # the feed lost or mangled something


MISMATCHES: Final = tuple(verdict for verdict in RoundVerdict if verdict != RoundVerdict.AGREE)


class LegacyEvent(NamedTuple):
    """One event of the legacy scheduler, as the judge reads it. `at` is the legacy clock's."""

    event_id: str
    event: str
    owner: str
    at: datetime
    lease_seconds: float | None = None
    result_digest: str | None = None
    input_digest: str | None = None


class Mismatch(NamedTuple):
    """Where the two sides part, with the exemplar: which event, what it did, what claim.v1 answers."""

    verdict: RoundVerdict
    event_id: str
    beside: str  # the event that it collides with; empty where there is none
    legacy: str
    claim_v1: str
