"""What a person saw of something when they decided, to be compared with what is under its lock (console design, 3.3).

What goes on by itself is no change: a run's tasks that workers claim and commit, a job's tasks that have their turn.
Bound to those, nothing that works could ever be stopped.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from coordinator.outcomes import Outcome, Refusal


@dataclass(frozen=True, slots=True)
class TokenSeen:
    """Of a worker's credential, or of a personal token."""

    expires_at: datetime | None
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True)
class RunSeen:
    """`cancelled`, `revised` and `failed` are tasks. What people do changes one of them, or takes one away."""

    state: str
    cancelled: int
    revised: int
    failed: int


@dataclass(frozen=True, slots=True)
class BulkSeen:
    """Of a bulk job; its set is frozen, and each of its tasks is bound by itself."""

    started_at: datetime | None
    stopped_at: datetime | None
    finished_at: datetime | None


Seen = TokenSeen | RunSeen | BulkSeen


def changed_since(seen: Seen | None, now: Seen) -> Refusal | None:
    """STATE_VERSION_MISMATCH where what is differs from what was seen; None where it does not, or nobody looked."""
    if seen is None or _holds(seen, now):
        return None
    told = "It has changed since it was looked at; look again."
    return Refusal(Outcome.STATE_VERSION_MISMATCH, told)


def _holds(seen: Seen, now: Seen) -> bool:
    if isinstance(seen, RunSeen) and isinstance(now, RunSeen) and now.failed > seen.failed:
        return seen == replace(now, failed=seen.failed)  # failing is work; fewer are a reopening
    return seen == now
