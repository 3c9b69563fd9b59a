"""Three services of a small office, on loopback: text messages, orders, and what all customers are told.

    POST /texts, /orders, /announcements    201 with {"number": …}: its line in the log says what was done

Each log is a file that a person can read; no service can be asked. The text messages stand behind a gate, which lets
each permission through once. Two of them get no answer, on purpose: one was sent, one was not.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

from tenure.downstreams import headers as names
from tenure.gate import Gate, Turned

TEXTS, ORDERS, ANNOUNCEMENTS = "texts", "orders", "announcements"
SERVICES = (TEXTS, ORDERS, ANNOUNCEMENTS)
#: Whose message is sent without an answer, and whose is lost with it; each once. (Numbers that nobody has.)
ANSWER_IS_LOST = "+44 20 7946 0101"
MESSAGE_IS_LOST = "+44 20 7946 0102"
LARGEST_BYTES = 1 << 16


class Office:
    """The services on a free port, served by threads of this process until it is closed. `gate`: of the texts."""

    def __init__(self, folder: Path, *, gate: Gate | None = None) -> None:
        self.folder = folder.resolve()
        self.url = ""
        self._gate = gate
        self._lock = threading.Lock()
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        for service in SERVICES:
            self.log(service).touch()
        office = self

        class Handler(_Handler):
            pass

        Handler.office = office
        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        self.url = f"http://127.0.0.1:{server.server_address[1]}"
        threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def log(self, service: str) -> Path:
        """What a service did, one JSON object a line."""
        return self.folder / f"{service}.jsonl"

    def turned(
        self, service: str, header: Callable[[str], str | None], asked: Any
    ) -> Turned | None:
        """Why this call is not let through to its service; None where it is."""
        if service != TEXTS or self._gate is None:
            return None
        shown = self._gate.shown(header, asked)
        return shown if isinstance(shown, Turned) else self._gate.redeem(shown)

    def do(self, service: str, key: str, asked: Mapping[str, Any]) -> int:
        """Do it: a line in the log, and its number."""
        with self._lock:
            log = self.log(service)
            number = log.read_text().count("\n") + 1
            now = datetime.now(UTC).isoformat(timespec="seconds")
            with log.open("a") as file:
                file.write(json.dumps({"number": number, "at": now, **asked, "key": key}) + "\n")
            return number

    def hangs_up_on(self, service: str, key: str, to: object) -> bool:
        """Whether this call is one of the two that get no answer: the first for its key, also after a restart."""
        if service != TEXTS or to not in (ANSWER_IS_LOST, MESSAGE_IS_LOST):
            return False
        with self._lock:
            past = self.folder / ".hung_up"
            keys = past.read_text().split() if past.exists() else []
            if key in keys:
                return False
            past.write_text("\n".join([*keys, key]))
            return True


class _Handler(BaseHTTPRequestHandler):
    office: Office
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Quiet: the example says what there is to say."""

    def do_POST(self) -> None:
        service, key = self.path[1:], self.headers.get("Idempotency-Key", "")
        size = int(self.headers.get("Content-Length") or 0)
        if service not in SERVICES or size > LARGEST_BYTES:
            self.close_connection = True  # the body stays unread
            self._answer(404 if service not in SERVICES else 413)
            return
        try:
            asked = json.loads(self.rfile.read(size))
        except ValueError:
            asked = None
        if not isinstance(asked, dict):
            self._answer(400)
            return
        turned = self.office.turned(service, self.headers.get, asked)
        if turned is not None:
            self._answer(turned.status, turned.body, gate=turned.outcome)
        elif self.office.hangs_up_on(service, key, asked.get("to")):
            if asked["to"] == ANSWER_IS_LOST:
                self.office.do(service, key, asked)
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._answer(201, {"number": self.office.do(service, key, asked)})

    def _answer(
        self, status: int, told: Mapping[str, Any] | None = None, *, gate: str | None = None
    ) -> None:
        content = b"" if told is None else json.dumps(told).encode()
        self.send_response(status)
        if gate is not None:
            self.send_header(names.GATE, gate)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
