"""A real HTTP server on loopback that answers by script: replies, lost replies, proxies' errors, delays.

It stands for the network, not for the coordinator: what the coordinator decides is tested against the coordinator.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    at: float

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def key(self) -> str | None:
        return self.headers.get("Idempotency-Key")


@dataclass(frozen=True)
class Reply:
    """An answer; `delay_seconds` passes before it is sent."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0


class Lost:
    """The request arrives; its answer never does."""


def problem(status: int, outcome: str | None = None, **members: Any) -> Reply:
    headers = {"Content-Type": "application/problem+json"}
    after = members.pop("retry_after", None)
    if after is not None:
        headers["Retry-After"] = str(after)
    body = {"type": "about:blank", "title": "refused", "status": status, **members}
    if outcome is not None:
        body["outcome"] = outcome
    return Reply(status, body, headers)


Script = Callable[[Seen], Reply | Lost]


class ScriptedServer:
    """Answers each request by its script and remembers all of them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.seen: list[Seen] = []
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def requests(self, method: str, ending: str) -> list[Seen]:
        with self._lock:
            return [
                seen
                for seen in self.seen
                if seen.method == method and seen.path.split("?")[0].endswith(ending)
            ]

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args: object) -> None:
                """Nobody reads it."""

            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length", 0))
                seen = Seen(
                    self.command,
                    self.path,
                    dict(self.headers),
                    self.rfile.read(length),
                    time.monotonic(),
                )
                with outer._lock:
                    outer.seen.append(seen)
                reply = outer.script(seen)
                if isinstance(reply, Lost):
                    self.close_connection = True
                    return
                time.sleep(reply.delay_seconds)
                content = (
                    reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
                )
                self.send_response(reply.status)
                for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            do_GET = do_POST = do_PUT = _answer  # noqa: N815 - names that http.server looks for

        return Handler


def in_turn(*replies: Reply | Lost) -> Script:
    """One reply after the other; the last one again and again."""
    left = list(replies)
    lock = threading.Lock()

    def script(seen: Seen) -> Reply | Lost:
        with lock:
            return left.pop(0) if len(left) > 1 else left[0]

    return script


@contextmanager
def scripted(script: Script) -> Iterator[ScriptedServer]:
    server = ScriptedServer(script)
    try:
        yield server
    finally:
        server.close()
