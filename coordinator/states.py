"""The states of contract section 2 and the arrows between them, one table each.

Nothing else in the code base lists a transition. The database holds the same tables as
triggers (contract 16); ``tests/services/test_states.py`` compares the two.
"""

from enum import StrEnum
from typing import Final

#: The shortest lease. Server timeouts stay below it, so that a frozen API process cannot
#: hold a gate for longer than a lease (contract 4).
MIN_TTL_SECONDS: Final = 5


class TaskState(StrEnum):
    BLOCKED = "BLOCKED"  # a parent has no canonical commit yet
    READY = "READY"  # claimable once not_before has passed
    CLAIMED = "CLAIMED"  # an attempt holds it; its lease may have run out
    AWAITING_APPROVAL = "AWAITING_APPROVAL"  # a person decides on an effect's exact payload
    AWAITING_RECONCILIATION = (
        "AWAITING_RECONCILIATION"  # an effect is UNKNOWN and no worker can settle it
    )
    COMMITTED = "COMMITTED"  # has its canonical commit
    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"  # a newer revision took its place
    FAILED = "FAILED"  # attempts used up, not retryable, or rejected


class AttemptState(StrEnum):
    STARTED = "STARTED"
    RESULT_STAGED = "RESULT_STAGED"
    COMMITTED = "COMMITTED"
    FENCED = "FENCED"  # taken over, came back late and was refused
    EXPIRED = "EXPIRED"  # taken over, has not come back
    STALE_INPUT = "STALE_INPUT"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    RELEASED = "RELEASED"
    PARKED = "PARKED"


class RunState(StrEnum):
    ACTIVE = "ACTIVE"
    COMMITTED = "COMMITTED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"


class Intake(StrEnum):
    OPEN = "OPEN"
    STOPPED = "STOPPED"


class RolloutStage(StrEnum):
    SHADOW = "SHADOW"
    IDEMPOTENT_READS = "IDEMPOTENT_READS"
    CONDITIONAL_WRITES = "CONDITIONAL_WRITES"


class Replay(StrEnum):
    READ_ONLY = "READ_ONLY"  # declares no effect
    REPLAYABLE = "REPLAYABLE"  # each of its effects may safely be sent again
    NON_REPLAYABLE = "NON_REPLAYABLE"  # serial, and a person approves each dispatch


class Guarantee(StrEnum):
    """What a downstream promises about a second arrival of the same call (contract 8)."""

    CONDITIONAL_WRITE = "CONDITIONAL_WRITE"
    IDEMPOTENT_KEY = "IDEMPOTENT_KEY"
    RESERVATION = "RESERVATION"
    GATED = "GATED"
    QUERY_ONLY = "QUERY_ONLY"
    NONE = "NONE"


class EffectState(StrEnum):
    PREPARED = (
        "PREPARED"  # payload bound; no call that was ever allowed has happened or can any more
    )
    ACCEPTED = "ACCEPTED"  # a call may be out right now
    UNKNOWN = "UNKNOWN"  # a call was allowed and nobody knows what came of it
    RESENDABLE = (
        "RESENDABLE"  # not there when asked; safe to send again; an earlier call may still arrive
    )
    COMMITTED = "COMMITTED"  # it happened, with a receipt
    VOID = "VOID"  # its task is finished without it and nothing can be out


class DispatchOutcome(StrEnum):
    UNKNOWN = "UNKNOWN"
    COMMITTED = "COMMITTED"
    REFUSED = "REFUSED"  # the downstream said that it did not do it


class ApprovalState(StrEnum):
    PENDING = "PENDING"
    APPROVED = "APPROVED"  # grants one dispatch
    CONSUMED = "CONSUMED"  # by the acceptance of that dispatch
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"
    VOID = "VOID"  # by cancel, revise or a bump


class RejectionCode(StrEnum):
    """Why a person said no, in one word; the sentence stands beside it (contract 9)."""

    WRONG_CONTENT = "WRONG_CONTENT"
    WRONG_RECIPIENT = "WRONG_RECIPIENT"
    NOT_NEEDED = "NOT_NEEDED"
    NOT_ALLOWED = "NOT_ALLOWED"  # a policy forbids it
    SUSPICIOUS = "SUSPICIOUS"  # somebody should look at the agent
    OTHER = "OTHER"
    CHANGES_ASKED = "CHANGES_ASKED"  # the task was revised instead of failed: the agent tries again


class IncidentState(StrEnum):
    """The steps of a guarded rollback; none can be skipped (contract 12)."""

    STOPPED = "STOPPED"  # intake is stopped: no new claims, no new acceptances
    BUMPED = "BUMPED"  # the epoch is raised: everything older is refused
    DRAINED = "DRAINED"  # no old lease runs, nothing may be out, every candidate is decided
    SWITCHED = "SWITCHED"  # another pool is the active one
    CLOSED = "CLOSED"  # intake is open again
    ABORTED = "ABORTED"  # called off before the bump


class PromotionState(StrEnum):
    """What becomes of a person's request to promote a queue: another one has to confirm it (contract 13)."""

    ASKED = "ASKED"
    CONFIRMED = "CONFIRMED"  # by somebody else, or alone with a reason and an alarm
    WITHDRAWN = "WITHDRAWN"
    EXPIRED = "EXPIRED"
    VOID = "VOID"  # the gate turned red, or the stage or the epoch moved


class CandidateRuling(StrEnum):
    """What becomes of a result that an attempt of the old epoch had put aside (contract 12)."""

    DISCARD = "DISCARD"
    KEEP = "KEEP"  # as evidence, readable


_T, _A, _R, _E, _P = TaskState, AttemptState, RunState, EffectState, ApprovalState
_I = IncidentState

#: From each task state, the states that a transition may lead to (contract 2, 10).
TASK_ARROWS: Final[dict[TaskState, frozenset[TaskState]]] = {
    _T.BLOCKED: frozenset(
        {
            _T.READY,
            _T.CANCELLED,
            _T.SUPERSEDED,
            _T.AWAITING_RECONCILIATION,  # held after a restore
        }
    ),
    _T.READY: frozenset(
        {
            _T.CLAIMED,
            _T.BLOCKED,  # a committed parent was revised
            _T.CANCELLED,
            _T.SUPERSEDED,
            _T.AWAITING_RECONCILIATION,
        }
    ),
    _T.CLAIMED: frozenset(
        {
            _T.READY,
            _T.COMMITTED,
            _T.FAILED,
            _T.CANCELLED,
            _T.SUPERSEDED,
            _T.AWAITING_APPROVAL,
            _T.AWAITING_RECONCILIATION,
        }
    ),
    _T.AWAITING_APPROVAL: frozenset(
        {
            _T.READY,
            _T.AWAITING_RECONCILIATION,  # another of its effects may be out
            _T.FAILED,
            _T.CANCELLED,
            _T.SUPERSEDED,
        }
    ),
    _T.AWAITING_RECONCILIATION: frozenset(
        {
            _T.READY,
            _T.BLOCKED,  # the hold of a restore was released, and a parent has not committed
            _T.CANCELLED,
            _T.SUPERSEDED,
        }
    ),
    _T.COMMITTED: frozenset({_T.SUPERSEDED}),
    _T.CANCELLED: frozenset({_T.READY, _T.BLOCKED, _T.AWAITING_RECONCILIATION}),
    _T.SUPERSEDED: frozenset(),
    _T.FAILED: frozenset({_T.READY, _T.BLOCKED, _T.AWAITING_RECONCILIATION, _T.SUPERSEDED}),
}

#: From each attempt state, the states that it may change to. Ends are final, but for a
#: taken-over attempt that comes back late and is refused (EXPIRED → FENCED).
ATTEMPT_ARROWS: Final[dict[AttemptState, frozenset[AttemptState]]] = {
    _A.STARTED: frozenset(set(AttemptState) - {_A.STARTED, _A.FENCED}),
    _A.RESULT_STAGED: frozenset(set(AttemptState) - {_A.STARTED, _A.RESULT_STAGED, _A.FENCED}),
    _A.COMMITTED: frozenset(),
    _A.FENCED: frozenset(),
    _A.EXPIRED: frozenset({_A.FENCED}),
    _A.STALE_INPUT: frozenset(),
    _A.CANCELLED: frozenset(),
    _A.FAILED: frozenset(),
    _A.RELEASED: frozenset(),
    _A.PARKED: frozenset(),
}

#: States in which an attempt still holds its task.
LIVE_ATTEMPT: Final = frozenset({_A.STARTED, _A.RESULT_STAGED})

#: A task in one of these can still be cancelled (contract 10).
CANCELLABLE_TASK: Final = frozenset(
    {_T.BLOCKED, _T.READY, _T.CLAIMED, _T.AWAITING_APPROVAL, _T.AWAITING_RECONCILIATION}
)

#: A task in one of these waits for nothing and nobody (its run may be settled).
SETTLED_TASK: Final = frozenset({_T.COMMITTED, _T.SUPERSEDED})

#: Where no task comes by itself on the way from submission to commit: what people look for in a queue.
SET_ASIDE_TASK: Final = frozenset(_T) - {_T.BLOCKED, _T.READY, _T.CLAIMED, _T.COMMITTED}

#: A run is settled in these; reopen and revise make it ACTIVE again.
RUN_ARROWS: Final[dict[RunState, frozenset[RunState]]] = {
    _R.ACTIVE: frozenset({_R.COMMITTED, _R.CANCELLED, _R.FAILED}),
    _R.COMMITTED: frozenset({_R.ACTIVE}),
    _R.CANCELLED: frozenset({_R.ACTIVE}),
    _R.FAILED: frozenset({_R.ACTIVE}),
}

#: From each effect state, the states that it may change to (contract 2, 8).
EFFECT_ARROWS: Final[dict[EffectState, frozenset[EffectState]]] = {
    _E.PREPARED: frozenset({_E.ACCEPTED, _E.UNKNOWN, _E.VOID}),
    _E.ACCEPTED: frozenset({_E.COMMITTED, _E.UNKNOWN, _E.PREPARED}),
    _E.UNKNOWN: frozenset({_E.COMMITTED, _E.RESENDABLE, _E.PREPARED}),
    _E.RESENDABLE: frozenset({_E.ACCEPTED, _E.COMMITTED, _E.UNKNOWN, _E.PREPARED}),
    _E.COMMITTED: frozenset(),
    _E.VOID: frozenset(),
}

#: *May be out* (contract 2): one predicate for commit, cancel, revise, take-over, serial keys
#: and the incident gate.
MAY_BE_OUT: Final = frozenset({_E.ACCEPTED, _E.UNKNOWN, _E.RESENDABLE})

APPROVAL_ARROWS: Final[dict[ApprovalState, frozenset[ApprovalState]]] = {
    _P.PENDING: frozenset({_P.APPROVED, _P.REJECTED, _P.EXPIRED, _P.VOID}),
    _P.APPROVED: frozenset({_P.CONSUMED, _P.EXPIRED, _P.VOID}),
    _P.CONSUMED: frozenset(),
    _P.REJECTED: frozenset(),
    _P.EXPIRED: frozenset(),
    _P.VOID: frozenset(),
}

#: DRAINED is derived from what the gate counts; the switch passes through it (contract 12).
INCIDENT_ARROWS: Final[dict[IncidentState, frozenset[IncidentState]]] = {
    _I.STOPPED: frozenset({_I.BUMPED, _I.ABORTED}),
    _I.BUMPED: frozenset({_I.DRAINED}),
    _I.DRAINED: frozenset({_I.SWITCHED}),
    _I.SWITCHED: frozenset({_I.CLOSED}),
    _I.CLOSED: frozenset(),
    _I.ABORTED: frozenset(),
}

PROMOTION_ARROWS: Final[dict[PromotionState, frozenset[PromotionState]]] = {
    PromotionState.ASKED: frozenset(set(PromotionState) - {PromotionState.ASKED}),
    PromotionState.CONFIRMED: frozenset(),
    PromotionState.WITHDRAWN: frozenset(),
    PromotionState.EXPIRED: frozenset(),
    PromotionState.VOID: frozenset(),
}

#: An incident in one of these is over: it holds its queues no longer.
ENDED_INCIDENT: Final = frozenset({_I.CLOSED, _I.ABORTED})
