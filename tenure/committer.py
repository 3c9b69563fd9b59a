"""Commits what handlers returned, all that is ready at once in one call.

While one call is under way, further results gather for the next: the batch grows by itself with the load and costs
no waiting when there is none.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

from tenure import tracing
from tenure.attempts import (
    LARGEST_BATCH,
    LARGEST_INLINE_BYTES,
    AttemptCalls,
    Item,
    error_from,
    refusal,
)
from tenure.claim import Claim
from tenure.errors import MemoryConflict, Problem, ReconcileFirst, TenureError
from tenure.holdings import Holdings
from tenure.retrying import RetryPolicy
from tenure.settling import Settler
from tenure.tally import Happening, Tally

log = logging.getLogger("tenure")

#: Room for `{"commits":[…]}` around the items of a body that may have 1 MiB.
LARGEST_BODY_BYTES = LARGEST_INLINE_BYTES + 100_000
#: Faults of the result itself: no other attempt of this handler would fare better.
_UNMENDABLE = frozenset({400, 413, 422, 428})


@dataclass(frozen=True)
class Ready:
    """A result on its way: the commit's own bytes are made once and repeated as they are."""

    claim: Claim
    item: bytes


class Committer:
    """One thread; `hand_over` never blocks."""

    def __init__(
        self,
        calls: AttemptCalls,
        holdings: Holdings,
        settler: Settler,
        tally: Tally,
        *,
        retry: RetryPolicy,
    ) -> None:
        self._calls = calls
        self._holdings = holdings
        self._settler = settler
        self._tally = tally
        self._retry = retry
        self._ready: queue.SimpleQueue[Ready | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="tenure-committer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, *, wait_seconds: float) -> None:
        """Take nothing more, and wait so long for what is under way."""
        self._ready.put(None)
        self._thread.join(wait_seconds)

    def hand_over(self, claim: Claim, item: bytes) -> None:
        """Have it committed. The claim stays held, and its lease renewed, until that is answered."""
        self._ready.put(Ready(claim, item))

    def _run(self) -> None:
        held_back: Ready | None = None
        while True:
            first = held_back or self._ready.get()
            if first is None:
                return
            batch, held_back, last = self._gather(first)
            try:
                self._commit(batch)
            except Exception:
                # Whatever it was: a committer that is gone would hold every claim for ever.
                log.exception("the committer stumbled; %d leases will lapse", len(batch))
                for ready in batch:
                    self._settler.over(ready.claim)
            if last:
                return

    def _gather(self, first: Ready) -> tuple[list[Ready], Ready | None, bool]:
        """What fits into one call, the one that no longer did, and whether the end was met."""
        batch, size = [first], len(first.item)
        while len(batch) < LARGEST_BATCH:
            try:
                ready = self._ready.get_nowait()
            except queue.Empty:
                break
            if ready is None:
                return batch, None, True
            size += len(ready.item) + 1
            if size > LARGEST_BODY_BYTES:
                return batch, ready, False
            batch.append(ready)
        return batch, None, False

    def _commit(self, batch: Sequence[Ready]) -> None:
        traces = [ready.claim.trace for ready in batch]
        try:
            # A batch belongs to the one handler that it is of, or is linked to the many.
            within = traces[0] if len(batch) == 1 else None
            with tracing.span("commit", within=within, links=traces, size=len(batch)):
                results = self._calls.commit([ready.item for ready in batch], retry=self._retry)
        except Problem as problem:
            self._refused_whole(batch, problem)
        except TenureError as error:
            for ready in batch:
                self._settler.untold("commit", ready.claim, error)
        else:
            self._tally.count("commit_calls")
            for ready, result in zip(batch, results, strict=True):
                self._judge(ready.claim, result)

    def _refused_whole(self, batch: Sequence[Ready], problem: Problem) -> None:
        """A body that was refused as a whole goes again in parts, so that its bad item spoils no other."""
        if len(batch) > 1:
            for ready in batch:
                self._commit([ready])
            return
        [ready] = batch
        self._tally.refused(
            "commit", ready.claim, problem, problem.outcome or f"HTTP_{problem.status}"
        )
        if problem.status in _UNMENDABLE:
            self._settler.fail(ready.claim, error=error_from(problem), retryable=False)
        else:
            # The coordinator's own fault, or a token that ended: nothing is known of the result's worth.
            self._settler.untold("commit", ready.claim, problem)

    def _judge(self, claim: Claim, result: Item) -> None:
        """Exactly one of four outcomes, or a precondition after which the attempt is still current (contract 3)."""
        if result.get("outcome") == "COMMITTED":
            self._tally.count("commits_replayed", int(bool(result.get("replayed"))))
            released = list(result.get("released") or ())
            commit_id = result.get("result_commit_id")
            self._settler.done(
                claim, Happening.COMMITTED, released=released, result_commit_id=commit_id
            )
            return
        problem = refusal(result)
        self._tally.refused("commit", claim, problem, problem.outcome or f"HTTP_{problem.status}")
        verdict = _verdict(problem)
        match verdict:
            case "over":
                claim.lose(problem)
                self._settler.over(claim)
            case "again":
                # The result was made from a world that has moved: another attempt sees the new one.
                self._settler.fail(claim, error=error_from(problem), retryable=True)
            case "hopeless":
                self._settler.fail(claim, error=error_from(problem), retryable=False)
            case _:
                assert_never(verdict)


def _verdict(problem: Problem) -> Literal["over", "again", "hopeless"]:
    if isinstance(problem, MemoryConflict | ReconcileFirst):
        return "again"
    return "hopeless" if problem.status in _UNMENDABLE else "over"
