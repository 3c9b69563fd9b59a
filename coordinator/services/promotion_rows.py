"""A request to promote a queue, under the queue's exclusive gate, and what ends it (contract 13)."""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import orjson

from coordinator import digests
from coordinator.actors import Actor, ActorKind, system
from coordinator.models import PromotionRequest
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import run_round
from coordinator.selectors.promotion import Promotion, measure
from coordinator.states import PromotionState

from .events import EventKind, Fact, record, refusal_fact
from .stages import OpenedStage, open_stage

EVENT_OF = {
    PromotionState.WITHDRAWN: EventKind.PROMOTION_WITHDRAWN,
    PromotionState.EXPIRED: EventKind.PROMOTION_EXPIRED,
    PromotionState.VOID: EventKind.PROMOTION_VOID,
}


@dataclass(frozen=True, slots=True)
class HeardRequest:
    """A request and its queue, both locked. `gate` is as it is measured now."""

    row: PromotionRequest
    opened: OpenedStage
    gate: Promotion

    def end(
        self, state: PromotionState, why: str, *, actor: Actor, is_alone: bool = False
    ) -> PromotionRequest:
        """Write how it ended; the fact too, but for a confirmation, which is told as the promotion."""
        row, at = self.row, self.opened.clock
        row.state, row.ended_at, row.ended_by = state, at, actor.label
        row.end_reason, row.is_alone = why, is_alone
        PromotionRequest.objects.filter(pk=row.pk).update(
            state=state, ended_at=at, ended_by=actor.label, end_reason=why, is_alone=is_alone
        )
        if state in EVENT_OF:
            self.tell(EVENT_OF[state], actor=actor, reason=why)
        return row

    def tell(self, kind: EventKind, *, actor: Actor, **told: Any) -> None:
        data = {"request_id": str(self.row.request_id), "to": self.row.to_stage, **told}
        fact = Fact(kind, queue_id=self.row.queue_id, data=data)
        run_round(record([fact], actor=actor, at=self.opened.clock))

    def refuse(self, refusal: Refusal, *, actor: Actor) -> Refusal:
        """Recorded: who tried, and why not."""
        fact = refusal_fact(
            refusal,
            point="promote",
            subject=f"{actor.label}:{self.row.request_id}",
            task=None,
            request_id=str(self.row.request_id),
        )
        told = replace(fact, queue_id=self.row.queue_id)
        run_round(record([told], actor=actor, at=self.opened.clock))
        return replace(refusal, evidence_recorded=True)

    def void_because(self) -> str | None:
        """What has made it void since it was asked; None while it stands."""
        queue = self.opened.row
        if queue.rollout_stage != self.row.from_stage:
            return f"the stage is {queue.rollout_stage} by now"
        if queue.scheduler_epoch != self.row.scheduler_epoch:
            return f"the epoch is {queue.scheduler_epoch} by now"
        if not self.gate.open:
            blocking = [each.detail for each in self.gate.criteria if not each.ok]
            return "the gate has closed: " + " ".join(blocking).removesuffix(".")
        return None

    def settle(self) -> bool:
        """End it by time or by what has moved, in the system's name; whether that was so."""
        if self.row.state != PromotionState.ASKED:
            return False
        why = self.void_because()
        if self.opened.clock >= self.row.expires_at:
            told = "nobody confirmed it in time"
            self.end(PromotionState.EXPIRED, told, actor=system("promotions"))
        elif why is not None:
            self.end(PromotionState.VOID, why, actor=system("promotions"))
        else:
            return False
        return True


def hear_request(request_id: UUID, point: str = "promote") -> HeardRequest | None:
    """Lock the request under its queue's exclusive gate and measure; None where there is no such request."""
    queues = PromotionRequest.objects.filter(request_id=request_id).values_list("queue_id")
    found = queues.first()
    if found is None:
        return None
    opened = open_stage(found[0], point)
    row = PromotionRequest.objects.select_for_update(of=("self",)).get(request_id=request_id)
    return HeardRequest(row, opened, measure(opened.row))


def evidence_of(gate: Promotion, epoch: int) -> tuple[str, str]:
    """What was measured, as canonical JSON, and its digest: this is what a confirmation is bound to."""
    told = {
        "queue": gate.queue,
        "from": gate.rollout_stage,
        "to": gate.next_stage,
        "scheduler_epoch": epoch,
        "criteria": [
            {
                "name": each.name,
                "ok": each.ok,
                "value": each.value,
                "threshold": each.threshold,
                "detail": each.detail,
                "computed_at": each.computed_at.isoformat(),
            }
            for each in gate.criteria
        ],
    }
    text = digests.canonical(orjson.loads(orjson.dumps(told)))
    return text.decode(), digests.sha256(text)


def over(row: PromotionRequest) -> Refusal:
    told = f"The request is {row.state} ({row.ended_by}: {row.end_reason})."
    extra = {"state": row.state, "by": row.ended_by}
    return Refusal(Outcome.ALREADY_SETTLED, told, extra=extra)


def not_a_person(actor: Actor) -> Refusal | None:
    if actor.kind is ActorKind.OPERATOR:
        return None
    return Refusal(Outcome.FORBIDDEN, "Only a person promotes a queue.")
