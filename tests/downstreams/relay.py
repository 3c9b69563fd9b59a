"""An unkind network: a TCP relay that knows no protocol, only the bytes that begin a call.

Where those bytes come by it does once what it was told to: swallow the answer, swallow the call, hold the call back
until it is told to go on, or deliver it twice. Everything else passes. So the same faults meet SMTP, PostgreSQL, git,
S3, MCP and our own HTTP service.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Self

_CHUNK = 65_536
#: Not an answer: "go on and send the body" (RFC 9110, 15.2).
_CONTINUE = b"HTTP/1.1 100"


#: A host and a port, or the path of a Unix socket.
Target = tuple[str, int] | str


class Fault(Enum):
    NONE = "normal"
    DROP_REPLY = "performs, never answers"
    LOSE_REQUEST = "never performs, never answers"
    HOLD = "performs when it is let go, long after the caller has given up"
    DUPLICATE = "the same bytes arrive twice"


class Relay:
    """Listens on loopback; `fault` is what becomes of the next calls that begin with `trigger`."""

    def __init__(self, target: Target, *, trigger: bytes) -> None:
        self._target = target
        self._trigger = trigger
        self.fault = Fault.NONE
        self._released = threading.Event()
        self._late = 0
        self._changed = threading.Condition()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._released.set()
        # Closing alone does not wake a thread that waits in accept() or recv().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self._listener.close()
        for one in self._open:
            _shut(one)
        for thread in self._threads:
            thread.join()
        for one in self._open:
            one.close()

    def _start(self, what: Callable[[], None]) -> None:
        thread = threading.Thread(target=what, daemon=True)
        self._threads.append(thread)
        thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def release(self) -> None:
        """Let go what is held, and wait until the downstream has answered it."""
        self._released.set()
        with self._changed:
            assert self._changed.wait_for(lambda: self._late > 0, timeout=60), "nothing was held"

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(client)
            try:
                server = self.connect()
            except OSError:
                _shut(client)
                continue
            self._open.append(server)
            line = _Line(self, client, server)
            self._start(line.up)
            self._start(line.down)

    def arrived_late(self) -> None:
        with self._changed:
            self._late += 1
            self._changed.notify_all()

    def wait_for_release(self) -> None:
        self._released.wait()

    def begins_call(self, data: bytes) -> bool:
        return self._trigger in data

    def connect(self) -> socket.socket:
        if isinstance(self._target, str):
            line = socket.socket(socket.AF_UNIX)
            line.connect(self._target)
            return line
        return socket.create_connection(self._target)


class _Line:
    """One connection, both ways."""

    def __init__(self, relay: Relay, client: socket.socket, server: socket.socket) -> None:
        self._relay = relay
        self._client = client
        self._server = server
        self._fault = Fault.NONE  # what has come over the call that is under way
        self._call = b""  # what has gone up since the last answer

    def up(self) -> None:
        for data in _chunks(self._client):
            if self._fault is Fault.NONE and self._relay.begins_call(data):
                self._fault = self._relay.fault
            if self._fault is Fault.LOSE_REQUEST:
                break
            if self._fault is Fault.HOLD:
                self._relay.wait_for_release()
            self._call += data
            with contextlib.suppress(OSError):
                self._server.sendall(data)
        if self._fault is Fault.LOSE_REQUEST:
            _shut(self._client)
        if self._fault is not Fault.HOLD:
            _half_close(self._server)

    def down(self) -> None:
        for data in _chunks(self._server):
            if self._fault is Fault.LOSE_REQUEST:
                break  # what a server says to the beginning of a call that was lost is lost as well
            answers = not data.startswith(_CONTINUE)
            if self._fault is Fault.HOLD and answers:
                self._relay.arrived_late()
                break  # nobody is there to hear it
            if self._fault is Fault.DROP_REPLY and answers:
                break
            if self._fault is Fault.DUPLICATE and answers:
                self._again()
            if answers:
                self._call = b""
            with contextlib.suppress(OSError):
                self._client.sendall(data)
        _shut(self._client)
        _shut(self._server)

    def _again(self) -> None:
        """Deliver the call's bytes a second time and wait for what the downstream says to them."""
        call, self._fault = self._call, Fault.NONE
        with self._relay.connect() as again:
            again.settimeout(30)
            again.sendall(call)
            while again.recv(_CHUNK).startswith(_CONTINUE):
                pass


def _chunks(source: socket.socket) -> Iterator[bytes]:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK):
            yield data


def _half_close(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_WR)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
