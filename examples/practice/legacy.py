"""A scheduler as many houses have one: a list of jobs, two workers that take the next, leases that nobody compares.

It adds up invoices, and tells a coordinator as it goes what it hands out and takes back. Two faults are planted; both
are what such schedulers really do. One job is handed out twice at once, because its mark is written too late. One is
held by a worker that falls asleep past its lease: it is handed out again and done, and then the sleeper's result is
taken as well.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

JOBS = 24
OWNERS = ("legacy-1", "legacy-2")
#: Each job takes so long, at least; a lease is many times that.
JOB_SECONDS = 0.02
LEASE_SECONDS = 2.0
#: A lapsed lease is noticed this much later, so that nobody can take it for one that still ran.
NOTICED_AFTER_SECONDS = 0.5
#: Numbers of the two jobs with a fault.
HANDED_OUT_TWICE, SLEPT_THROUGH = 7, 15
#: Should the other worker be gone, nobody waits for it longer than this.
LONGEST_WAIT_SECONDS = 10.0

Tell = Callable[..., None]


@dataclass
class _Job:
    key: str
    amounts: tuple[int, ...]
    taken_until: float = 0.0
    handed_out: int = 0
    twice: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    @property
    def total(self) -> str:
        return f"{sum(self.amounts)} cents"


class Night:
    """One night's jobs, from the first to the last. `tell` is a feed's; `when` names the night in each job's key."""

    def __init__(self, tell: Tell, *, when: str) -> None:
        self._tell = tell
        self._lock = threading.Lock()
        self._jobs = [
            _Job(f"{when}/invoice-{number:02}", (1999 + 7 * number, 450, 35 * number))
            for number in range(1, JOBS + 1)
        ]
        self._twice = self._jobs[HANDED_OUT_TWICE - 1]
        self._slept = self._jobs[SLEPT_THROUGH - 1]

    def work(self) -> int:
        """Have all jobs done; how many there were."""
        workers = [threading.Thread(target=self._work, args=(owner,)) for owner in OWNERS]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return len(self._jobs)

    def _work(self, owner: str) -> None:
        while not all(job.done.is_set() for job in self._jobs):
            job = self._next()
            if job is None:
                time.sleep(JOB_SECONDS)  # the other one holds what is left
                continue
            told = {"task_key": job.key, "owner": owner}
            given = _digest(repr(job.amounts))
            self._tell(event="CLAIMED", lease_seconds=LEASE_SECONDS, input_digest=given, **told)
            self._stretch(job)
            # The scheduler takes whatever comes: it never asks who holds the job by now.
            self._tell(event="COMMITTED", result_digest=_digest(job.total), **told)
            job.done.set()

    def _next(self) -> _Job | None:
        """The first job that is neither done nor held, and its mark."""
        with self._lock:
            now = time.monotonic()
            for job in self._jobs:
                if not job.done.is_set() and job.taken_until <= now:
                    job.handed_out += 1
                    if job is not self._twice or job.handed_out > 1:
                        job.taken_until = now + LEASE_SECONDS + NOTICED_AFTER_SECONDS
                        job.twice.set()
                    return job
            return None

    def _stretch(self, job: _Job) -> None:
        """How long it takes; the two faults take as long as the other worker needs to be part of them."""
        time.sleep(JOB_SECONDS)
        if job is self._twice:
            job.twice.wait(LONGEST_WAIT_SECONDS)
        elif job is self._slept and job.handed_out == 1:
            job.done.wait(LONGEST_WAIT_SECONDS)


def _digest(text: str) -> str:
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()
