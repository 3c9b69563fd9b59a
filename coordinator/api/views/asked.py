"""Whether an effect has happened, as its downstream says: asked for a person, by the coordinator (contract 8.4)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from coordinator.access import Operation, sees_payloads
from coordinator.api.bodies.effects import LookBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import effect_id_of
from coordinator.evidence_masks import mask_evidence
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.secrets import MAX_NAMED
from coordinator.selectors.downstreams import secret_pointers
from coordinator.selectors.effects import find_effect
from coordinator.services.asking import ask_downstream
from coordinator.site.adapters import registered_adapters


@dataclass(frozen=True, slots=True)
class AskedRecord:
    """What the downstream said. Whoever settles the effect by it names `lookup_id` and `dispatches`.

    `said` is HAPPENED, NOT_HAPPENED or DONT_KNOW. It is on file as evidence with all that it told.
    """

    effect_id: str
    lookup_id: UUID
    started_at: datetime
    dispatches: int
    said: str
    detail: str
    receipt: Any
    milliseconds: int
    masked: list[str] = field(default_factory=list)


class EffectAsk(Endpoint):
    @operation(
        Operation.ASK_DOWNSTREAM,
        "Have the downstream asked whether it happened; what it says is evidence, and settles nothing",
        body=LookBody,
        answer=AskedRecord,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[LookBody], effect_id: str) -> AskedRecord | Refusal:
        if not sees_payloads(call.caller):
            return Refusal(Outcome.FORBIDDEN, "It takes the permission to see payloads, too.")
        wanted = effect_id_of(effect_id)
        effect = find_effect(wanted)
        if effect is None:
            return not_found("effect")
        adapter = registered_adapters().get(effect.downstream)
        if adapter is None or not adapter.can_be_asked:
            return invalid(FieldError("/downstream", _NOBODY_TO_ASK.format(effect.downstream)))
        answer = ask_downstream(effect_id=wanted, adapter=adapter, actor=call.caller)
        if isinstance(answer, Refusal):
            return answer
        told = {"detail": answer.detail, "receipt": answer.receipt}
        shown, hidden = mask_evidence(told, secret_pointers(effect.downstream))
        return AskedRecord(
            effect_id=wanted,
            lookup_id=answer.lookup_id,
            started_at=answer.started_at,
            dispatches=answer.dispatches,
            said=answer.said,
            detail=shown["detail"],
            receipt=shown["receipt"],
            milliseconds=answer.milliseconds,
            masked=[one.pointer for one in hidden][:MAX_NAMED],
        )


_NOBODY_TO_ASK = (
    "No adapter of `{}` that can be asked is registered (TENURE_ADAPTERS). Begin a look-up, look there yourself by the "
    "exact effect_id, and settle by what you see."
)
