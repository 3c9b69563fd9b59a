"""A queue moved one stage forward by two people: one asks, the other confirms."""

from typing import Any

from coordinator.actors import Actor, ActorKind
from coordinator.outcomes import Refusal
from coordinator.services.promotion_confirmations import Promoted, confirm_promotion
from coordinator.services.promotions import PromotionAsked, ask_promotion
from coordinator.services.stages import StageSet
from coordinator.states import RolloutStage

ALICE = Actor(ActorKind.OPERATOR, "alice", id=1)
BOB = Actor(ActorKind.OPERATOR, "bob", id=2)


def ask(expected: RolloutStage, *, queue: str = "q", **changes: Any) -> PromotionAsked | Refusal:
    asked: dict[str, Any] = {
        "queue": queue,
        "expected_stage": expected,
        "confirm": queue,
        "reason": "ready",
        "actor": ALICE,
    } | changes
    return ask_promotion(**asked)


def asked(expected: RolloutStage, **changes: Any) -> PromotionAsked:
    answer = ask(expected, **changes)
    assert isinstance(answer, PromotionAsked), answer
    return answer


def confirm(request: PromotionAsked, **changes: Any) -> Promoted | Refusal:
    told: dict[str, Any] = {
        "request_id": request.request_id,
        "evidence_digest": request.evidence_digest,
        "confirm": request.queue,
        "actor": BOB,
    } | changes
    return confirm_promotion(**told)


def promote(expected: RolloutStage, **changes: Any) -> StageSet | Refusal:
    """Both in turn; what comes of it, as the queue stands then."""
    request = ask(expected, **changes)
    if isinstance(request, Refusal):
        return request
    answer = confirm(request)
    if isinstance(answer, Refusal):
        return answer
    changed = not answer.replayed
    return StageSet(answer.queue, answer.rollout_stage, answer.scheduler_epoch, changed)
