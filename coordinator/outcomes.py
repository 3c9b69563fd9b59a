"""The closed set of answers (contract 5, 7): what was refused, why, and whether to try again.

Refusals are values: services return them, so that what they record is committed. Positive
answers are the frozen dataclasses beside each service; their fields are the contract's.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final


class Retry(StrEnum):
    SAME = "same"  # send the same request again
    RECLAIM = "reclaim"  # claim anew; this attempt is over
    AFTER = "after"  # the same may succeed once something has changed
    NEVER = "never"


class Outcome(StrEnum):
    FENCED = "FENCED"
    STALE_INPUT = "STALE_INPUT"
    CANCELLED = "CANCELLED"
    NOT_CLAIMABLE = "NOT_CLAIMABLE"
    STATE_VERSION_MISMATCH = "STATE_VERSION_MISMATCH"
    MEMORY_CONFLICT = "MEMORY_CONFLICT"
    STALE_EVIDENCE = "STALE_EVIDENCE"
    ALREADY_COMMITTED = "ALREADY_COMMITTED"
    ALREADY_REDEEMED = "ALREADY_REDEEMED"
    ALREADY_SETTLED = "ALREADY_SETTLED"
    LEASE_LIMIT = "LEASE_LIMIT"
    PAYLOAD_CONFLICT = "PAYLOAD_CONFLICT"
    IDEMPOTENCY_CONFLICT = "IDEMPOTENCY_CONFLICT"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    RECONCILE_FIRST = "RECONCILE_FIRST"
    STAGE_FORBIDS = "STAGE_FORBIDS"
    ABSENCE_NOT_SEALED = "ABSENCE_NOT_SEALED"
    SERIAL_BUSY = "SERIAL_BUSY"
    INTAKE_STOPPED = "INTAKE_STOPPED"
    GATE_CLOSED = "GATE_CLOSED"
    WRONG_POOL = "WRONG_POOL"
    INCIDENT_OPEN = "INCIDENT_OPEN"  # what was asked for waits until the queue's incident is over
    WRONG_STEP = "WRONG_STEP"  # an incident's steps come in their order, each once (contract 12)
    NOT_DRAINED = "NOT_DRAINED"  # the incident's gate is closed
    FORBIDDEN = "FORBIDDEN"
    NOT_FOUND = "NOT_FOUND"
    INVALID = "INVALID"
    FENCE_MISSING = (
        "FENCE_MISSING"  # a binary that doesn't know the fence gets nowhere (contract 3)
    )


class Reason(StrEnum):
    """Why a call was FENCED."""

    STALE_EPOCH = "STALE_EPOCH"
    STALE_GENERATION = "STALE_GENERATION"
    AHEAD = "AHEAD"


#: What a caller may do about each refusal, where the refusal itself doesn't say otherwise.
DEFAULT_RETRY: Final[dict[Outcome, Retry]] = {
    Outcome.FENCED: Retry.RECLAIM,
    Outcome.STALE_INPUT: Retry.NEVER,
    Outcome.CANCELLED: Retry.NEVER,
    Outcome.NOT_CLAIMABLE: Retry.AFTER,
    Outcome.STATE_VERSION_MISMATCH: Retry.AFTER,
    Outcome.MEMORY_CONFLICT: Retry.AFTER,
    Outcome.STALE_EVIDENCE: Retry.AFTER,
    Outcome.ALREADY_COMMITTED: Retry.NEVER,
    Outcome.ALREADY_REDEEMED: Retry.NEVER,
    Outcome.ALREADY_SETTLED: Retry.NEVER,
    Outcome.LEASE_LIMIT: Retry.NEVER,
    Outcome.PAYLOAD_CONFLICT: Retry.NEVER,
    Outcome.IDEMPOTENCY_CONFLICT: Retry.NEVER,
    Outcome.APPROVAL_REQUIRED: Retry.AFTER,
    Outcome.RECONCILE_FIRST: Retry.AFTER,
    Outcome.STAGE_FORBIDS: Retry.AFTER,
    Outcome.ABSENCE_NOT_SEALED: Retry.AFTER,
    Outcome.SERIAL_BUSY: Retry.AFTER,
    Outcome.INTAKE_STOPPED: Retry.AFTER,
    Outcome.GATE_CLOSED: Retry.AFTER,
    Outcome.WRONG_POOL: Retry.NEVER,
    Outcome.INCIDENT_OPEN: Retry.AFTER,
    Outcome.WRONG_STEP: Retry.NEVER,
    Outcome.NOT_DRAINED: Retry.AFTER,
    Outcome.FORBIDDEN: Retry.NEVER,
    Outcome.NOT_FOUND: Retry.NEVER,
    Outcome.INVALID: Retry.NEVER,
    Outcome.FENCE_MISSING: Retry.NEVER,
}


@dataclass(frozen=True, slots=True)
class Current:
    """The counters as they stand, told to whoever owns the attempt."""

    scheduler_epoch: int
    claim_generation: int | None = None  # a refused claim knows only the epoch
    cancel_generation: int | None = None
    state_version: int | None = None


@dataclass(frozen=True, slots=True)
class FieldError:
    """One fault of a request: where (a JSON pointer) and what to mend."""

    pointer: str
    detail: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that was not granted. `extra` holds members that only some outcomes have."""

    outcome: Outcome
    detail: str
    reason: Reason | None = None
    retry_as: Retry | None = None
    evidence_recorded: bool = False
    current: Current | None = None
    errors: tuple[FieldError, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def retry(self) -> Retry:
        return self.retry_as or DEFAULT_RETRY[self.outcome]


def invalid(*errors: FieldError) -> Refusal:
    """A request whose fields are well-formed but make no sense together or here."""
    return Refusal(Outcome.INVALID, "The request has faults; see `errors`.", errors=errors)


def not_found(what: str) -> Refusal:
    return Refusal(Outcome.NOT_FOUND, f"There is no such {what}, or it is not yours to see.")
