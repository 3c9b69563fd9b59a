"""A small outside world over HTTP: payments with and without dedupe, reservations, documents with ETags, a chat.

It keeps a log of its own, of every call that reached it and of everything that it really did, so that a test can
compare the ledger with it. `python -m tests.downstreams.service PORT` runs it as a process of its own.

    POST /payments                    acts; with `dedupe` a second arrival of a key returns the first result
    GET  /payments/{key}              200 or 404, while `look_up` is on; else 503
    PUT  /reservations/{name}         reserves; the same again changes nothing
    POST /reservations/{name}/capture acts, once per name ever
    GET  /reservations/{name}         its state
    PUT  /documents/{path}            If-Match and If-None-Match
    GET  /documents/{path}            with its ETag
    POST /messages                    acts, every time
    GET  /messages?tag=…              the messages with this tag
    GET  /log, POST /settings         for tests in other processes
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

Reply = tuple[int, Any, dict[str, str]]


@dataclass
class Settings:
    dedupe: bool = True
    look_up: bool = True
    #: An HTTP status that every write is refused with, before it acts; 0 for none.
    reject: int = 0


@dataclass
class Performed:
    """One thing that really happened."""

    what: str
    key: str
    digest: str
    fencing_token: str


@dataclass
class World:
    """Everything that this outside knows, behind one lock."""

    settings: Settings = field(default_factory=Settings)
    arrived: list[str] = field(default_factory=list)
    performed: list[Performed] = field(default_factory=list)
    payments: dict[str, Any] = field(default_factory=dict)
    reservations: dict[str, str] = field(default_factory=dict)
    documents: dict[str, tuple[Any, str]] = field(default_factory=dict)
    messages: list[Any] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, key: str) -> int:
        """How often this key's effect was really performed."""
        with self.lock:
            return sum(1 for each in self.performed if each.key == key)

    def digests(self, key: str) -> set[str]:
        with self.lock:
            return {each.digest for each in self.performed if each.key == key}


class Service:
    """The world on a port of loopback, served by threads until it is closed."""

    def __init__(self, port: int = 0) -> None:
        self.world = World()
        world = self.world

        class Bound(_Handler):
            pass

        Bound.world = world
        self._server = ThreadingHTTPServer(("127.0.0.1", port), Bound)
        self.address: tuple[str, int] = ("127.0.0.1", self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self) -> None:
        self._server.serve_forever(poll_interval=0.05)


class _Handler(BaseHTTPRequestHandler):
    world: World
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer()

    do_POST = do_PUT = do_GET  # noqa: N815 - the library's names

    def log_message(self, *_: object) -> None:
        """Quiet."""

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.world.lock:
            status, content, headers = self._route(body)
        raw = b"" if content is None else json.dumps(content).encode()
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)
        except OSError:
            self.close_connection = True  # the caller has gone; what was done is done

    def _route(self, body: bytes) -> Reply:
        parts = urlsplit(self.path)
        segments = [part for part in parts.path.split("/") if part]
        if segments == ["log"]:
            return 200, self._log(), {}
        if segments == ["settings"]:
            self.world.settings = Settings(**json.loads(body))
            return 200, asdict(self.world.settings), {}
        self.world.arrived.append(f"{self.command} {parts.path}")
        if self.command == "GET":
            if not self.world.settings.look_up:
                return 503, {"error": "look-ups are down"}, {}
            return self._read(segments, parse_qs(parts.query))
        if self.world.settings.reject:
            return self.world.settings.reject, {"error": "rejected"}, {}
        return self._write(segments, body)

    def _read(self, segments: list[str], query: dict[str, list[str]]) -> Reply:
        match segments:
            case ["payments", key] if key in self.world.payments:
                return 200, self.world.payments[key], {}
            case ["reservations", name] if name in self.world.reservations:
                return 200, {"name": name, "state": self.world.reservations[name]}, {}
            case ["documents", *path] if "/".join(path) in self.world.documents:
                content, etag = self.world.documents["/".join(path)]
                return 200, content, {"ETag": etag}
            case ["messages"]:
                tag = query.get("tag", [""])[0]
                found = [one for one in self.world.messages if one.get("client_tag") == tag]
                return 200, {"messages": found}, {}
        return 404, {"error": "not here"}, {}

    def _write(self, segments: list[str], body: bytes) -> Reply:
        match self.command, segments:
            case "POST", ["payments"]:
                return self._pay(body)
            case "PUT", ["reservations", name]:
                self.world.reservations.setdefault(name, "authorised")
                return 200, {"name": name, "state": self.world.reservations[name]}, {}
            case "POST", ["reservations", name, "capture"]:
                return self._capture(name)
            case "PUT", ["documents", *path]:
                return self._store("/".join(path), body)
            case "POST", ["messages"]:
                message = json.loads(body)
                message["id"] = f"m{len(self.world.messages) + 1}"
                self.world.messages.append(message)
                self._perform("message", message.get("client_tag", ""), body)
                return 201, message, {}
        return 404, {"error": "not here"}, {}

    def _pay(self, body: bytes) -> Reply:
        key = self.headers.get("Idempotency-Key", "")
        if self.world.settings.dedupe and key in self.world.payments:
            return 200, self.world.payments[key], {}
        payment = {"payment": f"p{len(self.world.performed) + 1}", "key": key}
        self.world.payments[key] = payment
        self._perform("payment", key, body)
        return 201, payment, {}

    def _capture(self, name: str) -> Reply:
        state = self.world.reservations.get(name)
        if state != "authorised":
            return 409, {"error": f"the reservation is {state}"}, {}
        self.world.reservations[name] = "captured"
        self._perform("capture", name, b"")
        return 200, {"name": name, "state": "captured"}, {}

    def _store(self, path: str, body: bytes) -> Reply:
        present = self.world.documents.get(path)
        wanted = self.headers.get("If-Match")
        if (wanted is not None and (present is None or present[1] != wanted)) or (
            self.headers.get("If-None-Match") == "*" and present is not None
        ):
            return 412, {"error": "the condition is false"}, {}
        number = len(self.world.performed) + 1
        etag = f'"v{number}-{hashlib.sha256(body).hexdigest()[:8]}"'
        content = json.loads(body)
        self.world.documents[path] = (content, etag)
        self._perform("document", content.get("tenure_effect", ""), body)
        return (200 if present else 201), {"stored": path}, {"ETag": etag}

    def _perform(self, what: str, key: str, body: bytes) -> None:
        digest = self.headers.get("Tenure-Payload-Digest", "")
        token = self.headers.get("Tenure-Fencing-Token", "")
        self.world.performed.append(
            Performed(
                what,
                key,
                digest or "sha256:" + hashlib.sha256(body).hexdigest(),
                token,
            )
        )

    def _log(self) -> dict[str, Any]:
        return {
            "arrived": list(self.world.arrived),
            "performed": [asdict(each) for each in self.world.performed],
        }


def main() -> None:
    service = Service(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    print(service.url, HTTPStatus.OK.phrase, flush=True)
    service.serve()


if __name__ == "__main__":
    main()
