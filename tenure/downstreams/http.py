"""An HTTP endpoint that dedupes on our `Idempotency-Key`, or that stands behind a gate of ours.

The payload is the request's JSON body, whole. One endpoint is one downstream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tenure.canonical import canonical
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Guarantee,
    Happened,
    Sent,
    overdue,
)
from tenure.downstreams.exchange import Answered, exchange, new_client, receipt_of, verdict
from tenure.downstreams.fields import plain
from tenure.downstreams.headers import headers_of
from tenure.records import Json


class HttpKey(Adapter):
    """`look_up_url` has `{key}` where the effect's id goes: 200 means it happened, 404 that it is not there."""

    kind: ClassVar[str] = "http"
    limits: ClassVar[str] = (
        "Only as good as the service's memory of keys: register key_valid_seconds no longer than it keeps them. "
        "A service that answers 404 for a wrong address says 'absent' for everything: prove the look-up by a known key."
    )

    def __init__(
        self,
        url: str,
        *,
        method: str = "POST",
        look_up_url: str | None = None,
        headers: Mapping[str, str] | None = None,
        guarantee: Guarantee = Guarantee.IDEMPOTENT_KEY,
    ) -> None:
        super().__init__(guarantee)
        if look_up_url is not None and "{key}" not in look_up_url:
            raise ValueError("look_up_url needs {key} where the effect's id goes")
        self._url = url
        self._method = method
        self._look_up_url = look_up_url
        self.can_be_asked = look_up_url is not None
        self._client = new_client(headers)

    def check(self, payload: Json, condition: Json) -> None:
        """Any JSON will do; a condition is passed on as a header."""
        plain(payload, "/payload")
        plain(condition, "/condition")

    def send(self, call: Call) -> Sent:
        """One request with the payload as its body."""
        if late := overdue(call):
            return late
        answer = exchange(
            self._client,
            self._method,
            self._url,
            deadline=call.deadline,
            headers={"Content-Type": "application/json", **headers_of(call)},
            content=canonical(call.payload),
        )
        return verdict(answer) if isinstance(answer, Answered) else answer

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        """Ask by the key."""
        if self._look_up_url is None:
            return super().look_up(effect, deadline=deadline)
        url = self._look_up_url.format(key=effect.effect_id)
        answer = exchange(self._client, "GET", url, deadline=deadline)
        if not isinstance(answer, Answered):
            return DontKnow(detail=answer.detail)
        if answer.status == 200:
            return Happened(receipt=receipt_of(answer), etag=answer.headers.get("ETag"))
        if answer.status == 404:
            return Absent(detail="the service knows nothing under this key")
        return DontKnow(detail=f"the look-up was answered with HTTP {answer.status}")
