"""Asking for work: when, how much, and what to do when the answer is no."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from tenure.attempts import AttemptCalls, ClaimRequest
from tenure.claim import Claim
from tenure.client import new_key
from tenure.errors import (
    Fenced,
    IntakeStopped,
    Problem,
    ServerFault,
    TenureError,
    TryLater,
    UnexpectedAnswer,
    WrongPool,
)
from tenure.holdings import Wakeup
from tenure.tally import Happening, Tally
from tenure.waiting import (
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
    HintWaiter,
    Patience,
    jittered,
)

log = logging.getLogger("tenure")

#: While the coordinator is away, or takes no claims from us.
FIRST_TROUBLE_SECONDS = 0.5
LONGEST_TROUBLE_SECONDS = 15.0
IDLE_SECONDS = 60.0


class Claiming:
    """Used by the one thread that runs the worker; only `work_is_likely` is called by others."""

    def __init__(
        self, calls: AttemptCalls, wakeup: Wakeup, tally: Tally, *, kinds: Sequence[str]
    ) -> None:
        self._calls = calls
        self._wakeup = wakeup
        self._tally = tally
        self._kinds = kinds
        self._epoch: int | None = None
        self._epoch_doubtful = False
        self._unanswered: ClaimRequest | None = None
        self._not_before = 0.0
        self._likely = False
        self._hint = HintWaiter(calls, wakeup, kinds=kinds)
        self._hinted = True
        self._idle = Patience(FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS)
        self._trouble = Patience(FIRST_TROUBLE_SECONDS, LONGEST_TROUBLE_SECONDS)
        self._troubled = False
        self.found_nothing = False

    def start(self) -> None:
        """Start the waiter for hints."""
        self._hint.start()

    def work_is_likely(self) -> None:
        """Something of ours released other tasks: ask without waiting for the hint."""
        self._likely = True
        self._wakeup.ring()

    def stop(self) -> None:
        """Wait for no further hint."""
        self._hint.stop()

    def ask(self, free: int, *, unhinted: bool = False) -> Sequence[Claim]:
        """Claim up to `free` tasks if it is time to; nothing otherwise, or where the answer is no.

        `unhinted` asks although a hint is still waited for.
        """
        if self._hint.waiting:
            if not (self._likely or unhinted):
                return ()
        elif not self._hinted:
            self._hinted = True
            self._pause(self._hint.pause_seconds)
        if time.monotonic() < self._not_before:
            return ()
        self._likely = False
        try:
            claims = self._claim(free)
        except TenureError as error:
            self._no(error)
            return ()
        self._yes(claims, free)
        return claims

    def wait_seconds(self) -> float:
        """Until it is time to ask again; an answered hint rings earlier."""
        if self._hint.waiting and not self._likely:
            return IDLE_SECONDS
        return max(0.0, self._not_before - time.monotonic())

    def _claim(self, free: int) -> Sequence[Claim]:
        if self._epoch is None or self._epoch_doubtful:
            self._epoch = max(self._epoch or 0, self._calls.read_queue().scheduler_epoch)
            self._epoch_doubtful = False
        # A request without an answer may have been granted: it goes again as it was, and the grants are found.
        # Slots only get free in between, so its limit still fits.
        request = self._unanswered or self._calls.claim_request(
            key=new_key(), epoch=self._epoch, limit=free, kinds=self._kinds
        )
        self._unanswered = request
        try:
            claims = self._calls.claim(request)
        except Problem as problem:
            if not isinstance(problem, ServerFault):
                self._unanswered = None
            raise
        self._unanswered = None
        return claims

    def _yes(self, claims: Sequence[Claim], free: int) -> None:
        self._trouble.reset()
        if self._troubled:
            self._troubled = False
            log.info("claiming again")
            self._tally.tell(Happening.RESUMED)
        self.found_nothing = not claims
        if claims:
            self._idle.reset()
        else:
            self._pause(self._idle.pause_seconds())
        if len(claims) < free and not self._hint.waiting:
            self._hinted = False
            self._hint.ask()

    def _no(self, error: TenureError) -> None:
        """Wait out what can pass; raise what never will."""
        self.found_nothing = False
        match error:
            case Fenced() if self._follow(error):
                return
            case Problem() if not isinstance(error, Fenced | TryLater | WrongPool | ServerFault):
                raise error
            case UnexpectedAnswer() if self._epoch is None:
                raise error
        if not self._troubled:
            self._troubled = True
            log.warning("not claiming for now: %s", error)
            self._tally.tell(Happening.WAITING, problem=error)
        asked = getattr(error, "retry_after_seconds", None)
        pause = self._trouble.pause_seconds()
        self._pause(
            jittered(asked)
            if asked is not None and isinstance(error, IntakeStopped)
            else max(pause, asked or 0.0)
        )

    def _follow(self, refused: Fenced) -> bool:
        """After a bump, the refusal tells the current epoch. Epochs only rise: a lower one is never followed.

        A coordinator that knows less than we do has lost commits (contract 3: AHEAD); we wait until its people have
        raised the epoch above everything that was ever handed out.
        """
        current = refused.current.get("scheduler_epoch")
        self._epoch_doubtful = current is None
        if not isinstance(current, int) or self._epoch is None or current <= self._epoch:
            log.error(
                "the coordinator's epoch %s is not above ours, %s: %s",
                current,
                self._epoch,
                refused,
            )
            return False
        log.info("scheduler epoch %d → %d", self._epoch, current)
        self._tally.tell(Happening.EPOCH_RAISED, before=self._epoch, after=current)
        self._epoch = current
        return True

    def _pause(self, seconds: float) -> None:
        self._not_before = max(self._not_before, time.monotonic() + seconds)
