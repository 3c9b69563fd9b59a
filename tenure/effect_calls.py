"""The calls of contract 8 that a worker makes for its effects: prepare, accept, report, look up, reconcile."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote

from tenure.decoding import decode
from tenure.records import Effect, Fence, Json
from tenure.retrying import Repeat, RetryPolicy
from tenure.transport import Answer, Call, Transport, json_bytes

#: What came of a call is worth telling to a coordinator that restarts: until then nobody else may know it.
REPORT_RETRY = RetryPolicy(
    tries=60, first_pause_seconds=0.2, longest_pause_seconds=3.0, budget_seconds=120.0
)

Outcome = Literal["COMMITTED", "UNKNOWN", "REFUSED"]
Finding = Literal["HAPPENED", "NOT_HAPPENED"]


@dataclass(frozen=True, kw_only=True)
class Acceptance:
    """Permission to send once."""

    dispatch_id: str
    dispatch_number: int
    idempotency_key: str
    fencing_token: str
    call_deadline: datetime
    call_deadline_seconds: float
    condition: Json = None


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """… and until when, by our monotonic clock, counted from before we asked."""

    acceptance: Acceptance
    deadline: float


@dataclass(frozen=True, kw_only=True)
class _Prepared:
    outcome: str
    effect: Effect


@dataclass(frozen=True, kw_only=True)
class _State:
    state: str


@dataclass(frozen=True, kw_only=True)
class LookUp:
    """A look-up that was stamped before it was made, and how many dispatches it can judge."""

    lookup_id: str
    dispatches: int


@dataclass(frozen=True, kw_only=True)
class _Read:
    effect: Effect


class EffectCalls:
    """Each method is one logical call under one attempt's fence."""

    def __init__(self, transport: Transport, fence: Fence) -> None:
        self._transport = transport
        self._fence = fence

    def prepare(self, slot: str, downstream: str, payload: Json, condition: Json) -> Effect:
        """Bind the slot, or read it as it stands. Raises PayloadConflict where it is bound to something else."""
        body: dict[str, Json] = {"slot": slot, "downstream": downstream, "payload": payload}
        if condition is not None:
            body["condition"] = condition
        path = f"attempts/{quote(self._fence.attempt_id, safe='')}/effects"
        return decode(_Prepared, self._post(path, body).body).effect

    def read(self, effect_id: str) -> Effect:
        """The effect as it stands."""
        call = Call(method="GET", path=f"effects/{effect_id}", repeat=Repeat.BY_NATURE)
        return decode(_Read, self._transport.send(call).body).effect

    def accept(self, effect_id: str, payload_digest: str) -> Accepted:
        """Ask for permission to send once. Only an answer to this ever permits it."""
        body = {"payload_digest": payload_digest}
        answer = self._post(f"effects/{effect_id}/accept", body, key=uuid.uuid4().hex)
        acceptance = decode(Acceptance, answer.body)
        return Accepted(
            acceptance=acceptance, deadline=answer.sent_at + acceptance.call_deadline_seconds
        )

    def report(
        self,
        effect_id: str,
        dispatch_id: str,
        outcome: Outcome,
        *,
        receipt: Json = None,
        etag: str | None = None,
        detail: str | None = None,
    ) -> str:
        """Tell what came of a call; the slot's state by it."""
        said = {"receipt": receipt, "etag": etag, "detail": detail}
        body = {
            "dispatch_id": dispatch_id,
            "outcome": outcome,
            **{name: value for name, value in said.items() if value is not None},
        }
        answer = self._post(f"effects/{effect_id}/report", body, retry=REPORT_RETRY)
        return decode(_State, answer.body).state

    def begin_look_up(self, effect_id: str) -> LookUp:
        """Stamp a look-up before it is made."""
        return decode(LookUp, self._post(f"effects/{effect_id}/lookups", {}).body)

    def reconcile(
        self,
        effect_id: str,
        finding: Finding,
        look_up: LookUp,
        *,
        detail: str,
        receipt: Json = None,
    ) -> str:
        """Settle it by what was found; its state by that."""
        body: dict[str, Json] = {
            "finding": finding,
            "dispatches": look_up.dispatches,
            "lookup_id": look_up.lookup_id,
            "evidence": {"method": "query", "detail": detail},
        }
        if receipt is not None:
            body["receipt"] = receipt
        return decode(_State, self._post(f"effects/{effect_id}/reconcile", body).body).state

    def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> Answer:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        call = Call(
            method="POST",
            path=path,
            content=json_bytes({"fence": self._fence.as_json(), **body}),
            headers=headers,
            repeat=Repeat.BY_NATURE if key is None else Repeat.BY_KEY,
        )
        return self._transport.send(call, retry=retry)
