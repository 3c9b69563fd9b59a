"""Names and digests of effects, as the coordinator computes them (contract 5, 8.1)."""

from __future__ import annotations

import hashlib

from tenure.canonical import canonical, digest
from tenure.records import Json


def effect_id(*, task_id: str, node_id: str, slot: str) -> str:
    """The name of an effect for ever: 64 hex digits, without attempt, generation, payload or time in it."""
    state = hashlib.sha256(b"claim.v1")
    for part in (task_id, node_id, slot):
        encoded = part.encode()
        state.update(len(encoded).to_bytes(4, "big") + encoded)
    return state.hexdigest()


def payload_digest(*, downstream: str, payload: Json, condition: Json = None) -> str:
    """What a slot is bound to: where it goes, what is sent, and on which condition.

    Raises NotEncodable where the payload or the condition is no JSON.
    """
    bound = {"condition": condition, "downstream": downstream, "payload": payload}
    return digest(canonical(bound))
