"""Which calls may be sent twice, and how long we go on (contract 5)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

#: A Retry-After beyond this is reported to the caller, never slept through.
LONGEST_RETRY_AFTER_SECONDS = 60.0


class Repeat(Enum):
    """Why a call that got no answer may be sent again."""

    BY_NATURE = "reading, or a call whose repeat the contract answers with the first result"
    BY_KEY = "it carries an Idempotency-Key: the same key with the same bytes is the same call"
    NEVER = "a second arrival could act twice; the caller decides"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """How often and how long a call without an answer is repeated. Pauses double, with full jitter."""

    tries: int = 6
    first_pause_seconds: float = 0.2
    longest_pause_seconds: float = 5.0
    #: Counted from before the first send; no try is started after it.
    budget_seconds: float = 30.0

    def __post_init__(self) -> None:
        if self.tries < 1:
            raise ValueError(f"tries must be at least 1, not {self.tries}")
        for name in ("first_pause_seconds", "longest_pause_seconds", "budget_seconds"):
            if not 0 <= getattr(self, name) < float("inf"):
                raise ValueError(
                    f"{name} must be a finite number of seconds, not {getattr(self, name)}"
                )

    def pause_seconds(
        self, *, tries: int, elapsed_seconds: float, retry_after_seconds: float | None
    ) -> float | None:
        """How long to wait before the next try; None when there is to be none.

        A server that names a time is believed: never asked earlier, and a little later so that a fleet which was
        turned away together does not come back together.
        """
        if tries >= self.tries:
            return None
        ceiling = min(self.longest_pause_seconds, self.first_pause_seconds * 2 ** (tries - 1))
        pause = spread(0, ceiling)
        if retry_after_seconds is not None:
            if retry_after_seconds > LONGEST_RETRY_AFTER_SECONDS:
                return None
            pause += retry_after_seconds
        return pause if elapsed_seconds + pause <= self.budget_seconds else None


ONCE = RetryPolicy(tries=1)


def spread(low: float, high: float) -> float:
    """Somewhere between the two, so that a fleet does not act as one."""
    return random.uniform(low, high)  # noqa: S311 - spreads load; nothing about it is secret
