"""Outside effects as a handler sees them: named in the plan, bound once, sent once, and never guessed about.

::

    mail = Downstream("mail", Smtp("mail.example.org"))

    @worker.handler("notify")
    def notify(claim: Claim) -> Json:
        receipt = claim.effect("mail", mail, {"from": …, "to": […], "subject": …, "text": …}).perform()
        return {"receipt": receipt}

Whatever happens on the way — a crash, a lost answer, a take-over — another attempt calls the same again and gets the
receipt of what has happened, or sends what has not (contract 8).
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from tenure.canonical import canonical
from tenure.digests import effect_id
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Guarantee,
    Happened,
    Refused,
    Sent,
    Unknown,
)
from tenure.effect_errors import (
    AbsenceNotSealed,
    AlreadySettled,
    EffectRefused,
    PayloadConflict,
    StaleEvidence,
    Unsettled,
)
from tenure.errors import ReconcileFirst
from tenure.records import Effect, Json

if TYPE_CHECKING:
    from tenure.claim import Claim
    from tenure.effect_calls import Accepted, EffectCalls

log = logging.getLogger("tenure")

#: A look-up that takes longer has failed, and settles nothing.
LOOK_UP_SECONDS = 30.0
#: Sends of one effect by one `perform`: the first, and one more after its absence was sealed.
MOST_SENDS = 2
#: Steps of one `perform`; the world may change under each, and not for ever.
MOST_STEPS = 8
LONGEST_DETAIL = 1_000
FIRST_PAUSE_SECONDS = 10.0
LONGEST_PAUSE_SECONDS = 300.0


def ask_again_after(attempt_number: int) -> float:
    """Seconds to wait before an effect that could not be settled is looked up again, by another attempt.

    Longer each time: a call that may still arrive needs its deadline and the downstream's settle time to pass before
    its absence can be final, and a downstream that does not answer look-ups needs rest.
    """
    return min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (attempt_number - 1))


@dataclass(frozen=True)
class Downstream:
    """An outside system: its name in the coordinator's registry, and the adapter that speaks to it."""

    name: str
    adapter: Adapter


class Intent:
    """One effect that this task means to have. Made by `claim.effect(...)`; nothing happens before `perform()`."""

    def __init__(
        self,
        claim: Claim,
        calls: EffectCalls,
        *,
        slot: str,
        downstream: Downstream,
        payload: Json,
        condition: Json,
    ) -> None:
        self._claim = claim
        self._calls = calls
        self._slot = slot
        self._downstream = downstream
        self._adapter = downstream.adapter
        self._payload = payload
        self._condition = condition
        self.effect_id = effect_id(task_id=claim.task_id, node_id=claim.node_id, slot=slot)

    def __repr__(self) -> str:
        return f"<Intent {self._slot} → {self._downstream.name} of {self._claim!r}>"

    def perform(self, *, adopt: bool = False) -> Json:
        """Have it happened, and return its receipt; at once, where it has happened already.

        With `adopt` the payload that an earlier attempt bound is sent in place of this one; without, another payload
        is PayloadConflict. Raises EffectRefused where the downstream said no, ApprovalRequired and Unsettled where
        somebody else must act first (let them pass: the worker knows), the fence's refusals, and NotEncodable for
        what can't be sent.
        """
        self._claim.check()
        effect = self._prepare(adopt=adopt)
        sends = 0
        for _ in range(MOST_STEPS):
            match effect.state:
                case "COMMITTED":
                    return effect.receipt
                case "PREPARED" | "RESENDABLE" if sends < MOST_SENDS:
                    sends += 1
                    effect = self._send(effect)
                case "ACCEPTED" | "UNKNOWN":
                    effect = self._settle(effect)
                case _:
                    break
        raise Unsettled(f"not settled after {sends} sends", effect=effect, asks_again=True)

    # -- binding ------------------------------------------------------------------------------------------------

    def _prepare(self, *, adopt: bool) -> Effect:
        bound = self._bound_before()
        if adopt and bound is not None:
            return self._bind(bound.payload, bound.condition)
        self._adapter.check(self._payload, self._condition)
        try:
            return self._bind(self._payload, self._condition)
        except PayloadConflict:
            if not adopt:
                raise
        # Bound within this very attempt: the claim does not know of it.
        bound = self._calls.read(self.effect_id)
        return self._bind(bound.payload, bound.condition)

    def _bind(self, payload: Json, condition: Json) -> Effect:
        return self._calls.prepare(self._slot, self._downstream.name, payload, condition)

    def _bound_before(self) -> Effect | None:
        """What an earlier attempt bound the slot to, as the claim hands it over."""
        for effect in self._claim.effects:
            if effect.slot == self._slot and effect.payload_digest is not None:
                return effect
        return None

    # -- sending ------------------------------------------------------------------------------------------------

    def _send(self, effect: Effect) -> Effect:
        """Accept, send once, report. What the coordinator refuses to accept was not sent."""
        self._claim.check()
        assert effect.payload_digest is not None, "a prepared effect is bound"
        try:
            accepted = self._calls.accept(self.effect_id, effect.payload_digest)
        except AlreadySettled as settled:
            if settled.receipt is None:
                raise
            return replace(effect, state="COMMITTED", receipt=settled.receipt)
        except ReconcileFirst as error:
            stands = self._calls.read(self.effect_id)
            if stands.state in (
                "PREPARED",
                "RESENDABLE",
            ):  # not sent for now: its key has grown too old
                raise Unsettled(str(error), effect=stands, asks_again=True) from error
            return stands
        dispatch_id = accepted.acceptance.dispatch_id
        try:
            sent = self._adapter.send(_call(effect, accepted))
        except Exception as error:
            # It may have failed before the call, in it, or after it.
            detail = f"the adapter failed: {type(error).__name__}: {error}"
            self._report(effect, dispatch_id, Unknown(detail=detail))
            raise
        return self._report(effect, dispatch_id, sent)

    def _report(self, effect: Effect, dispatch_id: str, sent: Sent) -> Effect:
        match sent:
            case Happened(receipt=receipt, etag=etag):
                receipt = {"effect_id": self.effect_id} if receipt is None else receipt
                state = self._calls.report(
                    self.effect_id, dispatch_id, "COMMITTED", receipt=receipt, etag=etag
                )
                return replace(effect, state=state, receipt=receipt)
            case Unknown(detail=detail):
                log.warning("%r is unknown: %s", self, detail)
                state = self._calls.report(
                    self.effect_id, dispatch_id, "UNKNOWN", detail=detail[:LONGEST_DETAIL]
                )
                return self._as_told(effect, state)
            case Refused(detail=detail, sent=went_out):
                state = self._calls.report(
                    self.effect_id, dispatch_id, "REFUSED", detail=detail[:LONGEST_DETAIL]
                )
                if state != "PREPARED":  # this call is over, an earlier one may still arrive
                    return self._as_told(effect, state)
                refused = replace(effect, state=state)
                raise EffectRefused(detail, effect=refused, sent=went_out)
            case _:
                assert_never(sent)

    def _as_told(self, effect: Effect, state: str) -> Effect:
        """The effect after a report of ours; with its receipt where somebody, a gate perhaps, knew better."""
        if state == "COMMITTED":
            return self._calls.read(self.effect_id)
        return replace(effect, state=state)

    # -- settling -----------------------------------------------------------------------------------------------

    def _settle(self, effect: Effect) -> Effect:
        """Find out what came of a call that was allowed: ask the downstream, and tell the coordinator what it said."""
        if not self._adapter.can_be_asked:
            # A gate's dispatch is settled by the end of this attempt, unless it was redeemed.
            waits = effect.guarantee in {Guarantee.NONE, Guarantee.QUERY_ONLY}
            raise Unsettled("the downstream can't be asked", effect=effect, asks_again=not waits)
        look_up = self._calls.begin_look_up(self.effect_id)
        found = self._adapter.look_up(_bound(effect), deadline=time.monotonic() + LOOK_UP_SECONDS)
        try:
            match found:
                case Happened(receipt=receipt):
                    receipt = {"effect_id": self.effect_id} if receipt is None else receipt
                    state = self._calls.reconcile(
                        self.effect_id, "HAPPENED", look_up, detail="found", receipt=receipt
                    )
                    return replace(effect, state=state, receipt=receipt)
                case Absent(detail=detail):
                    state = self._calls.reconcile(
                        self.effect_id, "NOT_HAPPENED", look_up, detail=detail[:LONGEST_DETAIL]
                    )
                    return replace(effect, state=state)
                case DontKnow(detail=detail):
                    raise Unsettled(detail, effect=effect, asks_again=True)
                case _:
                    assert_never(found)
        except AbsenceNotSealed as error:
            raise Unsettled(str(error), effect=effect, asks_again=True) from error
        except (StaleEvidence, AlreadySettled):
            return self._calls.read(self.effect_id)


def _bound(effect: Effect) -> Bound:
    assert effect.effect_id is not None, "a bound effect has an id"
    assert effect.payload_digest is not None, "a bound effect has a digest"
    return Bound(
        effect_id=effect.effect_id,
        payload=effect.payload,
        payload_digest=effect.payload_digest,
        condition=effect.condition,
    )


def _call(effect: Effect, accepted: Accepted) -> Call:
    """The one transmission that was permitted: the bytes that are bound, under the condition that is bound."""
    bound, acceptance = _bound(effect), accepted.acceptance
    assert canonical(acceptance.condition) == canonical(bound.condition), "bound together"
    return Call(
        effect_id=bound.effect_id,
        payload=bound.payload,
        payload_digest=bound.payload_digest,
        condition=bound.condition,
        dispatch_id=acceptance.dispatch_id,
        idempotency_key=acceptance.idempotency_key,
        fencing_token=acceptance.fencing_token,
        deadline=accepted.deadline,
        deadline_at=acceptance.call_deadline,
    )
