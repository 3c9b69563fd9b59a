"""Clients of the API, each a process of its own: they claim, commit, and count.

They share the cores with the server, and what is measured is the server: HTTP is written and read here as plainly as
it goes. The standard library's client takes 0.2 ms a call, most of it for headers that nobody here looks at.
"""

import multiprocessing
import re
import socket
import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from bench.place import QUEUE, Target

_LENGTH: Final = re.compile(rb"(?i)\r\ncontent-length: (\d+)\r\n")


class Api:
    """One kept connection."""

    def __init__(self, target: Target) -> None:
        self._socket = socket.create_connection(("127.0.0.1", target.port), timeout=60)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._head = (
            f"Host: 127.0.0.1:{target.port}\r\nAuthorization: Bearer {target.token}\r\n"
            "Content-Type: application/json\r\nX-Claim-Contract: claim.v1\r\n"
        )

    def post(self, path: str, body: Any, *, keyed: bool = False) -> Any:
        """The answer; a refusal is a fault of the measurement."""
        answer = self.ask(path, body, keyed=keyed)
        if isinstance(answer.get("status"), int) and answer["status"] >= 400:
            raise RuntimeError(f"{path}: {answer}")
        return answer

    def ask(self, path: str, body: Any, *, keyed: bool = False) -> Any:
        """The answer, whatever it says."""
        content = orjson.dumps(body)
        key = f"Idempotency-Key: {uuid.uuid4().hex}\r\n" if keyed else ""
        head = f"POST /api/v1{path} HTTP/1.1\r\n{self._head}{key}Content-Length: {len(content)}\r\n\r\n"
        self._socket.sendall(head.encode() + content)
        return orjson.loads(self._read())

    def _read(self) -> bytes:
        """The body of one answer, whose length stands in its head."""
        told = bytearray()
        while (end := told.find(b"\r\n\r\n")) < 0:
            told += self._receive()
        length = _LENGTH.search(told, 0, end + 2)
        if length is None:
            raise RuntimeError(f"an answer without a length: {bytes(told[:end])!r}")
        size = end + 4 + int(length[1])
        while len(told) < size:
            told += self._receive()
        return bytes(told[end + 4 : size])

    def _receive(self) -> bytes:
        part = self._socket.recv(262_144)
        if not part:
            raise ConnectionError("the server has closed the connection")
        return part

    def claim(self, owner: str, limit: int, **more: Any) -> list[dict[str, Any]]:
        body = {"scheduler_epoch": 1, "owner": owner, "limit": limit, **more}
        claims: list[dict[str, Any]] = self.post(f"/queues/{QUEUE}/claims", body, keyed=True)[
            "claims"
        ]
        return claims

    def commit(self, claims: list[dict[str, Any]], *, single: bool) -> int:
        items = [
            {"fence": claim["fence"], "input_digest": claim["input_digest"], "result": {"ok": True}}
            for claim in claims
        ]
        if single:
            answers = [
                self.post(f"/attempts/{item['fence']['attempt_id']}/commit", item) for item in items
            ]
        else:
            answers = self.post(f"/queues/{QUEUE}/commits", {"commits": items})["results"]
        return sum(answer["outcome"] == "COMMITTED" for answer in answers)


def submit(target: Target, *, nodes: int, kind: str = "noop", per_run: int = 1_000) -> float:
    """Submit so many nodes; nodes per second."""
    api = Api(target)
    begin = time.perf_counter()
    for first in range(0, nodes, per_run):
        size = min(per_run, nodes - first)
        run = [{"node_id": f"n{i}", "kind": kind, "input": {"n": i}} for i in range(size)]
        api.post("/runs", {"queue": QUEUE, "name": "bench", "nodes": run}, keyed=True)
    return nodes / (time.perf_counter() - begin)


@dataclass
class Count:
    committed: int = 0
    seconds: float = 0.0
    claim_ms: list[float] = field(default_factory=list)
    commit_ms: list[float] = field(default_factory=list)


def _lane(target: Target, batch: int, seconds: float) -> Count:
    api, count, owner = Api(target), Count(), f"bench-{uuid.uuid4().hex[:8]}"
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        at = time.perf_counter()
        claims = api.claim(owner, batch)
        count.claim_ms.append((time.perf_counter() - at) * 1000)
        if not claims:
            break
        at = time.perf_counter()
        count.committed += api.commit(claims, single=batch == 1)
        count.commit_ms.append((time.perf_counter() - at) * 1000)
    count.seconds = time.perf_counter() - begin
    return count


def _process(
    target: Target, batch: int, lanes: int, seconds: float, results: "multiprocessing.Queue[Count]"
) -> None:
    """A worker process with so many lanes, each with a connection of its own."""
    threads = [
        threading.Thread(target=lambda: results.put(_lane(target, batch, seconds)))
        for _ in range(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def cycles(target: Target, *, batch: int, processes: int, lanes: int, seconds: float) -> Count:
    """Claim and commit for so long, in so many processes with so many lanes each; what all did together."""
    results: multiprocessing.Queue[Count] = multiprocessing.Queue()
    workers = [
        multiprocessing.Process(target=_process, args=(target, batch, lanes, seconds, results))
        for _ in range(processes)
    ]
    for worker in workers:
        worker.start()
    counts = [results.get(timeout=seconds + 60) for _ in range(processes * lanes)]
    for worker in workers:
        worker.join()
    return Count(
        committed=sum(count.committed for count in counts),
        seconds=max(count.seconds for count in counts),
        claim_ms=sorted(each for count in counts for each in count.claim_ms),
        commit_ms=sorted(each for count in counts for each in count.commit_ms),
    )


def percentile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
