"""A worker: it claims tasks of its kinds, runs their handlers, keeps the leases and commits the results.

Threads: the caller of `run()` asks for work; handlers have one each; the lease keeper, the committer and the waiter
for hints have one each. None of them decides anything about a task: that is the coordinator's, under its row lock.
"""

from __future__ import annotations

import logging
import math
import os
import socket
import time
import uuid
from collections.abc import Callable

from tenure.attempts import LARGEST_BATCH, AttemptCalls
from tenure.claim import Claim, Stage
from tenure.claiming import Claiming
from tenure.committer import Committer
from tenure.crew import Crew, Handler
from tenure.holdings import Holdings, Wakeup
from tenure.keeper import LeaseKeeper
from tenure.retrying import RetryPolicy
from tenure.settling import Settler
from tenure.stopping import StopSwitch
from tenure.tally import Happening, Observer, Tally
from tenure.transport import Retried, Transport

log = logging.getLogger("tenure")

#: The shortest lease that a coordinator grants (contract 4).
SHORTEST_TTL_SECONDS = 5
LARGEST_CONCURRENCY = LARGEST_BATCH
#: After the grace time, results that are already on their way get this much longer.
LAST_COMMIT_SECONDS = 3.0
#: A finished result is worth waiting for a coordinator that restarts: it may be canonical until a take-over.
COMMIT_RETRY = RetryPolicy(
    tries=60, first_pause_seconds=0.2, longest_pause_seconds=3.0, budget_seconds=120.0
)
IDLE_SECONDS = 60.0


class Worker:
    """Handlers by node kind, and everything that makes them safe.

    `ttl_seconds` is how long a task stays ours after this process went silent; renewals go out every third of it.
    `grace_seconds` is how long handlers may go on after SIGTERM. `owner` names this process on every page; it must
    be unlike that of any other process, and is made up where it is left out.
    """

    def __init__(
        self,
        url: str,
        token: str,
        queue: str,
        *,
        owner: str | None = None,
        concurrency: int = 1,
        ttl_seconds: int = 30,
        grace_seconds: float = 20.0,
        timeout_seconds: float = 15.0,
        observer: Observer | None = None,
    ) -> None:
        if not 1 <= concurrency <= LARGEST_CONCURRENCY:
            raise ValueError(f"concurrency must be 1 to {LARGEST_CONCURRENCY}, not {concurrency}")
        if ttl_seconds < SHORTEST_TTL_SECONDS:
            raise ValueError(
                f"ttl_seconds must be at least {SHORTEST_TTL_SECONDS}, not {ttl_seconds}"
            )
        if not 0 <= grace_seconds < math.inf:
            raise ValueError(f"grace_seconds must not be negative, not {grace_seconds}")
        self.queue = queue
        self.owner = owner or f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:6]}"
        self._concurrency = concurrency
        self._ttl_seconds = ttl_seconds
        self._grace_seconds = grace_seconds
        self._handlers: dict[str, Handler] = {}
        self._wakeup = Wakeup()
        self._stop = StopSwitch(self._wakeup)
        self._tally = Tally(observer)
        self._holdings = Holdings(self._wakeup)
        self._transport = Transport(
            url,
            token,
            timeout_seconds=timeout_seconds,
            on_retry=self._retried,
            connections=concurrency + 6,
        )
        self._calls = AttemptCalls(
            self._transport, queue=queue, owner=self.owner, ttl_seconds=ttl_seconds
        )
        self._ran = False

    def __repr__(self) -> str:
        return f"<Worker {self.owner} on {self.queue}>"

    def handler(self, kind: str) -> Callable[[Handler], Handler]:
        """Register what handles tasks of a kind. What it returns is the task's result, as JSON."""

        def register(function: Handler) -> Handler:
            if kind in self._handlers:
                raise ValueError(f"kind {kind!r} has a handler already")
            self._handlers[kind] = function
            return function

        return register

    @property
    def counts(self) -> dict[str, int]:
        """What has happened so far: claimed, committed, failed, refused.<point>.<OUTCOME>, retries, renewals, …"""
        return self._tally.counts()

    def stop(self) -> None:
        """Stop as SIGTERM does; called again, give everything back at once. From any thread."""
        self._stop.press()

    def run(self, *, until_empty: bool = False) -> dict[str, int]:
        """Work until asked to stop — or, with `until_empty`, until there is nothing to claim — and return the counts.

        Raises Unauthorized, Forbidden or NotFound where this token can never work on this queue, InvalidInput where
        the queue does not take our claims; an unreachable coordinator is waited for.
        """
        if not self._handlers:
            raise ValueError("this worker has no handler; register one with @worker.handler(kind)")
        if self._ran:
            raise RuntimeError("a worker runs once; make another one")
        self._ran = True
        with self._stop.on_signals():
            self._work(until_empty)
        return self.counts

    def _work(self, until_empty: bool) -> None:
        claiming = Claiming(self._calls, self._wakeup, self._tally, kinds=tuple(self._handlers))
        settler = Settler(
            self._calls,
            self._holdings,
            self._tally,
            retry=COMMIT_RETRY,
            work_likely=claiming.work_is_likely,
        )
        keeper = LeaseKeeper(
            self._calls, self._holdings, self._tally, ttl_seconds=self._ttl_seconds
        )
        committer = Committer(self._calls, self._holdings, settler, self._tally, retry=COMMIT_RETRY)
        crew = Crew(
            self._handlers,
            size=self._concurrency,
            calls=self._calls,
            committer=committer,
            settler=settler,
        )
        for part in (keeper, committer, crew, claiming):
            part.start()
        try:
            self._serve(claiming, keeper, crew, until_empty)
        finally:
            self._wind_down(settler)
            claiming.stop()
            crew.stop()
            keeper.stop()
            committer.stop(wait_seconds=0.0 if self._stop.at_once else LAST_COMMIT_SECONDS)
            self._transport.close()

    def _serve(
        self, claiming: Claiming, keeper: LeaseKeeper, crew: Crew, until_empty: bool
    ) -> None:
        while not self._stop.on:
            free = self._concurrency - len(self._holdings)
            wait = IDLE_SECONDS
            if free > 0:
                unhinted = until_empty and not len(self._holdings)
                for claim in claiming.ask(free, unhinted=unhinted):
                    self._take_on(claim, keeper, crew)
                if until_empty and claiming.found_nothing and not len(self._holdings):
                    return
                if len(self._holdings) < self._concurrency:
                    wait = claiming.wait_seconds()
            self._wakeup.wait(wait)

    def _take_on(self, claim: Claim, keeper: LeaseKeeper, crew: Crew) -> None:
        if not self._holdings.add(claim):
            return
        keeper.keep(claim)
        self._tally.tell(Happening.CLAIMED, claim)
        crew.assign(claim)

    def _wind_down(self, settler: Settler) -> None:
        """Let what is held end within the grace time, else give it back. A result on its way is never given back."""
        for claim in self._holdings.all():
            claim.ask_to_stop()
        deadline = time.monotonic() + self._grace_seconds
        while len(self._holdings) and not self._stop.at_once and time.monotonic() < deadline:
            self._wakeup.wait(deadline - time.monotonic())
        settler.give_back(
            [
                claim
                for claim in self._holdings.all()
                if claim.enter(Stage.SETTLING, leaving=Stage.HANDLING)
            ]
        )
        if not self._stop.at_once:
            self._holdings.wait_until_empty(time.monotonic() + LAST_COMMIT_SECONDS)

    def _retried(self, _retried: Retried) -> None:
        self._tally.count("retries")
