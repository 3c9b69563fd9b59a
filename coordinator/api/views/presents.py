"""What is there now, where a payload that waits for a person would write (contract 9, adr/0025)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson

from coordinator.access import Operation, sees_payloads
from coordinator.actors import Actor
from coordinator.api.bodies.effects import LookBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.secrets import MAX_NAMED, mask_text, mask_value
from coordinator.selectors.approvals import find_approval
from coordinator.selectors.downstreams import secret_pointers
from coordinator.selectors.present_states import read_present_state
from coordinator.services.present_states import look_for_approval
from coordinator.site.adapters import registered_adapters


@dataclass(frozen=True, slots=True)
class PresentRecord:
    """`there` and `instead` have the payload's own form; both are null where the downstream could not tell (`detail`).

    `evidence_id` is the piece of evidence that it is kept as: what is masked of it is revealed by that.
    """

    approval_id: UUID
    effect_id: str
    evidence_id: int
    told: bool
    there: orjson.Fragment | None
    instead: orjson.Fragment | None
    facts: dict[str, Any]
    condition_holds: bool | None
    detail: str
    actor: str
    at: datetime
    masked: list[str] = field(default_factory=list)


class ApprovalPresent(Endpoint):
    @operation(
        Operation.READ_PRESENT,
        "What its downstream told last of what is there now",
        answer=PresentRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], approval_id: str) -> PresentRecord | Refusal:
        return _told(uuid_of(approval_id, "approval"))

    @operation(
        Operation.LOOK_AT_PRESENT,
        "Ask the downstream what is there now; what it tells is evidence, and decides nothing",
        body=LookBody,
        answer=PresentRecord,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[LookBody], approval_id: str) -> PresentRecord | Refusal:
        if refusal := _may_not_see(call.caller):
            return refusal
        wanted = uuid_of(approval_id, "approval")
        looked = look_for_approval(
            approval_id=wanted, adapters=registered_adapters(), actor=call.caller
        )
        return looked if isinstance(looked, Refusal) else _told(wanted)


def _may_not_see(caller: Actor) -> Refusal | None:
    """Nobody decides on what they may not see, nor has it asked about."""
    if sees_payloads(caller):
        return None
    return Refusal(Outcome.FORBIDDEN, "It takes the permission to see payloads, too.")


def _told(approval_id: UUID) -> PresentRecord | Refusal:
    """The newest of them. Only people are told, so all of it is masked."""
    approval = find_approval(approval_id)
    if approval is None:
        return not_found("approval")
    effect_id = approval.effect_id
    present = read_present_state(effect_id)
    if present is None:
        return not_found("look at what is there")
    places = secret_pointers(approval.effect.downstream)
    sides = {
        name: mask_text(text, places)
        for name in ("there", "instead")
        if (text := getattr(present, name)) is not None
    }
    shown = {name: orjson.Fragment(masked.text) for name, masked in sides.items()}
    facts, hidden_facts = mask_value(present.facts)
    masked = [f"/{name}{one.pointer}" for name, each in sides.items() for one in each.hidden]
    masked += [f"/facts{one.pointer}" for one in hidden_facts]
    return PresentRecord(
        approval_id=approval_id,
        effect_id=effect_id,
        evidence_id=present.evidence_id,
        told=present.there is not None,
        there=shown.get("there"),
        instead=shown.get("instead"),
        facts=facts,
        condition_holds=present.condition_holds,
        detail=mask_value(present.detail)[0],
        actor=present.actor,
        at=present.at,
        masked=masked[:MAX_NAMED],
    )
