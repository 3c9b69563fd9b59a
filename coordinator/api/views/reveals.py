"""Reveals: the stored JSON of what people are given masked, once, for a reason (console design, 3.7)."""

from dataclasses import dataclass

import orjson

from coordinator.access import Operation, sees_payloads
from coordinator.actors import Actor
from coordinator.api.bodies.effects import RevealEffectBody, RevealTaskBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import effect_id_of, uuid_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.secrets import MAX_NAMED
from coordinator.services.reveals import Part, Subject, reveal


@dataclass(frozen=True, slots=True)
class RevealedPart:
    """What is masked elsewhere, as it is stored; `places` are those that are masked there."""

    part: str
    value: orjson.Fragment
    digest: str
    places: list[str]


def revealed(caller: Actor, subject: Subject, reason: str) -> RevealedPart | Refusal:
    """Nobody is shown the secrets of what they may not see at all."""
    if not sees_payloads(caller):
        return Refusal(Outcome.FORBIDDEN, "It takes the permission to see payloads, too.")
    answer = reveal(subject=subject, reason=reason, actor=caller)
    if isinstance(answer, Refusal):
        return answer
    places = [one.pointer for one in answer.hidden[:MAX_NAMED]]
    return RevealedPart(answer.part, orjson.Fragment(answer.text), answer.digest, places)


class EffectReveal(Endpoint):
    @operation(
        Operation.REVEAL_EFFECT,
        "Reveal a masked payload, condition or receipt, for a reason; who looked is on record",
        body=RevealEffectBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealEffectBody], effect_id: str) -> RevealedPart | Refusal:
        subject = Subject(Part(call.body.part), effect_id=effect_id_of(effect_id))
        return revealed(call.caller, subject, call.body.reason)


class TaskReveal(Endpoint):
    @operation(
        Operation.REVEAL_TASK,
        "Reveal a masked input, result or candidate, for a reason; who looked is on record",
        body=RevealTaskBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealTaskBody], task_id: str) -> RevealedPart | Refusal:
        body = call.body
        subject = Subject(
            Part(body.part),
            task_id=uuid_of(task_id, "task"),
            attempt_id=body.attempt_id,
            digest=body.result_digest or "",
        )
        return revealed(call.caller, subject, body.reason)
