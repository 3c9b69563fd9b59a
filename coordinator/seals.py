"""What may be out, and how its absence can be sealed: the pure rules of contract 8.

Records in, answer out. Exhaustively searched by tests/protocol (contract 18).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from coordinator.states import MAY_BE_OUT, DispatchOutcome, EffectState, Guarantee


class EffectRow(NamedTuple):
    """An effect slot as it stands under its lock."""

    effect_id: str
    task_id: UUID
    node_id: str
    slot: str
    downstream: str
    payload_digest: str
    state: str
    dispatches: int
    receipt: str | None
    first_accepted_at: datetime | None
    call_deadline: datetime | None
    guarantee: str
    call_timeout_seconds: int
    key_valid_seconds: int | None
    settle_seconds: int
    refuses_late: bool
    serial_scope: str
    required_approvers: int
    is_exclusive: bool
    needs_approval: bool
    happened_on_file: bool
    verdict: str | None
    verdict_dispatches: int | None

    @property
    def may_be_out(self) -> bool:
        return self.state in MAY_BE_OUT


class DispatchRow(NamedTuple):
    """A dispatch of a locked effect."""

    dispatch_id: UUID
    effect_id: str
    number: int
    attempt_id: UUID
    claim_generation: int
    scheduler_epoch: int
    accepted_at: datetime
    call_deadline: datetime
    redeemed_at: datetime | None
    redeem_id: str | None
    closed_at: datetime | None
    outcome: str | None
    redeemed_by: int | None = None  # the gate's credential

    @property
    def is_open(self) -> bool:
        """The call that it allowed may still happen, or may have happened unheard."""
        return self.closed_at is None and self.outcome not in (
            DispatchOutcome.COMMITTED,
            DispatchOutcome.REFUSED,
        )


class Seal(StrEnum):
    """The two strengths of NOT_HAPPENED (contract 8.4)."""

    RESEND = "RESEND"  # → RESENDABLE: sending again is safe, but the first call may still arrive
    FINAL = "FINAL"  # → PREPARED: no call that was ever allowed can happen any more


def key_still_valid(effect: EffectRow, until: datetime) -> bool:
    """Whether the downstream still dedupes on our key then; counted from the first acceptance."""
    if effect.first_accepted_at is None or effect.key_valid_seconds is None:
        return True
    return until < effect.first_accepted_at + timedelta(seconds=effect.key_valid_seconds)


def last_arrival(effect: EffectRow, dispatches: Sequence[DispatchRow]) -> datetime | None:
    """The instant after which no call that was sent in time can still arrive; None if none was allowed."""
    deadlines = [dispatch.call_deadline for dispatch in dispatches]
    return max(deadlines) + timedelta(seconds=effect.settle_seconds) if deadlines else None


def key_forgotten_at(effect: EffectRow, dispatches: Sequence[DispatchRow]) -> datetime | None:
    """From when on no call of these can be known by its key any more, whenever it arrived; None for no key.

    A call that is sent after that is a first one. It is safe where none of these can arrive any more (PREPARED).
    """
    arrival = last_arrival(effect, dispatches)
    if effect.key_valid_seconds is None or arrival is None:
        return None
    return arrival + timedelta(seconds=effect.key_valid_seconds)


def sendable_at(
    effect: EffectRow, dispatches: Sequence[DispatchRow], clock: datetime
) -> datetime | None:
    """From when on a PREPARED effect with a key that grew old can be sent; None where its key bars nothing now."""
    if effect.guarantee != Guarantee.IDEMPOTENT_KEY or not effect.dispatches:
        return None
    takes = timedelta(seconds=effect.call_timeout_seconds + effect.settle_seconds)
    if key_still_valid(effect, clock + takes):
        return None
    forgotten_at = key_forgotten_at(effect, dispatches)
    return forgotten_at if forgotten_at is not None and clock < forgotten_at else None


def absence_seal(
    effect: EffectRow,
    dispatches: Sequence[DispatchRow],
    *,
    looked_at: datetime | None,
    clock: datetime,
) -> Seal | None:
    """How strongly "it is not there" may count, or None: absence can't be sealed (contract 8.4).

    `looked_at` is when the look-up was stamped, before it was made; None where nobody asked
    the downstream.
    """
    if effect.happened_on_file:
        return None
    if all(not dispatch.is_open for dispatch in dispatches):
        return Seal.FINAL
    if looked_at is None:
        return None
    in_key = effect.guarantee != Guarantee.IDEMPOTENT_KEY or key_still_valid(effect, clock)
    arrival = last_arrival(effect, [dispatch for dispatch in dispatches if dispatch.is_open])
    if effect.refuses_late and arrival is not None and looked_at > arrival and in_key:
        return Seal.FINAL
    resendable = effect.guarantee in (
        Guarantee.CONDITIONAL_WRITE,
        Guarantee.RESERVATION,
        Guarantee.IDEMPOTENT_KEY,
    )
    return Seal.RESEND if resendable and in_key else None


def worker_can_settle(effect: EffectRow, clock: datetime) -> bool:
    """Whether a worker that holds the task can go on with an effect that may be out.

    Where it can't, the task waits for a person (or a sealed look-up) instead of a worker.
    """
    if effect.happened_on_file and effect.guarantee in (Guarantee.NONE, Guarantee.QUERY_ONLY):
        return False
    match effect.guarantee:
        case Guarantee.CONDITIONAL_WRITE | Guarantee.RESERVATION:
            return True
        case Guarantee.IDEMPOTENT_KEY:
            return key_still_valid(effect, clock)
        case (
            Guarantee.QUERY_ONLY | Guarantee.GATED
        ):  # a gated one may be out only if it was redeemed
            return effect.refuses_late
        case _:
            return False


def waits_for_a_person(effects: Sequence[EffectRow], clock: datetime) -> bool:
    """Whether something may be out that no worker can settle (contract 7)."""
    return any(effect.may_be_out and not worker_can_settle(effect, clock) for effect in effects)


def after_hold(effect: EffectRow, dispatches: Sequence[DispatchRow]) -> EffectState:
    """The state of an effect once the attempt that held its task has ended (contract 7, 8.5).

    An open dispatch of a GATED effect that was not redeemed is closed with the attempt; where
    none was redeemed, nothing has happened and nothing can any more. Each other ACCEPTED
    effect becomes UNKNOWN: its caller may still be sending.
    """
    if effect.guarantee == Guarantee.GATED and effect.state in (
        EffectState.ACCEPTED,
        EffectState.UNKNOWN,
    ):
        redeemed = any(
            dispatch.is_open and dispatch.redeemed_at is not None for dispatch in dispatches
        )
        if not redeemed and not effect.happened_on_file:
            return EffectState.PREPARED
    return (
        EffectState.UNKNOWN if effect.state == EffectState.ACCEPTED else EffectState(effect.state)
    )


def closes_with_hold(effect: EffectRow, dispatch: DispatchRow) -> bool:
    """Unredeemed dispatches of a gated effect close with every end of an attempt (contract 8.5)."""
    return effect.guarantee == Guarantee.GATED and dispatch.is_open and dispatch.redeemed_at is None
