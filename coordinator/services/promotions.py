"""Promoting a queue takes two people: here one asks, on measured evidence (contract 13).

Another confirms it (promotion_confirmations.py). Going back takes one person (stages.py).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.ids import new_id
from coordinator.models import PromotionRequest, Queue
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.promotion import measure, next_stage
from coordinator.states import PromotionState, RolloutStage

from .events import EventKind
from .promotion_rows import HeardRequest, evidence_of, hear_request, not_a_person, over
from .stages import open_stage
from .texts import check_reason
from .transactions import in_transaction

#: How long a request stands before nobody has confirmed it in time.
STANDS_SECONDS: Final = 4 * 3600
SETTLE_BATCH: Final = 100


@dataclass(frozen=True, slots=True)
class PromotionAsked:
    """A request that somebody else has to confirm, with the digest of the gate's figures that it is based on."""

    request_id: UUID
    queue: str
    state: str
    from_stage: str
    to_stage: str
    scheduler_epoch: int
    evidence_digest: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Withdrawn:
    request_id: UUID
    queue: str
    state: str
    replayed: bool = False


def ask_promotion(
    *, queue: str, expected_stage: RolloutStage, confirm: str, reason: str, actor: Actor
) -> PromotionAsked | Refusal:
    """Ask to move the queue one stage forward; the gate must be open already. Nothing moves yet.

    `confirm` is the queue's name, typed out. The same again by the same person is `replayed`.
    Refused: GATE_CLOSED with what blocks, STATE_VERSION_MISMATCH (another stage, or somebody has
    asked already: `request_id`), INVALID, NOT_FOUND, FORBIDDEN (no person).
    """
    faults = check_reason(reason)
    if confirm != queue:
        faults.append(FieldError("/confirm", f"Type the queue's name: {queue}."))
    target = next_stage(expected_stage)
    if target is None:
        faults.append(FieldError("/expected_stage", "There is no stage after this one."))
    if faults or target is None:
        return invalid(*faults)
    return not_a_person(actor) or _ask(queue, expected_stage, target, reason, actor)


@in_transaction
def _ask(
    queue: str, expected: RolloutStage, target: RolloutStage, reason: str, actor: Actor
) -> PromotionAsked | Refusal:
    found = Queue.objects.filter(name=queue).values_list("pk", flat=True).first()
    if found is None:
        return not_found("queue")
    opened = open_stage(found, "promote")
    row = opened.row
    if row.rollout_stage != expected:
        told = f"The queue is in stage {row.rollout_stage}, not {expected}; look again."
        extra = {"rollout_stage": row.rollout_stage}
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told, extra=extra)
    gate = measure(row)
    standing = PromotionRequest.objects.filter(queue_id=found, state=PromotionState.ASKED)
    before = standing.select_for_update().first()
    if before is not None and not HeardRequest(before, opened, gate).settle():
        return _stands_already(before, queue, reason, actor)
    if not gate.open:
        blocking = [each for each in gate.criteria if not each.ok]
        told = " ".join(each.detail for each in blocking)
        return Refusal(Outcome.GATE_CLOSED, told, extra={"blocking": blocking})
    evidence, digest = evidence_of(gate, row.scheduler_epoch)
    made = PromotionRequest.objects.create(
        request_id=new_id(),
        queue_id=found,
        from_stage=expected,
        to_stage=target,
        scheduler_epoch=row.scheduler_epoch,
        evidence=evidence,
        evidence_digest=digest,
        reason=reason,
        requested_by=actor.label,
        requested_by_id=actor.id,
        requested_at=opened.clock,
        expires_at=opened.clock + timedelta(seconds=STANDS_SECONDS),
    )
    heard = HeardRequest(made, opened, gate)
    heard.tell(EventKind.PROMOTION_ASKED, actor=actor, reason=reason, evidence_digest=digest)
    return _asked(made, queue)


def _stands_already(
    row: PromotionRequest, queue: str, reason: str, actor: Actor
) -> PromotionAsked | Refusal:
    if (row.requested_by_id, row.reason) == (actor.id, reason):
        return _asked(row, queue, replayed=True)
    told = f"{row.requested_by} has asked for it already: confirm that, or withdraw it first."
    extra = {"request_id": str(row.request_id), "rollout_stage": row.from_stage}
    return Refusal(Outcome.STATE_VERSION_MISMATCH, told, extra=extra)


def _asked(row: PromotionRequest, queue: str, *, replayed: bool = False) -> PromotionAsked:
    return PromotionAsked(
        request_id=row.request_id,
        queue=queue,
        state=row.state,
        from_stage=row.from_stage,
        to_stage=row.to_stage,
        scheduler_epoch=row.scheduler_epoch,
        evidence_digest=row.evidence_digest,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        expires_at=row.expires_at,
        replayed=replayed,
    )


def withdraw_promotion(*, request_id: UUID, reason: str, actor: Actor) -> Withdrawn | Refusal:
    """Call a request off; whoever may ask may. Refused: ALREADY_SETTLED, INVALID, NOT_FOUND."""
    faults = check_reason(reason)
    refusal = invalid(*faults) if faults else not_a_person(actor)
    return refusal or _withdraw(request_id, reason, actor)


@in_transaction
def _withdraw(request_id: UUID, reason: str, actor: Actor) -> Withdrawn | Refusal:
    heard = hear_request(request_id)
    if heard is None:
        return not_found("promotion request")
    row, queue = heard.row, heard.opened.row.name
    if row.state == PromotionState.WITHDRAWN and row.ended_by == actor.label:
        return Withdrawn(row.request_id, queue, row.state, replayed=True)
    if heard.settle() or row.state != PromotionState.ASKED:
        return heard.refuse(over(row), actor=actor)
    heard.end(PromotionState.WITHDRAWN, reason, actor=actor)
    return Withdrawn(row.request_id, queue, row.state)


def settle_promotions(*, limit: int = SETTLE_BATCH) -> int:
    """End the requests that are past their time, or void by now; how many. Each minute."""
    standing = PromotionRequest.objects.filter(state=PromotionState.ASKED)
    ids = list(standing.order_by("request_id").values_list("request_id", flat=True)[:limit])
    return sum(_settle_one(request_id) for request_id in ids)


@in_transaction
def _settle_one(request_id: UUID) -> bool:
    heard = hear_request(request_id, "settle_promotions")
    return heard is not None and heard.settle()
