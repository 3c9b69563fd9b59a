"""Legacy stories told in one line each: `story("A claims 0", "B claims 30", "A commits 40 r1")`.

A word after the instant of a claim is its input, after that of a commit its result, and then its input.
"""

from datetime import UTC, datetime, timedelta
from typing import Final

from coordinator import digests
from coordinator.shadow.rounds import PlayedRound, Policy, play_rounds
from coordinator.shadow.words import LegacyEvent, LegacyKind

START: Final = datetime(2026, 11, 1, tzinfo=UTC)
LEASE_SECONDS: Final = 60.0
SETTLE_SECONDS: Final = 300.0
POLICY: Final = Policy(SETTLE_SECONDS, LEASE_SECONDS)
_VERBS: Final = {
    "claims": LegacyKind.CLAIMED,
    "renews": LegacyKind.RENEWED,
    "releases": LegacyKind.RELEASED,
    "commits": LegacyKind.COMMITTED,
    "fails": LegacyKind.FAILED,
    "cancels": LegacyKind.CANCELLED,
}


def digest(word: str) -> str:
    return digests.sha256(word.encode())


def story(*lines: str) -> list[LegacyEvent]:
    return [told(line, f"e{index}") for index, line in enumerate(lines)]


def told(line: str, event_id: str, *, begins: datetime = START) -> LegacyEvent:
    owner, verb, at, *words = line.split()
    kind = _VERBS[verb]
    given = [digest(word) for word in words]
    result = given.pop(0) if kind is LegacyKind.COMMITTED and given else None
    return LegacyEvent(
        event_id=event_id,
        event=kind,
        owner=owner,
        at=begins + timedelta(seconds=float(at)),
        result_digest=result,
        input_digest=given[0] if given else None,
    )


def rounds_of(*lines: str, settle_seconds: float = SETTLE_SECONDS) -> list[PlayedRound]:
    return list(play_rounds(story(*lines), Policy(settle_seconds, LEASE_SECONDS)))


def verdicts(*lines: str) -> list[str]:
    return [str(one.play.verdict) for one in rounds_of(*lines)]


def found(*lines: str) -> list[str]:
    """All mismatches of the only round, in the order of time."""
    (one,) = rounds_of(*lines)
    return [str(mismatch.verdict) for mismatch in one.play.mismatches]
