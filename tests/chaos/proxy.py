"""A proxy of bytes that is as unkind as a network can be, and worse: it keeps old requests and delivers them again.

It knows of HTTP only where a request and an answer end. Weather is drawn for each request from the proxy's own seed.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import random
import socket
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tests.chaos.observations import Recorder

_LARGEST = 1 << 21
_PATIENCE_SECONDS = 45.0
#: So many old requests are kept for another arrival.
KEPT = 200


@dataclass(frozen=True, slots=True)
class Weather:
    """How often what befalls a request: shares of one. The rest passes."""

    lose_request: float = 0.0
    lose_answer: float = 0.0
    delay: float = 0.0
    reset: float = 0.0
    #: It arrives twice at once.
    double: float = 0.0
    #: The caller hears nothing; the request arrives seconds later all the same.
    late: float = 0.0
    late_seconds: tuple[float, float] = (1.0, 8.0)
    #: Arrivals a second of requests that arrived before.
    replays_a_second: float = 0.0


CALM = Weather()


@dataclass(frozen=True, slots=True)
class Request:
    path: str
    method: str
    raw: bytes

    @property
    def is_watched(self) -> bool:
        return self.method in ("POST", "PUT")


class Proxy:
    """Listens on loopback; each request goes to one of the targets. With a recorder, its own deliveries are seen."""

    def __init__(
        self,
        targets: Sequence[int],
        *,
        weather: Weather,
        seed: int,
        recorder: Recorder | None = None,
    ) -> None:
        self.weather = weather
        self.befell: Counter[str] = Counter()
        self._targets = list(targets)
        self._random = random.Random(seed)
        self._recorder = recorder
        self._old: deque[Request] = deque(maxlen=KEPT)
        self._over = threading.Event()
        self._under_way = 0
        self._counting = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._listener.getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        for what in (self._accept, self._replay):
            threading.Thread(target=what, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    @property
    def is_still(self) -> bool:
        """Nothing that was held back is on its way any more."""
        with self._counting:
            return self._under_way == 0

    # -- arrivals ---------------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            client.settimeout(_PATIENCE_SECONDS)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while (request := _read_request(client)) is not None:
                if not self._pass_on(client, request):
                    return

    def _pass_on(self, client: socket.socket, request: Request) -> bool:
        """Whether the connection goes on."""
        fate = self._fate() if request.is_watched else "pass"
        self.befell[fate] += 1
        if fate == "lose_request":
            return False
        if fate == "late":
            self._start(self._deliver_late, request)
            return False
        if fate == "delay":
            time.sleep(self._random.uniform(0.05, 0.8))
        if fate == "double":
            self._start(self._deliver, request)
        answer = self._forward(request)
        if request.is_watched:
            self._old.append(request)
        if answer is None or fate == "lose_answer":
            return False
        if fate == "reset":
            client.sendall(answer[:20])
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return False
        client.sendall(answer)
        return True

    def _fate(self) -> str:
        weather, drawn = self.weather, self._random.random()
        for name in ("lose_request", "lose_answer", "delay", "reset", "late", "double"):
            drawn -= getattr(weather, name)
            if drawn < 0:
                return name
        return "pass"

    # -- deliveries of the proxy's own ------------------------------------------------------------------------------

    def _start(self, what: Callable[[Request], None], request: Request) -> None:
        with self._counting:
            self._under_way += 1

        def run() -> None:
            try:
                what(request)
            finally:
                with self._counting:
                    self._under_way -= 1

        threading.Thread(target=run, daemon=True).start()

    def _deliver_late(self, request: Request) -> None:
        time.sleep(self._random.uniform(*self.weather.late_seconds))
        self._deliver(request)

    def _replay(self) -> None:
        while not self._over.wait(0.1):
            rate = self.weather.replays_a_second
            if rate and self._old and self._random.random() < rate / 10:
                self.befell["replay"] += 1
                self._start(self._deliver, self._random.choice(list(self._old)))

    def _deliver(self, request: Request) -> None:
        number = None
        if self._recorder is not None:
            head, _, body = request.raw.partition(b"\r\n\r\n")
            number = self._recorder.asked(request.path, json.loads(body or b"null"), _key(head))
        with contextlib.suppress(OSError, http.client.HTTPException):
            answer = self._forward(request)
            if answer is not None and number is not None and self._recorder is not None:
                head, _, body = answer.partition(b"\r\n\r\n")
                status = int(head.split(maxsplit=2)[1])
                if status not in (429, 502, 503, 504):
                    self._recorder.heard(number, status, json.loads(body))

    def _forward(self, request: Request) -> bytes | None:
        """The whole answer; None where there was none."""
        target = self._random.choice(self._targets)
        try:
            with socket.create_connection(("127.0.0.1", target), timeout=_PATIENCE_SECONDS) as line:
                line.sendall(request.raw)
                response = http.client.HTTPResponse(line, method=request.method)
                response.begin()
                body = response.read()
        except (OSError, http.client.HTTPException):
            return None
        kept = [
            f"{name}: {value}\r\n"
            for name, value in response.getheaders()
            if name.lower() not in ("transfer-encoding", "content-length", "connection")
        ]
        head = f"HTTP/1.1 {response.status} {response.reason}\r\n{''.join(kept)}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def _read_request(client: socket.socket) -> Request | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = client.recv(65_536)
        if not more or len(data) > _LARGEST:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    length = int(_header(head, "content-length") or 0)
    while len(body) < length:
        more = client.recv(65_536)
        if not more:
            return None
        body += more
    method, path, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
    return Request(path, method, head + b"\r\n\r\n" + body)


def _key(head: bytes) -> str | None:
    return _header(head, "idempotency-key")


def _header(head: bytes, name: str) -> str | None:
    for line in head.decode("latin-1").split("\r\n")[1:]:
        said, _, value = line.partition(":")
        if said.strip().lower() == name:
            return value.strip()
    return None
