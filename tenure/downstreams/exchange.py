"""One HTTP request, sent once, and what its answer proves.

No pooled connections: one that the server closes just as we write to it would turn a plain call into an UNKNOWN.
No redirects: a second request is a second transmission.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from tenure.canonical import canonical, digest
from tenure.downstreams import headers as names
from tenure.downstreams.base import Happened, Refused, Sent, Unknown
from tenure.errors import NotEncodable
from tenure.records import Json

#: Of an answer's body; more proves nothing that the beginning does not.
LARGEST_ANSWER_BYTES = 1 << 20
#: What a receipt may quote; a larger body is named by its digest.
LARGEST_QUOTED_BYTES = 16_384
LONGEST_DETAIL = 500

#: "I have not done it." Not in here: 408 (gave up in the middle), 409 and 412 (a condition was false: it may be our
#: own first write), 423 and 425 (somebody, perhaps an earlier call of ours, is at it).
_SAYS_NO = frozenset(
    {400, 401, 402, 403, 404, 405, 406, 407, 410, 411, 413, 414, 415, 416, 417, 421, 422}
    | {424, 426, 428, 429, 431, 451}
)


@dataclass(frozen=True, kw_only=True)
class Answered:
    """A whole answer."""

    status: int
    headers: httpx.Headers
    content: bytes

    def json(self) -> Json:
        """The body as JSON. Raises ValueError where it is none."""
        import json

        return json.loads(self.content)


def new_client(headers: Mapping[str, str] | None = None, **options: Any) -> httpx.Client:
    """A client for effects: no retries, no redirects, no kept connections."""
    return httpx.Client(
        headers=dict(headers or {}),
        follow_redirects=False,
        limits=httpx.Limits(max_connections=100, max_keepalive_connections=0),
        **options,
    )


def exchange(
    client: httpx.Client,
    method: str,
    url: str,
    *,
    deadline: float,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
) -> Answered | Refused | Unknown:
    """Send once. Refused where not one byte of the request can have left us, Unknown for every other failure."""
    left = deadline - time.monotonic()
    if left <= 0:
        return Refused(detail="not sent: no time was left", sent=False)
    request = client.build_request(
        method, url, headers=dict(headers or {}), content=content, timeout=left
    )
    try:
        response = client.send(request, stream=True)
        try:
            body = _body(response, deadline)
        finally:
            response.close()
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
        return Refused(detail=f"not sent: no connection ({_said(error)})", sent=False)
    except httpx.TransportError as error:
        return Unknown(detail=_said(error))
    if body is None:
        return Unknown(
            detail="the answer was longer than an answer may be, or came after the deadline"
        )
    return Answered(status=response.status_code, headers=response.headers, content=body)


def verdict(answer: Answered) -> Sent:
    """What an answer to a write proves (contract 8.3)."""
    gate = answer.headers.get(names.GATE)
    if gate is not None:
        detail = f"the gate answered {gate}"
        return Refused(detail=detail) if gate in names.TURNED_AWAY else Unknown(detail=detail)
    if answer.status in {200, 201, 204}:
        return Happened(receipt=receipt_of(answer), etag=answer.headers.get("ETag"))
    detail = f"HTTP {answer.status}: {_text(answer.content)}"
    if answer.status in _SAYS_NO:
        return Refused(detail=detail)
    return Unknown(detail=detail)


def receipt_of(answer: Answered) -> Json:
    """`{"status", "body"}`; where the body is long or no JSON, its digest instead."""
    receipt: dict[str, Json] = {"status": answer.status}
    if not answer.content:
        return receipt
    try:
        body = answer.json()
        if len(canonical(body)) <= LARGEST_QUOTED_BYTES:
            return {**receipt, "body": body}
    except (ValueError, NotEncodable, RecursionError):
        pass
    return {**receipt, "body_digest": digest(answer.content), "body_bytes": len(answer.content)}


def _body(response: httpx.Response, deadline: float) -> bytes | None:
    """The body; None where it is too long, or drips past the deadline."""
    pieces: list[bytes] = []
    size = 0
    for piece in response.iter_bytes():
        size += len(piece)
        if size > LARGEST_ANSWER_BYTES or time.monotonic() > deadline:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _text(content: bytes) -> str:
    return content[:LONGEST_DETAIL].decode(errors="replace")
