"""The gate before an ASGI application."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tenure.downstreams import headers as names
from tenure.gate.redeeming import Gate, Pass, Turned
from tenure.gate.wsgi import LARGEST_BODY_BYTES, tell

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: Of an answer's body, what a report may need.
_KEPT_BYTES = 16_384


class AsgiGate:
    """Lets an HTTP request through to `application` only once its dispatch is redeemed; see `WsgiGate`.

    Websockets and lifespan pass: a gate guards single calls.
    """

    def __init__(
        self,
        application: Application,
        gate: Gate,
        *,
        guarded: Callable[[Scope], bool] | None = None,
        reports: bool = True,
    ) -> None:
        self._application = application
        self._gate = gate
        self._guarded = guarded or _acts
        self._reports = reports

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or not self._guarded(scope):
            await self._application(scope, receive, send)
            return
        body = await _read(receive)
        shown = self._shown(scope, body)
        # The coordinator is asked in a thread: this loop serves other calls meanwhile.
        turned = (
            shown
            if isinstance(shown, Turned)
            else await asyncio.to_thread(self._gate.redeem, shown)
        )
        if turned is not None:
            await _refuse(turned, send)
            return
        assert isinstance(shown, Pass), "whoever shows no pass is turned"
        await self._act(scope, body or b"", receive, send, shown)

    def _shown(self, scope: Scope, body: bytes | None) -> Pass | Turned:
        if body is None:
            return Turned(
                outcome="MALFORMED",
                status=413,
                detail=f"a payload is at most {LARGEST_BODY_BYTES} bytes",
            )
        try:
            payload = json.loads(body) if body else None
        except ValueError as error:
            return Turned(outcome="MALFORMED", status=400, detail=f"not JSON: {error}")
        given = {name.decode("latin-1").lower(): value for name, value in scope["headers"]}

        def header(name: str) -> str | None:
            value = given.get(name.lower())
            return None if value is None else value.decode("latin-1")

        return self._gate.shown(header, payload)

    async def _act(
        self, scope: Scope, body: bytes, receive: Receive, send: Send, shown: Pass
    ) -> None:
        status, kept = 500, bytearray()
        given = False

        async def replay() -> Message:
            nonlocal given
            if given:
                return await receive()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def listen(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                own = names.GATE.lower().encode()
                message["headers"] = [
                    pair for pair in message.get("headers", ()) if pair[0].lower() != own
                ]
            elif message["type"] == "http.response.body" and len(kept) <= _KEPT_BYTES:
                kept.extend(message.get("body", b""))
            await send(message)

        try:
            await self._application(scope, replay, listen)
        except Exception as error:
            status = 500
            kept[:] = f"{type(error).__name__}: {error}".encode()
            raise
        finally:
            if self._reports:
                await asyncio.to_thread(tell, self._gate, shown, status, bytes(kept))


def _acts(scope: Scope) -> bool:
    return scope["method"] not in {"GET", "HEAD", "OPTIONS"}


async def _read(receive: Receive) -> bytes | None:
    """The whole body; None where it is too long, or its sender has gone."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return None
        body.extend(message.get("body", b""))
        if len(body) > LARGEST_BODY_BYTES:
            return None
        if not message.get("more_body"):
            return bytes(body)


async def _refuse(turned: Turned, send: Send) -> None:
    content = json.dumps(turned.body).encode()
    headers = [
        (b"content-type", b"application/problem+json"),
        (b"content-length", str(len(content)).encode()),
        (b"cache-control", b"no-store"),
        (names.GATE.lower().encode(), turned.outcome.encode()),
    ]
    await send({"type": "http.response.start", "status": turned.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
