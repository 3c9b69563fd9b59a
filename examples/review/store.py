"""A small object store over HTTP that writes each object once and keeps it in a folder.

    PUT /name   with `If-None-Match: *`: 201 with an ETag, or 412 where the object is there already
    GET /name   200 with its ETag, or 404

On loopback, without accounts. `lose_first` has it store the first object that arrives and hang up without an answer:
what a cut line, a proxy's timeout or a crash at the wrong moment looks like from outside.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import tempfile
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self

LARGEST_BYTES = 1 << 20
_NAME = re.compile(r"^(/[A-Za-z0-9_][A-Za-z0-9._-]{0,99}){1,8}$")


class ObjectStore:
    """The store on a free port, served by threads of this process until it is closed."""

    def __init__(self, folder: Path, *, lose_first: bool, say: Callable[[str], None]) -> None:
        self.folder = folder
        self._loses = lose_first
        self._say = say
        self._lock = threading.Lock()
        store = self

        class Handler(_Handler):
            pass

        Handler.store = store
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address: tuple[str, int] = ("127.0.0.1", self._server.server_address[1])
        self.url = f"http://127.0.0.1:{self.address[1]}"

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def path(self, name: str) -> Path | None:
        """Where an object lies; None for a name that no object can have."""
        return self.folder / name[1:] if _NAME.match(name) else None

    def create(self, path: Path, content: bytes) -> bool:
        """Whether it was written now: all of it or nothing, and never over another one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=self.folder, prefix=".new-") as whole:
            whole.write(content)
            whole.flush()
            os.fsync(whole.fileno())
            try:
                os.link(whole.name, path)
            except FileExistsError:
                return False
        return True

    def loses(self, name: str) -> bool:
        """Whether the answer about this object is the one to be lost."""
        with self._lock:
            lost, self._loses = self._loses, False
        if lost:
            self._say(f"the store keeps {name} and, on purpose, hangs up without an answer")
        return lost


def etag_of(content: bytes) -> str:
    """A strong ETag. It never returns with other content, since objects are written once."""
    return f'"{hashlib.sha256(content).hexdigest()}"'


class _Handler(BaseHTTPRequestHandler):
    store: ObjectStore
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Quiet: the fleet says what there is to say."""

    def do_GET(self) -> None:
        path = self.store.path(self.path)
        try:
            content = path.read_bytes() if path is not None else None
        except OSError:
            content = None
        if content is None:
            self._answer(404)
        else:
            self._answer(200, content, etag=etag_of(content))

    def do_PUT(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        path = self.store.path(self.path)
        if path is None or size > LARGEST_BYTES:
            self.close_connection = True  # the body stays unread
            self._answer(404 if path is None else 413)
            return
        content = self.rfile.read(size)
        if self.headers.get("If-None-Match") != "*":
            self._answer(428)  # nothing is ever overwritten here
        elif not self.store.create(path, content):
            self._answer(412)
        elif self.store.loses(self.path):
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._answer(201, etag=etag_of(content))

    def _answer(self, status: int, content: bytes = b"", *, etag: str | None = None) -> None:
        self.send_response(status)
        if etag is not None:
            self.send_header("ETag", etag)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
