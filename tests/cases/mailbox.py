"""The outside world of the cases: a mailbox that counts what reached it, and can be unkind.

X is the number of calls that reached it, XP of those that it really performed. It dedupes nothing unless it is told to,
so that whoever leans on a provider's dedupe fails here.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import orjson

from coordinator.actors import Actor, Worker
from coordinator.fence import Fence
from coordinator.ids import new_id
from coordinator.models import Downstream
from coordinator.outcomes import Refusal
from coordinator.services.acceptances import Accepted, accept_effect
from coordinator.services.answers import RequestKey
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import (
    Finding,
    LookUpStarted,
    Method,
    Settled,
    Verdict,
    reconcile_effect,
    start_look_up,
)
from coordinator.services.reports import Recorded, Report, report_effect
from coordinator.states import DispatchOutcome, Guarantee
from tests import world

MAIL = {"to": "someone", "text": "hello"}


def register(
    *, name: str = "mail", guarantee: Guarantee = Guarantee.IDEMPOTENT_KEY, **fields: Any
) -> Downstream:
    """A downstream; by default one that dedupes by our key, so that no person has to approve each mail."""
    valid = {"key_valid_seconds": 86_400} if guarantee is Guarantee.IDEMPOTENT_KEY else {}
    return world.downstream(name=name, guarantee=guarantee, **(valid | fields))


class Mode(Enum):
    NORMAL = "performs and answers"
    DROP_REPLY = "performs, never answers"
    LOSE_REQUEST = "neither performs nor answers"
    REJECT = "says no, and has not performed"


class LookUpDown(Exception):
    """The provider's look-up does not answer."""


@dataclass(frozen=True)
class Mail:
    key: str
    payload: Any
    receipt: dict[str, int]


@dataclass
class Mailbox:
    """Another mail is another mail, even under the same key; `mode` is how it takes the next calls."""

    mode: Mode = Mode.NORMAL
    dedupe: bool = False
    look_up_works: bool = True
    arrived: list[str] = field(default_factory=list)
    mails: list[Mail] = field(default_factory=list)

    @property
    def x(self) -> int:
        return len(self.arrived)

    @property
    def xp(self) -> int:
        return len(self.mails)

    # --- the provider --------------------------------------------------------------------------

    def take(self, key: str, payload: Any) -> tuple[DispatchOutcome, Any]:
        """One call of the provider, as its caller hears it: the outcome, and the receipt of what happened."""
        self.arrived.append(key)
        if self.mode is Mode.LOSE_REQUEST:
            return DispatchOutcome.UNKNOWN, None
        if self.mode is Mode.REJECT:
            return DispatchOutcome.REFUSED, None
        receipt = self._perform(key, payload)
        if self.mode is Mode.DROP_REPLY:
            return DispatchOutcome.UNKNOWN, None
        return DispatchOutcome.COMMITTED, receipt

    def _perform(self, key: str, payload: Any) -> dict[str, int]:
        known = self.find(key) if self.dedupe else None
        if known is not None:
            return known.receipt
        self.mails.append(Mail(key, payload, {"mail": self.xp + 1}))
        return self.mails[-1].receipt

    def find(self, key: str) -> Mail | None:
        return next((mail for mail in self.mails if mail.key == key), None)

    def look_up(self, key: str) -> Mail | None:
        if not self.look_up_works:
            raise LookUpDown
        return self.find(key)

    # --- its callers ---------------------------------------------------------------------------

    def send(self, claim: Claim, *, by: Worker, **bound: Any) -> Refusal | Recorded:
        """Prepare, accept, send only after ACCEPTED, report; the first refusal ends it."""
        prepared = prepare(claim, by=by, **bound)
        if isinstance(prepared, Refusal):
            return prepared
        return self.send_prepared(prepared.effect, claim, by=by)

    def send_prepared(self, effect: EffectView, claim: Claim, *, by: Worker) -> Refusal | Recorded:
        """The bound bytes, never others."""
        accepted = accept(effect, claim.fence, by=by)
        if not isinstance(accepted, Accepted):
            return accepted
        outcome, receipt = self.transmit(effect, accepted)
        return report(effect, claim, accepted, outcome, by=by, receipt=receipt)

    def transmit(self, effect: EffectView, accepted: Accepted) -> tuple[DispatchOutcome, Any]:
        return self.take(accepted.idempotency_key, payload_of(effect))

    def reconcile(
        self, effect: EffectView, *, by: Actor, fence: Fence | None = None
    ) -> Settled | Refusal:
        """Stamp a look-up, make it by the exact key, and say what was found. Raises LookUpDown."""
        started = start_look_up(effect_id=effect.effect_id, actor=by, fence=fence)
        if isinstance(started, Refusal):
            return started
        assert isinstance(started, LookUpStarted)
        mail = self.look_up(effect.effect_id)
        verdict = Verdict(
            finding=Finding.HAPPENED if mail else Finding.NOT_HAPPENED,
            dispatches=started.dispatches,
            method=Method.QUERY,
            detail="looked up by its key",
            lookup_id=started.lookup_id,
            receipt=mail.receipt if mail else None,
        )
        return reconcile_effect(effect_id=effect.effect_id, verdict=verdict, actor=by, fence=fence)


def payload_of(effect: EffectView) -> Any:
    """The bound payload, as it comes out of the answer."""
    return orjson.loads(orjson.dumps(effect.payload))


def prepare(
    claim: Claim, *, by: Worker, payload: Any = None, slot: str = "mail", downstream: str = "mail"
) -> Prepared | Refusal:
    return prepare_effect(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        slot=slot,
        downstream=downstream,
        payload=MAIL if payload is None else payload,
        worker=by,
    )


def prepared(claim: Claim, *, by: Worker, **bound: Any) -> EffectView:
    answer = prepare(claim, by=by, **bound)
    assert isinstance(answer, Prepared), answer
    return answer.effect


def request_of(by: Worker) -> RequestKey:
    """A new request; the same one again is a repeat."""
    return RequestKey(by.name, new_id().hex, "accept")


def accept(
    effect: EffectView,
    fence: Fence,
    *,
    by: Worker,
    digest: str | None = None,
    request: RequestKey | None = None,
) -> Accepted | Refusal:
    return accept_effect(
        effect_id=effect.effect_id,
        fence=fence,
        payload_digest=digest or effect.payload_digest,
        worker=by,
        request=request or request_of(by),
    )


def accepted(effect: EffectView, fence: Fence, *, by: Worker) -> Accepted:
    answer = accept(effect, fence, by=by)
    assert isinstance(answer, Accepted), answer
    return answer


def report(
    effect: EffectView,
    claim: Claim,
    dispatch: Accepted,
    outcome: DispatchOutcome,
    *,
    by: Worker,
    receipt: Any = None,
) -> Recorded | Refusal:
    said = Report(dispatch.dispatch_id, outcome, receipt)
    return report_effect(effect_id=effect.effect_id, fence=claim.fence, report=said, worker=by)
