"""A proxy of ours before somebody else's service: it refuses calls that come after their deadline.

What a service without dedupe lacks is an end to the time in which a call can still arrive. Where every call has to
pass here, none arrives later than its deadline and the longest time that this proxy lets one call take: register that
as the downstream's `settle_seconds`, and `refuses_late`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, unquote

from tenure.downstreams import headers as names
from tenure.downstreams.exchange import Answered, exchange, new_client
from tenure.gate.wsgi import LARGEST_BODY_BYTES

log = logging.getLogger("tenure.gate")

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
#: Headers of one hop, never passed on (RFC 9110, 7.6.1), and those that are made anew.
_OF_ONE_HOP = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding",
        "upgrade", "host", "content-length", "content-encoding", "date", "server",
    }
)  # fmt: skip


class EgressProxy:
    """A WSGI application. `target` is the service's base address; `call_seconds` the longest that one call may take.

    Reads (GET and HEAD) pass without a deadline: they act on nothing. Its host's clock is to be kept by NTP; what it
    may be wrong by belongs into `settle_seconds`, too.
    """

    def __init__(self, target: str, *, call_seconds: float = 10.0) -> None:
        self._target = target.rstrip("/")
        self._call_seconds = call_seconds
        self._client = new_client()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        headers = _headers(environ)
        until = time.monotonic() + self._call_seconds
        fault = _malformed(environ)
        if fault is not None:
            return _refuse(start_response, fault, status=400, outcome="MALFORMED")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            refusal = _late(headers)
            if refusal is not None:
                log.warning("turned away: %s", refusal)
                return _refuse(start_response, refusal)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > LARGEST_BODY_BYTES:
            return _refuse(start_response, f"a body is at most {LARGEST_BODY_BYTES} bytes")
        answer = exchange(
            self._client,
            environ["REQUEST_METHOD"],
            self._url(environ),
            deadline=until,
            headers=headers,
            content=environ["wsgi.input"].read(length) if length else None,
        )
        if not isinstance(answer, Answered):
            return _say(start_response, 502, [], answer.detail.encode())
        kept = [
            (name, value)
            for name, value in answer.headers.multi_items()
            if name.lower() not in _OF_ONE_HOP
        ]
        return _say(start_response, answer.status, kept, answer.content)

    def _url(self, environ: Environ) -> str:
        query = environ.get("QUERY_STRING")
        path = quote(environ.get("PATH_INFO", "").encode("latin-1"), safe="/%:@!$&'()*+,;=~-._")
        return self._target + path + (f"?{query}" if query else "")


def _malformed(environ: Environ) -> str | None:
    """Why a request is none that may go to the target; None where it is.

    The path is written behind the target's address: one that begins with anything but a slash would
    name another host (`@elsewhere/`), and dots would lead out of the target's own folder.
    """
    path = environ.get("PATH_INFO", "")
    if path and not path.startswith("/"):
        return "a path begins with a slash; this proxy knows one target and no other"
    # What was escaped twice is plain to the service.
    if {".", ".."} & set(unquote(path).replace("\\", "/").split("/")):
        return "a path has no dot segments"
    length = environ.get("CONTENT_LENGTH") or "0"
    if environ.get("HTTP_TRANSFER_ENCODING") or not (length.isascii() and length.isdecimal()):
        return "a body says how long it is"
    return None


def _late(headers: dict[str, str]) -> str | None:
    """Why a call may not pass; None where it may."""
    given = {name.lower(): value for name, value in headers.items()}
    deadline = names.deadline_in({names.DEADLINE: given.get(names.DEADLINE.lower(), "")})
    if deadline is None:
        return f"a call needs {names.DEADLINE}, an instant with its offset"
    if datetime.now(UTC) >= deadline:
        return f"the call's deadline was {deadline.isoformat()}"
    return None


def _headers(environ: Environ) -> dict[str, str]:
    headers = {
        name[5:].replace("_", "-").title(): value
        for name, value in environ.items()
        if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["Content-Type"] = environ["CONTENT_TYPE"]
    return {name: value for name, value in headers.items() if name.lower() not in _OF_ONE_HOP}


def _refuse(
    start_response: StartResponse, detail: str, *, status: int = 409, outcome: str = "LATE"
) -> Iterable[bytes]:
    body = json.dumps({"title": "The proxy did not pass this call on", "detail": detail}).encode()
    headers = [("Content-Type", "application/problem+json"), (names.GATE, outcome)]
    return _say(start_response, status, headers, body)


def _say(
    start_response: StartResponse, status: int, headers: list[tuple[str, str]], body: bytes
) -> Iterable[bytes]:
    phrase = HTTPStatus(status).phrase if status in HTTPStatus._value2member_map_ else "Status"
    start_response(f"{status} {phrase}", [*headers, ("Content-Length", str(len(body)))])
    return [body]
