"""One call at the gate: who it says it is, and the coordinator's word on it."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

from tenure.calling import segment
from tenure.digests import payload_digest
from tenure.downstreams import headers as names
from tenure.effect_errors import AlreadyRedeemed, PayloadConflict
from tenure.errors import ClaimLost, NotEncodable, Problem, TenureError
from tenure.records import Json
from tenure.retrying import Repeat, RetryPolicy
from tenure.transport import Call, Transport, json_bytes

log = logging.getLogger("tenure.gate")

#: A worker waits on the other side, with a deadline.
REDEEM_RETRY = RetryPolicy(
    tries=4, first_pause_seconds=0.05, longest_pause_seconds=0.5, budget_seconds=5.0
)
REPORT_RETRY = RetryPolicy(tries=6, budget_seconds=20.0)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """What a call shows at the gate. The digest is made from what the tool would really act on."""

    effect_id: str
    dispatch_id: str
    fencing_token: str
    payload_digest: str
    #: This very arrival: another one of the same call has another.
    redeem_id: str


@dataclass(frozen=True, kw_only=True)
class Turned:
    """Not let through: the tool must not act. `outcome` goes back to the worker."""

    outcome: str
    status: int
    detail: str

    @property
    def body(self) -> Mapping[str, Json]:
        """As application/problem+json."""
        return {
            "type": "about:blank",
            "title": "The gate did not let this call through",
            "status": self.status,
            "detail": self.detail,
            "outcome": self.outcome,
        }


class Gate:
    """Redeems dispatches of effects at one downstream. Shared between threads; close it, or use it in a `with`."""

    def __init__(
        self, url: str, token: str, *, downstream: str, timeout_seconds: float = 5.0
    ) -> None:
        self.downstream = downstream
        self._transport = Transport(url, token, timeout_seconds=timeout_seconds, retry=REDEEM_RETRY)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def shown(self, header: Callable[[str], str | None], payload: Json) -> Pass | Turned:
        """The pass of a call, by its headers and by the payload that really came with it."""
        shown = {
            name: header(name) or "" for name in (names.KEY, names.DISPATCH, names.FENCING_TOKEN)
        }
        missing = [name for name, value in shown.items() if not value]
        if missing:
            return _malformed(f"this tool stands behind a gate: {', '.join(missing)} is missing")
        try:
            condition = names.condition_in(header(names.CONDITION))
            digest = payload_digest(
                downstream=self.downstream, payload=payload, condition=condition
            )
        except (ValueError, NotEncodable) as error:
            return _malformed(f"the payload or its condition can't be read: {error}")
        return Pass(
            effect_id=shown[names.KEY],
            dispatch_id=shown[names.DISPATCH],
            fencing_token=shown[names.FENCING_TOKEN],
            payload_digest=digest,
            redeem_id=uuid.uuid4().hex,
        )

    def redeem(self, shown: Pass) -> Turned | None:
        """Ask once for this arrival; None where the tool may act. Where nobody answers, it may not."""
        body = {
            "dispatch_id": shown.dispatch_id,
            "redeem_id": shown.redeem_id,
            "fencing_token": shown.fencing_token,
            "payload_digest": shown.payload_digest,
        }
        try:
            self._post(shown, "redeem", body, key=shown.redeem_id)
        except (ClaimLost, AlreadyRedeemed, PayloadConflict) as refused:
            log.warning("effect %s turned away: %s", shown.effect_id, refused)
            return Turned(outcome=str(refused.outcome), status=409, detail=str(refused))
        except Problem as refused:
            log.error("effect %s can't be redeemed: %s", shown.effect_id, refused)
            return Turned(outcome=refused.outcome or "REFUSED", status=409, detail=str(refused))
        except TenureError as error:
            # The redemption may have landed; this arrival acts no more, and no later one can.
            log.error("effect %s: the coordinator does not answer: %s", shown.effect_id, error)
            return Turned(outcome="UNREACHABLE", status=503, detail=str(error))
        return None

    def report(
        self,
        shown: Pass,
        outcome: Literal["COMMITTED", "UNKNOWN", "REFUSED"],
        *,
        receipt: Json = None,
        detail: str | None = None,
    ) -> None:
        """Tell what came of a call that was let through. What can't be told is the worker's to tell."""
        body: dict[str, Any] = {
            "dispatch_id": shown.dispatch_id,
            "redeem_id": shown.redeem_id,
            "outcome": outcome,
        }
        if receipt is not None:
            body["receipt"] = receipt
        if detail is not None:
            body["detail"] = detail
        try:
            self._post(shown, "report", body, retry=REPORT_RETRY)
        except TenureError as error:
            log.warning("effect %s: its outcome could not be told: %s", shown.effect_id, error)

    def _post(
        self,
        shown: Pass,
        verb: str,
        body: Mapping[str, Json],
        *,
        key: str | None = None,
        retry: RetryPolicy | None = None,
    ) -> None:
        headers = {"Content-Type": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        call = Call(
            method="POST",
            path=f"effects/{segment(shown.effect_id)}/{verb}",
            content=json_bytes(body),
            headers=headers,
            repeat=Repeat.BY_NATURE if key is None else Repeat.BY_KEY,
        )
        self._transport.send(call, retry=retry)


def _malformed(detail: str) -> Turned:
    return Turned(outcome="MALFORMED", status=400, detail=detail)
