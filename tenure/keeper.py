"""The lease keeper: one thread that renews whatever this process holds.

Handlers may block, compute or sleep; as long as the process runs, its leases are extended. It reads the monotonic
clock only: a host whose clock jumps neither loses nor stretches a lease.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tenure.attempts import LARGEST_BATCH, AttemptCalls, Item, refusal
from tenure.claim import Claim
from tenure.decoding import decode
from tenure.errors import ClaimLost, LeaseLimit, Problem, TenureError
from tenure.holdings import Holdings
from tenure.retrying import spread
from tenure.tally import Tally

log = logging.getLogger("tenure")

#: Leases that fall due within this part of their ttl travel together.
GATHERING_PART = 1 / 6
#: After a renewal that got no answer, the next is tried this soon, in parts of the ttl.
RECOVERY_PART = 1 / 10
LONGEST_RENEWAL_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class _Renewed:
    lease_seconds: float


@dataclass
class _Schedule:
    claim: Claim
    due: float
    limited: bool = False


class LeaseKeeper:
    """Renews every ttl/3, with jitter, all leases of the process in as few calls as their number allows."""

    def __init__(
        self, calls: AttemptCalls, holdings: Holdings, tally: Tally, *, ttl_seconds: float
    ) -> None:
        self._calls = calls
        self._holdings = holdings
        self._tally = tally
        self._ttl = ttl_seconds
        self._changed = threading.Condition()
        self._schedules: dict[str, _Schedule] = {}
        self._stopped = False
        self._troubled = False
        self._thread = threading.Thread(target=self._run, name="tenure-lease-keeper", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Renew nothing more. A call under way is left to end by itself."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def keep(self, claim: Claim) -> None:
        """Renew this one from now on, until it is lost or no longer held."""
        with self._changed:
            self._schedules[claim.attempt_id] = _Schedule(claim, self._next(claim))
            self._changed.notify()

    def _next(self, claim: Claim) -> float:
        """A third of the ttl from now, earlier where less of the lease is left than we asked for."""
        third = min(self._ttl, max(0.0, claim.remaining())) / 3
        return time.monotonic() + third * spread(0.85, 1.0)

    def _run(self) -> None:
        while True:
            with self._changed:
                due = self._due()
                while not due and not self._stopped:
                    self._changed.wait(self._until_next())
                    due = self._due()
                if self._stopped:
                    return
            for start in range(0, len(due), LARGEST_BATCH):
                try:
                    self._renew(due[start : start + LARGEST_BATCH])
                except Exception:
                    # Whatever it was: a keeper that is gone would lose every lease of this process.
                    log.exception("the lease keeper stumbled")
                    self._put_off(due)

    def _due(self) -> list[_Schedule]:
        """Those to renew now: none before the first falls due, then all that would soon follow."""
        held = {claim.attempt_id for claim in self._holdings.all()}
        for attempt_id in [attempt_id for attempt_id in self._schedules if attempt_id not in held]:
            del self._schedules[attempt_id]
        now = time.monotonic()
        waiting = self._renewable()
        for item in waiting:
            spare = item.claim.remaining() - self._ttl / 3
            if item.claim.settling and spare > 0:
                # Its end is on its way: a renewal that comes after it would be refused, and be on record, for nothing.
                item.due = max(item.due, now + spare)
        if not any(item.due <= now for item in waiting):
            return []
        return [item for item in waiting if item.due <= now + self._ttl * GATHERING_PART]

    def _renewable(self) -> list[_Schedule]:
        return [
            item
            for item in self._schedules.values()
            if not item.limited and item.claim.lost is None
        ]

    def _until_next(self) -> float | None:
        dues = [item.due for item in self._renewable()]
        return max(0.0, min(dues) - time.monotonic()) if dues else None

    def _renew(self, batch: Sequence[_Schedule]) -> None:
        timeout = min(self._ttl / 3, LONGEST_RENEWAL_SECONDS)
        try:
            sent_at, results = self._calls.renew(
                [item.claim for item in batch], timeout_seconds=timeout
            )
        except TenureError as error:
            self._tally.count("renewals_unanswered", len(batch))
            self._trouble(len(batch), error)
            self._put_off(batch)
            return
        self._trouble(0, None)
        for item, result in zip(batch, results, strict=True):
            self._judge(item, result, sent_at)

    def _put_off(self, batch: Sequence[_Schedule]) -> None:
        again = time.monotonic() + self._ttl * RECOVERY_PART * spread(0.5, 1.0)
        for item in batch:
            item.due = again

    def _trouble(self, leases: int, error: TenureError | None) -> None:
        """One line when it begins and one when it is over, not one for each try."""
        if error is not None and not self._troubled:
            log.warning("%d leases not renewed, trying on: %s", leases, error)
        elif error is None and self._troubled:
            log.info("leases are renewed again")
        self._troubled = error is not None

    def _judge(self, item: _Schedule, result: Item, sent_at: float) -> None:
        if result.get("outcome") == "RENEWED":
            item.claim.extend(sent_at=sent_at, lease_seconds=decode(_Renewed, result).lease_seconds)
            item.due = self._next(item.claim)
            self._tally.count("renewals")
            return
        problem = refusal(result)
        item.due = self._next(item.claim)
        match problem:
            case ClaimLost():
                self._lose(item.claim, problem)
            case LeaseLimit():
                # The attempt is still current and may commit: the handler is not disturbed, time runs out by itself.
                item.limited = True
                self._tally.refused("renew", item.claim, problem, "LEASE_LIMIT")
            case _:
                item.due = time.monotonic() + self._ttl * RECOVERY_PART
                self._tally.refused(
                    "renew", item.claim, problem, problem.outcome or f"HTTP_{problem.status}"
                )

    def _lose(self, claim: Claim, problem: Problem) -> None:
        """Not where the claim ended here in the meantime: then the refusal is only the answer to our own end."""
        if claim in self._holdings.all() and claim.lose(problem):
            self._tally.refused("renew", claim, problem, problem.outcome or "LOST")
