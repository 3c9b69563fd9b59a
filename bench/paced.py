"""From submitting to starting, at 50 tasks a second, with an otherwise idle worker of the SDK."""

import multiprocessing
import statistics
import time
from multiprocessing.queues import Queue
from typing import Any, Final

from bench.clients import percentile
from bench.place import QUEUE, Target
from tenure import Claim, Client, Worker

RATE: Final = 50
KIND: Final = "paced"
WAIT_SECONDS: Final = 10.0


def start_latency(target: Target, *, seconds: float) -> dict[str, Any]:
    """Milliseconds from before `POST /tasks` to the handler's first line; both ends on this machine's clock."""
    started: Queue[tuple[float, float]] = multiprocessing.Queue()
    worker = multiprocessing.Process(target=_work, args=(target, started), daemon=True)
    worker.start()
    waits = []
    try:
        with Client(target.url, target.token) as client:
            client.submit_task(queue=QUEUE, kind=KIND, input={"at": time.time()})
            started.get(timeout=30)  # the worker is up
            count, begin = int(RATE * seconds), time.time()
            for number in range(count):
                time.sleep(max(0.0, begin + number / RATE - time.time()))
                client.submit_task(queue=QUEUE, kind=KIND, input={"at": time.time()})
            for _ in range(count):
                at, start = started.get(timeout=WAIT_SECONDS)
                waits.append((start - at) * 1000)
    finally:
        worker.terminate()
        worker.join()
    waits.sort()
    return {
        "rate": RATE,
        "tasks": len(waits),
        "p50_ms": round(statistics.median(waits), 1),
        "p95_ms": round(percentile(waits, 0.95), 1),
    }


def _work(target: Target, started: "Queue[tuple[float, float]]") -> None:
    worker = Worker(target.url, target.token, QUEUE, concurrency=4, grace_seconds=0)

    @worker.handler(KIND)
    def note(claim: Claim) -> dict[str, bool]:
        started.put((claim.input["at"], time.time()))
        return {"ok": True}

    worker.run()
