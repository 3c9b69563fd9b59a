"""Load of many kinds through the API: submits, claims, renewals, commits, effects, failures, leases that lapse.

Open-loop where a pace is given: each turn has its time, whatever the server does, and `late` tells how far behind its
times the load has fallen. Without one every lane goes as fast as it can, which measures the maximum.
"""

import multiprocessing
import signal
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from bench.clients import Api
from bench.place import QUEUE, Place, Target

T = TypeVar("T")

PROCESSES, LANES = 2, 8
#: Nodes of a submitted run; a lane submits one whenever it has begun as many, so that the queue keeps its depth.
RUN: Final = 100
#: Of a hundred nodes so many are of a kind; the others are committed as soon as they are claimed.
SHARES: Final = {"effect": 2, "flaky": 5, "long": 10, "lost": 1}
TTL_SECONDS: Final = 10
DOWNSTREAM: Final = "bench"
#: Before those that stood there already.
PRIORITY: Final = 1
IDLE_SECONDS: Final = 0.05

_MAKE_DOWNSTREAM: Final = f"""
from coordinator.actors import system
from coordinator.services.downstreams import register_downstream
register_downstream(name="{DOWNSTREAM}", kind="http", guarantee="IDEMPOTENT_KEY", key_valid_seconds=3600,
                    actor=system("bench"))
"""


@dataclass(slots=True)
class Window:
    """What happened since the last one: milliseconds by verb, outcomes, and the largest lag in seconds."""

    waits: dict[str, list[float]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)
    late: float = 0.0

    def add(self, other: "Window") -> None:
        for verb, waits in other.waits.items():
            self.waits.setdefault(verb, []).extend(waits)
        self.outcomes += other.outcomes
        self.late = max(self.late, other.late)


@dataclass(frozen=True, slots=True)
class Pace:
    """Claims a second of all lanes together, second attempts included; None: as many as it takes."""

    batch: int
    claims_per_second: float | None = None

    @property
    def seconds(self) -> float:
        """Between two turns of one lane."""
        rate = self.claims_per_second
        return PROCESSES * LANES * self.batch / rate if rate else 0.0


class Load:
    """Processes that load the API until they are stopped. `take` answers with what happened since the last time."""

    def __init__(self, target: Target, pace: Pace) -> None:
        self._told: Queue[Window] = multiprocessing.Queue()
        self._over = multiprocessing.Event()
        self._workers = [
            multiprocessing.Process(
                target=_process, args=(target, pace, place, self._over, self._told), daemon=True
            )
            for place in range(PROCESSES)
        ]
        self._total, self._lock = Window(), threading.Lock()
        self._collector = threading.Thread(target=self._collect, daemon=True)

    def __enter__(self) -> Self:
        for worker in self._workers:
            worker.start()
        self._collector.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def ended(self) -> bool:
        """Whether a process has ended by itself, which is a fault."""
        return any(not worker.is_alive() for worker in self._workers)

    def take(self) -> Window:
        with self._lock:
            taken, self._total = self._total, Window()
        return taken

    def _collect(self) -> None:
        """All the time: a pipe holds some seconds of what is told, and who can't tell on holds it back."""
        while True:
            window = self._told.get()
            with self._lock:
                self._total.add(window)

    def stop(self) -> Window:
        """What was under way is finished first; a process ends only when its last window is taken."""
        self._over.set()
        until = time.monotonic() + 90
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))
        time.sleep(0.2)
        for worker in self._workers:
            worker.kill()
            worker.join()
        return self.take()


def prepare(place: Place) -> None:
    """The downstream of its effects, and work to begin with."""
    place.manage("shell", "--no-imports", "-c", _MAKE_DOWNSTREAM)
    api = Api(place.target)
    for _ in range(PROCESSES * LANES):
        submit(api)


def submit(api: Api) -> Any:
    return api.post("/runs", {"queue": QUEUE, "name": "soak", "nodes": _nodes()}, keyed=True)


def _nodes() -> list[dict[str, Any]]:
    kinds = [kind for kind, count in SHARES.items() for _ in range(count)]
    kinds += ["noop"] * (RUN - len(kinds))
    return [
        {"node_id": f"n{place}", "kind": kind, "input": {"n": place}, "priority": PRIORITY}
        | ({"slots": {"out": DOWNSTREAM}} if kind == "effect" else {})
        for place, kind in enumerate(kinds)
    ]


def _process(target: Target, pace: Pace, place: int, over: Event, told: "Queue[Window]") -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started us stops us, in order
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    lanes = [_Lane(target, pace, place * LANES + number, over) for number in range(LANES)]
    for lane in lanes:
        lane.start()
    while any(lane.is_alive() for lane in lanes):
        over.wait(0.5)
        for lane in lanes:
            told.put(lane.take())
        if over.is_set():
            for lane in lanes:
                lane.join()
    for lane in lanes:
        told.put(lane.take())


class _Lane(threading.Thread):
    """One connection's turns: claim, do what the tasks' kinds say, commit, and submit what was used up."""

    def __init__(self, target: Target, pace: Pace, number: int, over: Event) -> None:
        super().__init__(daemon=True)
        self.api, self.pace, self.number, self.over = Api(target), pace, number, over
        self.owner = f"soak-{uuid.uuid4().hex[:8]}"
        self.used = 0
        self._window, self._lock = Window(), threading.Lock()

    def take(self) -> Window:
        with self._lock:
            taken, self._window = self._window, Window()
        return taken

    def run(self) -> None:
        begin = time.monotonic() + self.pace.seconds * self.number / (PROCESSES * LANES)
        turns = 0
        while not self.over.is_set():
            due = begin + turns * self.pace.seconds
            if self.pace.seconds and self.over.wait(max(0.0, due - time.monotonic())):
                break
            if self.pace.seconds:
                with self._lock:
                    self._window.late = max(self._window.late, time.monotonic() - due)
            self._turn()
            turns += 1

    def _turn(self) -> None:
        claims = self._timed(
            "claim", lambda: self.api.claim(self.owner, self.pace.batch, ttl_seconds=TTL_SECONDS)
        )
        self._count("claimed", len(claims))
        done = [claim for claim in claims if self._is_to_be_committed(claim)]
        if done:
            self._commit(done)
        self.used += sum(claim["attempt_number"] == 1 for claim in claims)
        if self.used >= RUN:
            self.used -= RUN
            self._timed("submit", lambda: submit(self.api))
        elif not claims:
            self.over.wait(IDLE_SECONDS)

    def _is_to_be_committed(self, claim: dict[str, Any]) -> bool:
        path, fence = f"/attempts/{claim['fence']['attempt_id']}", {"fence": claim["fence"]}
        match claim["kind"]:
            case "flaky" if claim["attempt_number"] == 1:
                body = fence | {"error": {"type": "Flaky", "message": "once"}, "retryable": True}
                self._asked("fail", f"{path}/fail", body)
                return False
            case "lost" if claim["attempt_number"] == 1:
                self._count("left alone", 1)
                return False
            case "long":
                self._asked("renew", f"{path}/renew", fence | {"owner": self.owner})
            case "effect":
                self._effect(path, fence)
        return True

    def _effect(self, path: str, fence: dict[str, Any]) -> None:
        """Prepared, accepted and reported; a second attempt finds it as the first one left it."""
        bound = {"slot": "out", "downstream": DOWNSTREAM, "payload": {"n": 1}}
        effect = self._asked("prepare", f"{path}/effects", fence | bound).get("effect", {})
        if effect.get("state") != "PREPARED":
            return
        address = f"/effects/{effect['effect_id']}"
        body = fence | {"payload_digest": effect["payload_digest"]}
        sent = self._asked("accept", f"{address}/accept", body, keyed=True)
        if "dispatch_id" in sent:
            report = {
                "dispatch_id": sent["dispatch_id"],
                "outcome": "COMMITTED",
                "receipt": {"r": 1},
            }
            self._asked("report", f"{address}/report", fence | report)

    def _commit(self, claims: list[dict[str, Any]]) -> None:
        items = [
            {"fence": claim["fence"], "input_digest": claim["input_digest"], "result": {"ok": True}}
            for claim in claims
        ]
        if len(items) == 1:
            (item,) = items
            path = f"/attempts/{item['fence']['attempt_id']}/commit"
            answers = [self._timed("commit", lambda: self.api.ask(path, item))]
        else:
            path = f"/queues/{QUEUE}/commits"
            answers = self._timed("commit", lambda: self.api.post(path, {"commits": items}))[
                "results"
            ]
        for answer in answers:
            self._count(str(answer["outcome"]), 1)

    def _asked(self, verb: str, path: str, body: Any, *, keyed: bool = False) -> dict[str, Any]:
        answer: dict[str, Any] = self._timed(verb, lambda: self.api.ask(path, body, keyed=keyed))
        self._count(f"{verb}: {answer.get('outcome', answer.get('title', 'answered'))}", 1)
        return answer

    def _timed(self, verb: str, call: Callable[[], T]) -> T:
        begin = time.perf_counter()
        answer = call()
        taken = (time.perf_counter() - begin) * 1000
        with self._lock:
            self._window.waits.setdefault(verb, []).append(taken)
        return answer

    def _count(self, outcome: str, times: int) -> None:
        with self._lock:
            self._window.outcomes[outcome] += times
