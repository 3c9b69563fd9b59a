"""The second person of a promotion: everything is measured again, and the queue moves (contract 13).

A lone person may confirm their own request with a typed reason; that raises an alarm, as a lone
bump does (contract 12).
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.models import PromotionRequest
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.states import PromotionState, RolloutStage

from .events import EventKind
from .promotion_rows import HeardRequest, hear_request, not_a_person, over
from .stages import StageSet, move_forward, tell_workers
from .texts import MAX_REASON_CHARS, check_text
from .transactions import in_transaction

MIN_REASON_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class Promoted:
    """The receipt of a confirmation; its repeat by the same person gets the same, `replayed`."""

    request_id: UUID
    queue: str
    rollout_stage: str
    scheduler_epoch: int
    requested_by: str
    confirmed_by: str
    confirmed_at: datetime
    alone: bool = False
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class _Word:
    """What the second person says, or the first one alone."""

    evidence_digest: str
    confirm: str
    reason: str
    alone: bool
    actor: Actor


def confirm_promotion(
    *,
    request_id: UUID,
    evidence_digest: str,
    confirm: str,
    actor: Actor,
    reason: str = "",
    alone: bool = False,
) -> Promoted | Refusal:
    """Confirm what another person has asked for: the queue moves, if the gate is open now.

    Everything is measured again under the queue's exclusive gate. A gate that has closed, a
    stage or an epoch that has moved make the request VOID (GATE_CLOSED, STATE_VERSION_MISMATCH);
    past its time it is EXPIRED. Refused besides: FORBIDDEN (who asked does not confirm, unless
    they say that they are `alone` and why: an ALARM is raised), PAYLOAD_CONFLICT (other
    evidence than the request's), ALREADY_SETTLED, INVALID, NOT_FOUND.
    """
    faults = check_text("/reason", reason, most=MAX_REASON_CHARS, least=0)
    if alone and len(reason.strip()) < MIN_REASON_CHARS:
        faults.append(FieldError("/reason", "Say why nobody else can confirm it."))
    refusal = invalid(*faults) if faults else not_a_person(actor)
    if refusal is not None:
        return refusal
    answer = _confirm(request_id, _Word(evidence_digest, confirm, reason.strip(), alone, actor))
    if isinstance(answer, Promoted) and not answer.replayed:
        stage_set = StageSet(answer.queue, answer.rollout_stage, answer.scheduler_epoch, True)
        tell_workers(answer.queue, stage_set)
    return answer


@in_transaction
def _confirm(request_id: UUID, word: _Word) -> Promoted | Refusal:
    heard = hear_request(request_id)
    if heard is None:
        return not_found("promotion request")
    row, queue, actor = heard.row, heard.opened.row.name, word.actor
    if word.confirm != queue:
        return invalid(FieldError("/confirm", f"Type the queue's name: {queue}."))
    if row.state == PromotionState.CONFIRMED and row.ended_by == actor.label:
        return _promoted(row, heard, replayed=True)
    refusal = _may_not(heard, word)
    if refusal is not None:
        return heard.refuse(refusal, actor=actor)
    is_alone = actor.id == row.requested_by_id
    heard.end(PromotionState.CONFIRMED, word.reason, actor=actor, is_alone=is_alone)
    move_forward(
        heard.opened,
        RolloutStage(row.to_stage),
        reason=word.reason or row.reason,
        actor=actor,
        gate=heard.gate,
        request_id=str(row.request_id),
        requested_by=row.requested_by,
        asked_because=row.reason,
        evidence_digest=row.evidence_digest,
        alone=is_alone,
    )
    if is_alone:
        heard.tell(EventKind.ALARM, actor=actor, alarm="LONE_PROMOTION", reason=word.reason)
    return _promoted(row, heard)


def _may_not(heard: HeardRequest, word: _Word) -> Refusal | None:
    row = heard.row
    is_own = row.state == PromotionState.ASKED and word.actor.id == row.requested_by_id
    if is_own and not word.alone:
        told = (
            "You asked for this promotion; somebody else must confirm it,"
            " or you say that you are `alone`, and why."
        )
        return Refusal(Outcome.FORBIDDEN, told)
    if word.evidence_digest != row.evidence_digest:
        told = "You saw other figures than those that the request is based on; look again."
        return Refusal(
            Outcome.PAYLOAD_CONFLICT, told, extra={"evidence_digest": row.evidence_digest}
        )
    void = heard.void_because() if row.state == PromotionState.ASKED else None
    if heard.settle() and row.state == PromotionState.VOID:
        return _void(heard, void or "")
    return None if row.state == PromotionState.ASKED else over(row)


def _void(heard: HeardRequest, why: str) -> Refusal:
    """It has just become void: because of what was measured, or of where the queue is by now."""
    blocking = [each for each in heard.gate.criteria if not each.ok]
    queue, told = heard.opened.row, f"The request is void: {why}."
    if (queue.rollout_stage, queue.scheduler_epoch) == (
        heard.row.from_stage,
        heard.row.scheduler_epoch,
    ):
        return Refusal(Outcome.GATE_CLOSED, told, extra={"blocking": blocking})
    extra = {"rollout_stage": queue.rollout_stage, "scheduler_epoch": queue.scheduler_epoch}
    return Refusal(Outcome.STATE_VERSION_MISMATCH, told, extra=extra)


def _promoted(row: PromotionRequest, heard: HeardRequest, *, replayed: bool = False) -> Promoted:
    assert row.ended_by is not None
    assert row.ended_at is not None
    return Promoted(
        request_id=row.request_id,
        queue=heard.opened.row.name,
        rollout_stage=row.to_stage,
        scheduler_epoch=row.scheduler_epoch,
        requested_by=row.requested_by,
        confirmed_by=row.ended_by,
        confirmed_at=row.ended_at,
        alone=row.is_alone,
        replayed=replayed,
    )
