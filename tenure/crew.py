"""The threads that run handlers, and what becomes of each handler's end."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping

from tenure import tracing
from tenure.attempts import AttemptCalls, error_from
from tenure.claim import Claim, Stage
from tenure.committer import Committer
from tenure.effect_errors import ApprovalRequired, EffectRefused, PayloadConflict, Unsettled
from tenure.effects import ask_again_after
from tenure.errors import (
    ClaimLost,
    Fatal,
    IntakeStopped,
    InvalidInput,
    NotEncodable,
    Release,
    Released,
    Retry,
    TryLater,
)
from tenure.records import Json
from tenure.settling import Settler
from tenure.tally import Happening

log = logging.getLogger("tenure")

Handler = Callable[[Claim], Json]


class Crew:
    """As many daemon threads as claims may be held: a handler that never returns must not keep a process alive."""

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        size: int,
        calls: AttemptCalls,
        committer: Committer,
        settler: Settler,
    ) -> None:
        self._handlers = handlers
        self._calls = calls
        self._committer = committer
        self._settler = settler
        self._work: queue.SimpleQueue[Claim | None] = queue.SimpleQueue()
        self._threads = [
            threading.Thread(target=self._run, name=f"tenure-handler-{number}", daemon=True)
            for number in range(size)
        ]

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Let each thread end after what it is doing now."""
        for _ in self._threads:
            self._work.put(None)

    def assign(self, claim: Claim) -> None:
        """Have the claim handled by the next free thread."""
        self._work.put(claim)

    def _run(self) -> None:
        while (claim := self._work.get()) is not None:
            try:
                self._handle(claim)
            except Exception:
                log.exception("%r could not be settled; its lease will lapse", claim)
                self._settler.over(claim)

    def _handle(self, claim: Claim) -> None:
        try:
            result = self._traced(claim)
        except (ClaimLost, Released) as lost:
            # Raised by check(): the coordinator has the refusal on record already, with the usage so far.
            if claim.enter(Stage.SETTLING, leaving=Stage.HANDLING):
                log.info("%r abandoned: %s", claim, lost)
                self._settler.over(claim)
        except BaseException as error:  # noqa: BLE001 - SystemExit in a handler would leave a lease renewed for ever
            if claim.enter(Stage.SETTLING, leaving=Stage.HANDLING):
                self._ended(claim, error)
        else:
            # Also when the lease is known to be lost: the refusal is then recorded with what the attempt cost, and
            # the coordinator's word counts, not this process's belief.
            if claim.enter(Stage.SETTLING, leaving=Stage.HANDLING):
                self._returned(claim, result)

    def _traced(self, claim: Claim) -> Json:
        """The handler's result. Its span belongs to the claim's, and what it calls belongs to its span."""
        with tracing.span(
            f"handle {claim.kind}",
            within=claim.trace,
            task_id=claim.task_id,
            attempt_id=claim.attempt_id,
            run_id=claim.run_id,
            node_id=claim.node_id,
            attempt_number=claim.attempt_number,
        ) as trace:
            claim.trace = trace
            return self._handlers[claim.kind](claim)

    def _returned(self, claim: Claim, result: Json) -> None:
        try:
            item = self._calls.commit_item(claim, result)
        except NotEncodable as error:
            log.error("the result of %r cannot be sent: %s", claim, error)
            self._settler.fail(claim, error=error_from(error), retryable=False)
        else:
            self._committer.hand_over(claim, item)

    def _ended(self, claim: Claim, error: BaseException) -> None:
        match error:
            case Release():
                self._settler.release(claim)
            case Retry():
                self._settler.fail(
                    claim, error=error_from(error), retryable=True, retry_after_seconds=error.after
                )
            case ApprovalRequired():
                self._settler.done(claim, Happening.PARKED, approval_id=error.approval_id)
            case Unsettled(asks_again=False):
                # The coordinator holds the task for a person as soon as nobody holds it.
                log.warning("%r waits: %s", claim, error)
                self._settler.release(claim)
            case Unsettled():
                log.warning("%r asks again later: %s", claim, error)
                self._settler.fail(
                    claim,
                    error=error_from(error),
                    retryable=True,
                    retry_after_seconds=ask_again_after(claim.attempt_number),
                )
            case IntakeStopped():
                # An incident: nothing new is sent until it is over. The task is none the worse for it.
                log.warning("%r is given back: %s", claim, error)
                self._settler.release(claim)
            case TryLater(retry_after_seconds=after):
                log.warning("%r is tried again: %s", claim, error)
                self._settler.fail(
                    claim, error=error_from(error), retryable=True, retry_after_seconds=after
                )
            case EffectRefused():
                log.warning("%r is tried again: %s", claim, error)
                self._settler.fail(claim, error=error_from(error), retryable=True)
            case NotEncodable() | InvalidInput() | PayloadConflict():
                log.error("%r can't be done as it is: %s", claim, error)
                self._settler.fail(claim, error=error_from(error), retryable=False)
            case Fatal():
                self._settler.fail(claim, error=error_from(error), retryable=False)
            case _:
                log.error("the handler of %r failed", claim, exc_info=error)
                self._settler.fail(claim, error=error_from(error), retryable=True)
