"""The gate before a WSGI application."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from tenure.downstreams import headers as names
from tenure.gate.redeeming import Gate, Pass, Turned
from tenure.records import Json

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]

#: A call's payload is bound by the coordinator, which takes no larger ones.
LARGEST_BODY_BYTES = 1 << 20


class WsgiGate:
    """Lets a request through to `application` only once its dispatch is redeemed.

    `guarded` says which requests act (by default all but GET, HEAD and OPTIONS). The request's JSON body is the
    payload. With `reports` what the application answers is told to the coordinator, too: a lost answer is then known
    all the same.
    """

    def __init__(
        self,
        application: Application,
        gate: Gate,
        *,
        guarded: Callable[[Environ], bool] | None = None,
        reports: bool = True,
    ) -> None:
        self._application = application
        self._gate = gate
        self._guarded = guarded or _acts
        self._reports = reports

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if not self._guarded(environ):
            return self._application(environ, start_response)
        body = _read(environ)
        shown = self._shown(environ, body)
        turned = shown if isinstance(shown, Turned) else self._gate.redeem(shown)
        if turned is not None:
            return _refuse(turned, start_response)
        assert isinstance(shown, Pass), "whoever shows no pass is turned"
        environ["wsgi.input"] = io.BytesIO(body or b"")
        return self._act(environ, start_response, shown)

    def _shown(self, environ: Environ, body: bytes | None) -> Pass | Turned:
        if body is None:
            return Turned(
                outcome="MALFORMED",
                status=413,
                detail=f"a payload is at most {LARGEST_BODY_BYTES} bytes, with its length told",
            )
        try:
            payload = json.loads(body) if body else None
        except ValueError as error:
            return Turned(outcome="MALFORMED", status=400, detail=f"not JSON: {error}")
        return self._gate.shown(lambda name: environ.get(_key(name)), payload)

    def _act(self, environ: Environ, start_response: StartResponse, shown: Pass) -> Iterable[bytes]:
        told: dict[str, int] = {}

        def start(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            told["status"] = int(status.split(maxsplit=1)[0])
            kept = [pair for pair in headers if pair[0].lower() != names.GATE.lower()]
            return (
                start_response(status, kept, exc_info) if exc_info else start_response(status, kept)
            )

        try:
            answer = self._application(environ, start)
            try:
                pieces = list(answer)
            finally:
                close = getattr(answer, "close", None)
                if close is not None:
                    close()
        except Exception as error:
            self._tell(shown, 500, f"{type(error).__name__}: {error}".encode())
            raise
        self._tell(shown, told.get("status", 500), b"".join(pieces))
        return pieces

    def _tell(self, shown: Pass, status: int, body: bytes) -> None:
        if self._reports:
            tell(self._gate, shown, status, body)


def tell(gate: Gate, shown: Pass, status: int, body: bytes) -> None:
    """Report an application's answer: 2xx has happened, everything else is for somebody to find out."""
    if not 200 <= status < 300 or status == HTTPStatus.ACCEPTED:
        gate.report(shown, "UNKNOWN", detail=f"the tool answered HTTP {status}")
        return
    receipt: Json = {"status": status}
    try:
        content = json.loads(body) if body else None
        if isinstance(content, Mapping | list) and len(body) <= 16_384:
            receipt = {"status": status, "body": content}
    except ValueError:
        pass
    gate.report(shown, "COMMITTED", receipt=receipt)


def _acts(environ: Environ) -> bool:
    return environ.get("REQUEST_METHOD") not in {"GET", "HEAD", "OPTIONS"}


def _read(environ: Environ) -> bytes | None:
    """The whole body; None where it is too long or does not say how long it is."""
    length = environ.get("CONTENT_LENGTH") or "0"
    if environ.get("HTTP_TRANSFER_ENCODING") or not length.isdecimal():
        return None
    if int(length) > LARGEST_BODY_BYTES:
        return None
    body: bytes = environ["wsgi.input"].read(int(length))
    return body


def _key(name: str) -> str:
    return "HTTP_" + name.upper().replace("-", "_")


def _refuse(turned: Turned, start_response: StartResponse) -> Iterable[bytes]:
    content = json.dumps(turned.body).encode()
    start_response(
        f"{turned.status} {HTTPStatus(turned.status).phrase}",
        [
            ("Content-Type", "application/problem+json"),
            ("Content-Length", str(len(content))),
            ("Cache-Control", "no-store"),
            (names.GATE, turned.outcome),
        ],
    )
    return [content]
