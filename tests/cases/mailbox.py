"""The outside world of the cases: a mailbox that counts what reached it. X is the number of mails."""

from dataclasses import dataclass, field
from typing import Any

from uuid_utils.compat import uuid7

from coordinator.actors import Worker
from coordinator.models import Downstream
from coordinator.outcomes import Refusal
from coordinator.services.acceptances import Accepted, accept_effect
from coordinator.services.answers import RequestKey
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded, Report, report_effect
from coordinator.states import DispatchOutcome, Guarantee
from tests import world

MAIL = {"to": "someone", "text": "hello"}


def register() -> Downstream:
    """A downstream that dedupes by our key, so that no person has to approve each mail."""
    return world.downstream(
        name="mail", guarantee=Guarantee.IDEMPOTENT_KEY, key_valid_seconds=86_400
    )


@dataclass
class Mailbox:
    """Dedupes nothing: a second mail is a second mail."""

    mails: list[str] = field(default_factory=list)

    @property
    def x(self) -> int:
        return len(self.mails)

    def send(self, claim: Claim, *, by: Worker) -> Refusal | Recorded:
        """Prepare, accept, send only after ACCEPTED, report; the first refusal ends it."""
        prepared = prepare(claim, by=by)
        if isinstance(prepared, Refusal):
            return prepared
        accepted = accept_effect(
            effect_id=prepared.effect.effect_id,
            fence=claim.fence,
            payload_digest=prepared.effect.payload_digest,
            worker=by,
            request=RequestKey(f"{by.name}", uuid7().hex, "accept"),
        )
        if not isinstance(accepted, Accepted):
            return accepted
        self.mails.append(accepted.idempotency_key)
        return report_effect(
            effect_id=prepared.effect.effect_id,
            fence=claim.fence,
            report=Report(
                accepted.dispatch_id, DispatchOutcome.COMMITTED, receipt={"mail": self.x}
            ),
            worker=by,
        )


def prepare(claim: Claim, *, by: Worker, payload: Any = None) -> Prepared | Refusal:
    return prepare_effect(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        slot="mail",
        downstream="mail",
        payload=MAIL if payload is None else payload,
        worker=by,
    )
