"""What can go wrong with an outside effect; the rest of the tree of `tenure.errors`.

::

    TenureError
    ├── EffectRefused          the downstream said that it did not do it, or the call never left us
    ├── Parked                 somebody else has to act first: there is nothing more to do in this attempt
    │   ├── ApprovalRequired   … a person decides on the exact payload; the attempt has ended        (a Problem too)
    │   └── Unsettled          … a call may be out, and it can't be settled now
    └── Problem
        ├── PayloadConflict    the slot is bound to another payload; `payload` is the bound one
        ├── AlreadySettled     it has happened, with a `receipt`, or the opposite verdict stands
        ├── AlreadyRedeemed    another call went through the gate with this dispatch
        └── TryLater
            ├── StageForbids       the queue sends nothing at its stage of rollout
            ├── SerialBusy         another effect of its kind may be out
            ├── AbsenceNotSealed   "it is not there" does not prove that it can't arrive any more
            └── StaleEvidence      another dispatch was made since

An uncaught Parked is no failure: the worker lets go of the task, and the coordinator holds it for whoever must act.
"""

from __future__ import annotations

from tenure.errors import Problem, TenureError, TryLater, refusals
from tenure.records import Effect, Json


class EffectRefused(TenureError):
    """It did not happen. `sent` is False where not one byte of the call left us."""

    def __init__(self, detail: str, *, effect: Effect, sent: bool) -> None:
        super().__init__(f"{effect.slot} → {effect.downstream}: {detail}")
        self.detail = detail
        self.effect = effect
        self.sent = sent


class Parked(TenureError):
    """Somebody else has to act first."""


class ApprovalRequired(Problem, Parked):
    """A person decides on this exact payload. The task waits, held by nobody; this attempt has ended."""

    @property
    def approval_id(self) -> str:
        """What the person is asked."""
        return str(self.details.extra.get("approval_id", ""))


class Unsettled(Parked):
    """A call was allowed and nobody knows yet what came of it.

    `asks_again` where a later attempt may find out by itself; else a person has to.
    """

    def __init__(self, detail: str, *, effect: Effect, asks_again: bool) -> None:
        super().__init__(f"{effect.slot} → {effect.downstream} is {effect.state}: {detail}")
        self.detail = detail
        self.effect = effect
        self.asks_again = asks_again


class PayloadConflict(Problem):
    """The slot is bound to another payload, and nothing has changed."""

    @property
    def payload(self) -> Json:
        """The bound payload: what a later attempt sends."""
        return self.details.extra.get("payload")

    @property
    def payload_digest(self) -> str:
        """The bound digest."""
        return str(self.details.extra.get("payload_digest", ""))


class AlreadySettled(Problem):
    """It is settled: with a receipt where it has happened."""

    @property
    def receipt(self) -> Json:
        """What the downstream gave; None where the refusal has none."""
        return self.details.extra.get("receipt")


class AlreadyRedeemed(Problem):
    """Another call has redeemed this dispatch; the tool must not act."""


class StageForbids(TryLater):
    """The queue's stage of rollout allows no sending."""


class SerialBusy(TryLater):
    """Another effect may be out at this downstream in the same serial scope."""


class AbsenceNotSealed(TryLater):
    """Its absence proves nothing yet: a call may still arrive."""


class StaleEvidence(TryLater):
    """The effect was dispatched again since what is said was found out."""


refusals(
    {
        "APPROVAL_REQUIRED": ApprovalRequired,
        "PAYLOAD_CONFLICT": PayloadConflict,
        "ALREADY_SETTLED": AlreadySettled,
        "ALREADY_REDEEMED": AlreadyRedeemed,
        "STAGE_FORBIDS": StageForbids,
        "SERIAL_BUSY": SerialBusy,
        "ABSENCE_NOT_SEALED": AbsenceNotSealed,
        "STALE_EVIDENCE": StaleEvidence,
    }
)
