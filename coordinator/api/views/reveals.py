"""Reveals: the stored JSON of what people are given masked, once, for a reason (console design, 3.7)."""

from dataclasses import dataclass
from typing import Final

import orjson

from coordinator.access import Operation, sees_payloads
from coordinator.actors import Actor
from coordinator.api.bodies.effects import (
    RevealBody,
    RevealEffectBody,
    RevealMemoryBody,
    RevealTaskBody,
)
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import effect_id_of, uuid_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.secrets import MAX_NAMED
from coordinator.services.reveals import reveal
from coordinator.services.stored_secrets import Part, Subject

#: Of an event's id.
MAX_DIGITS: Final = 18


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
        "Reveal a masked payload, condition, receipt or piece of evidence, for a reason; who looked is on record",
        body=RevealEffectBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealEffectBody], effect_id: str) -> RevealedPart | Refusal:
        body = call.body
        subject = Subject(
            Part(body.part), effect_id=effect_id_of(effect_id), evidence_id=body.evidence_id
        )
        return revealed(call.caller, subject, body.reason)


class TaskReveal(Endpoint):
    @operation(
        Operation.REVEAL_TASK,
        "Reveal a masked input, result, candidate or error of an attempt, for a reason; who looked is on record",
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


class RunReveal(Endpoint):
    @operation(
        Operation.REVEAL_RUN,
        "Reveal a run's masked metadata, for a reason; who looked is on record",
        body=RevealBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealBody], run_id: str) -> RevealedPart | Refusal:
        subject = Subject(Part.METADATA, run_id=uuid_of(run_id, "run"))
        return revealed(call.caller, subject, call.body.reason)


class EventReveal(Endpoint):
    @operation(
        Operation.REVEAL_EVENT,
        "Reveal what is masked of an event, for a reason; who looked is on record",
        body=RevealBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealBody], event_id: str) -> RevealedPart | Refusal:
        digits = event_id if event_id.isascii() and event_id.isdigit() else ""
        known = int(digits) if 0 < len(digits) <= MAX_DIGITS else 0
        return revealed(call.caller, Subject(Part.EVENT, event_id=known), call.body.reason)


class MemoryReveal(Endpoint):
    @operation(
        Operation.REVEAL_MEMORY,
        "Reveal a masked value of shared memory, for a reason; who looked is on record",
        body=RevealMemoryBody,
        answer=RevealedPart,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN),
    )
    def post(self, call: Call[RevealMemoryBody]) -> RevealedPart | Refusal:
        body = call.body
        subject = Subject(Part.MEMORY, namespace=body.namespace, key=body.key, version=body.version)
        return revealed(call.caller, subject, body.reason)
