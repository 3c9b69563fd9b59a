"""The ends of a claim other than a commit, and the bookkeeping of every end."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from tenure.attempts import AttemptCalls
from tenure.claim import Claim, Stage
from tenure.errors import Problem, Released, TenureError
from tenure.holdings import Holdings
from tenure.records import Json
from tenure.retrying import ONCE, RetryPolicy
from tenure.tally import Happening, Tally

log = logging.getLogger("tenure")

#: One release at the end of a stop; beyond it the lease lapses by itself.
RELEASE_SECONDS = 3.0


class Settler:
    """Tells the coordinator how attempts end. No refusal is raised: it belongs to its own claim alone."""

    def __init__(
        self,
        calls: AttemptCalls,
        holdings: Holdings,
        tally: Tally,
        *,
        retry: RetryPolicy,
        work_likely: Callable[[], None],
    ) -> None:
        self._calls = calls
        self._holdings = holdings
        self._tally = tally
        self._retry = retry
        self._work_likely = work_likely

    def done(self, claim: Claim, what: Happening, **detail: Json) -> None:
        """The end was accepted."""
        if detail.get("released"):
            self._work_likely()
        self.over(claim)
        self._tally.tell(what, claim, **detail)

    def over(self, claim: Claim) -> None:
        """Nothing more is sent for this claim."""
        claim.enter(Stage.SETTLED, leaving=Stage.SETTLING)
        self._holdings.drop(claim)

    def untold(self, point: str, claim: Claim, error: Exception) -> None:
        """Nobody answered: whether it landed is the coordinator's to know. The lease lapses if it did not."""
        log.error("%s of %r got no answer: %s", point, claim, error)
        self.over(claim)
        self._tally.tell(Happening.UNTOLD, claim, point=point, problem=error)

    def fail(
        self,
        claim: Claim,
        *,
        error: Mapping[str, str],
        retryable: bool,
        retry_after_seconds: float | None = None,
    ) -> None:
        """End the attempt as failed."""
        try:
            answer = self._calls.fail(
                claim,
                error=error,
                retryable=retryable,
                retry_after_seconds=retry_after_seconds,
                retry=self._retry,
            )
        except Problem as problem:
            self._refused("fail", claim, problem)
        except TenureError as unanswered:
            self.untold("fail", claim, unanswered)
        else:
            self.done(claim, Happening.FAILED, error=dict(error), outcome=answer.get("outcome"))

    def release(self, claim: Claim) -> None:
        """Give the task back, because its handler said so."""
        self._release(claim, retry=self._retry, timeout_seconds=None)

    def give_back(self, claims: Sequence[Claim]) -> None:
        """Give tasks back because the worker stops. Each is told once, and none after one that nobody answered:
        somebody waits for this process to end, and what was not told lapses by itself.
        """
        for claim in claims:
            claim.lose(Released("the worker stopped and gave this claim back"))
        answered = True
        for claim in claims:
            if answered:
                answered = self._release(claim, retry=ONCE, timeout_seconds=RELEASE_SECONDS)
            else:
                self.over(claim)

    def _release(self, claim: Claim, *, retry: RetryPolicy, timeout_seconds: float | None) -> bool:
        try:
            self._calls.release(claim, retry=retry, timeout_seconds=timeout_seconds)
        except Problem as problem:
            self._refused("release", claim, problem)
        except TenureError as unanswered:
            self.untold("release", claim, unanswered)
            return False
        else:
            self.done(claim, Happening.RELEASED)
        return True

    def _refused(self, point: str, claim: Claim, problem: Problem) -> None:
        self._tally.refused(point, claim, problem, problem.outcome or f"HTTP_{problem.status}")
        claim.lose(problem)
        self.over(claim)
