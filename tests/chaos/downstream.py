"""One of four outside services as a process: `python -m tests.chaos.downstream KIND PORT LOG`.

What it performs it appends to its own log before it answers, and reads from there when it is started again.

    keyed        POST /calls acts once a key; GET /calls/{key}
    conditional  PUT /documents/{name} with If-None-Match; GET /documents/{name}
    gated        POST /calls, behind our gate; acts each time that the gate lets it; GET /calls/{key}
    late         POST /calls acts each time, but refuses what comes past its deadline; GET /calls/{key}
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from tenure.downstreams import headers as names
from tenure.gate import Gate
from tenure.gate.wsgi import WsgiGate

KINDS = ("keyed", "conditional", "gated", "late")
#: As registered: how long after its deadline a call can still arrive and be acted on.
SETTLE_SECONDS = 4

Environ = dict[str, Any]
Reply = tuple[str, Any, list[tuple[str, str]]]


class Book:
    """The service's own append-only log, and what follows from it."""

    def __init__(self, kind: str, log: Path) -> None:
        self.kind = kind
        self.lock = threading.Lock()
        self._file = log.open("ab", buffering=0)
        lines = log.read_bytes().split(b"\n")
        self.done: dict[str, dict[str, Any]] = {}
        for line in lines[:-1]:
            entry = json.loads(line)
            self.done.setdefault(entry["name"], entry)

    def perform(self, name: str, environ: Environ, body: Any) -> dict[str, Any]:
        entry = {
            "name": name,
            "key": environ.get("HTTP_IDEMPOTENCY_KEY", ""),
            "digest": environ.get("HTTP_TENURE_PAYLOAD_DIGEST", ""),
            "token": environ.get("HTTP_TENURE_FENCING_TOKEN", ""),
            "body": body,
            "at": time.monotonic(),
        }
        self._file.write(json.dumps(entry).encode() + b"\n")
        self.done.setdefault(name, entry)
        return entry


class Service:
    """The WSGI application of one kind."""

    def __init__(self, book: Book) -> None:
        self._book = book

    def __call__(self, environ: Environ, start: Any) -> Iterable[bytes]:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        raw = environ["wsgi.input"].read(length)
        name = environ["PATH_INFO"].rpartition("/")[2]
        with self._book.lock:
            if environ["REQUEST_METHOD"] == "GET":
                status, content, headers = self._read(name)
            else:
                status, content, headers = self._write(name, environ, json.loads(raw or b"null"))
        body = json.dumps(content).encode()
        told = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
        start(status, [*told, *headers])
        return [body]

    def _read(self, name: str) -> Reply:
        entry = self._book.done.get(name)
        if entry is None:
            return "404 Not Found", {"error": "not here"}, []
        content = entry["body"] if self._book.kind == "conditional" else {"performed": name}
        return "200 OK", content, [("ETag", f'"{entry["at"]}"')]

    def _write(self, name: str, environ: Environ, body: Any) -> Reply:
        kind = self._book.kind
        key = name if kind == "conditional" else environ.get("HTTP_IDEMPOTENCY_KEY", "")
        if key in self._book.done:
            if kind == "conditional":
                return "412 Precondition Failed", {"error": "it is there"}, []
            if kind == "keyed":
                return "200 OK", {"performed": key}, []
        if kind in ("gated", "late") and _is_late(environ, kind):
            return "410 Gone", {"error": "past its deadline"}, []
        self._book.perform(key, environ, body)
        return "201 Created", {"performed": key}, []


def _is_late(environ: Environ, kind: str) -> bool:
    """A gate has judged the deadline itself; what it let through is acted on within the time to settle, or never."""
    deadline = names.deadline_in({names.DEADLINE: environ.get("HTTP_TENURE_DEADLINE", "")})
    grace = timedelta(seconds=SETTLE_SECONDS / 2 if kind == "gated" else 0)
    return deadline is None or datetime.now(UTC) >= deadline + grace


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    request_queue_size = 64


class _Quiet(WSGIRequestHandler):
    def log_message(self, *_: object) -> None:
        """Quiet."""


def main(kind: str, port: str, log: str) -> None:
    application: Any = Service(Book(kind, Path(log)))
    if kind == "gated":
        gate = Gate(os.environ["TENURE_URL"], os.environ["TENURE_TOKEN"], downstream=kind)
        application = WsgiGate(application, gate)
    make_server("127.0.0.1", int(port), application, _Server, _Quiet).serve_forever(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
