"""The gate: a tool redeems a dispatch before it acts, once, and only while its attempt is current (contract 8.5)."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from coordinator.actors import Worker
from coordinator.fence import Fence, Point
from coordinator.outcomes import FieldError, Outcome, Reason, Refusal, Retry, invalid, not_found
from coordinator.rounds import Statement
from coordinator.seals import DispatchRow
from coordinator.states import DispatchOutcome, EffectState

from .acceptances import fencing_token
from .effect_hearings import EffectHearing, open_effect
from .events import EventKind
from .identity import hold_of
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Redeemed:
    dispatch_id: UUID
    replayed: bool = False
    outcome: str = "REDEEMED"


_REDEEM: Final = """
UPDATE coordinator_dispatch SET redeemed_at = %s, redeem_id = %s, redeemed_by = %s
WHERE dispatch_id = %s AND redeemed_at IS NULL AND closed_at IS NULL
"""


@in_transaction
def redeem_dispatch(
    *,
    effect_id: str,
    dispatch_id: UUID,
    redeem_id: str,
    fencing_token: str,
    payload_digest: str,
    gate: Worker,
) -> Redeemed | Refusal:
    """Let one call through: once per dispatch, while its attempt is current and it is the newest and open.

    The same `redeem_id` by the same gate gets the same answer. Refused: FENCED, CANCELLED, STALE_INPUT,
    ALREADY_REDEEMED, PAYLOAD_CONFLICT, NOT_FOUND, INVALID; then the tool must not act.
    """
    hearing = open_effect(effect_id, Point.REDEEM, actor=gate)
    if hearing is None or not gate.reaches(hearing.queue.name):
        return not_found("effect")
    dispatch = next(
        (each for each in hearing.slot.dispatches if each.dispatch_id == dispatch_id), None
    )
    if dispatch is None:
        return not_found("dispatch of this effect")
    is_repeat = dispatch.redeem_id == redeem_id and dispatch.redeemed_by == gate.id
    refusal = _refusal(hearing, dispatch, fencing_token, payload_digest, is_repeat=is_repeat)
    if isinstance(refusal, Refusal):
        hearing.refuse(refusal)
        hearing.write()
        return refusal
    if is_repeat:
        return Redeemed(dispatch_id, replayed=True)
    hearing.tell(EventKind.EFFECT_REDEEMED, dispatch_number=dispatch.number, gate=gate.name)
    hearing.write(Statement(_REDEEM, (hearing.clock, redeem_id, gate.id, dispatch_id)))
    return Redeemed(dispatch_id)


def _refusal(
    hearing: EffectHearing,
    dispatch: DispatchRow,
    token: str,
    payload_digest: str,
    *,
    is_repeat: bool,
) -> Refusal | None:
    effect = hearing.slot.effect
    attempt = hearing.attempts[dispatch.attempt_id]
    fence = Fence(
        hearing.task.task_id,
        dispatch.attempt_id,
        dispatch.scheduler_epoch,
        dispatch.claim_generation,
        attempt.cancel_generation,
    )
    if token != fencing_token(fence, dispatch.number):
        return invalid(
            FieldError(
                "/fencing_token", "It is not the token that this dispatch was accepted with."
            )
        )
    if payload_digest != effect.payload_digest:
        return Refusal(
            Outcome.PAYLOAD_CONFLICT, "The payload is not the one that was accepted; don't act."
        )
    if dispatch.redeem_id is not None and not is_repeat:
        return Refusal(
            Outcome.ALREADY_REDEEMED, "Another call has redeemed this dispatch; don't act."
        )
    if is_repeat and dispatch.is_open and not hold_of(hearing.queue):
        return None  # a repeat of the very call that redeemed it
    # The gate is another caller than the attempt's: its own scope was checked at the door.
    verdict = hearing.judge(fence, credential_id=attempt.credential_id)
    if isinstance(verdict, Refusal):
        return verdict
    return _over(hearing, dispatch)


def _over(hearing: EffectHearing, dispatch: DispatchRow) -> Refusal | None:
    """A dispatch that isn't the newest, was closed or settled, or whose deadline has passed."""
    settled = dispatch.outcome in (DispatchOutcome.COMMITTED, DispatchOutcome.REFUSED)
    open_state = hearing.slot.effect.state in (EffectState.ACCEPTED, EffectState.UNKNOWN)
    in_time = hearing.clock < dispatch.call_deadline
    newest = hearing.slot.newest
    is_newest = newest is not None and newest.dispatch_id == dispatch.dispatch_id
    if is_newest and dispatch.closed_at is None and not settled and open_state and in_time:
        return None
    told = "its deadline has passed" if not in_time else "it is closed, settled, or not the newest"
    return Refusal(
        Outcome.FENCED,
        f"This dispatch is over: {told}; don't act.",
        reason=Reason.STALE_GENERATION,
        retry_as=Retry.NEVER,
        evidence_recorded=True,
    )
