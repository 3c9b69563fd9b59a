"""A desk full of decisions for the console: payloads to approve, and effects whose outcome nobody knows.

Made by the services, like the scene beside it; only instants are moved afterwards.
"""

from dataclasses import dataclass
from typing import Any, ClassVar
from uuid import UUID

from coordinator.actors import Worker
from coordinator.models import Approval
from coordinator.outcomes import Refusal
from coordinator.services.approvals import reject
from coordinator.services.effect_rows import EffectView
from coordinator.services.endings import release_attempt
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import DispatchOutcome, Guarantee
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Happened,
    Present,
    Sent,
    Unknown,
)
from tenure.downstreams.base import Guarantee as SdkGuarantee
from tests import world
from tests.console.scene import any_time
from tests.effects import ledger

QUEUE = "payments"
INVOICE = {
    "amount": "1240.00",
    "currency": "EUR",
    "to": "billing@acme.example",
    "summary": "Refund of invoice 2026-1184, agreed with the customer on the phone",
    "reference": "2026-1184",
    "lines": [{"text": "Seats, October", "amount": "1240.00"}],
}


@dataclass(frozen=True, slots=True)
class Desk:
    """Approvals by what they are for; effects by their ids."""

    fleet: Worker
    refund: UUID  # one approver, an hour of the day left
    transfer: UUID  # two approvers
    newsletter: UUID  # its run was submitted by `olga`
    large: UUID  # a payload of 100 KB
    superseded: UUID
    successor: UUID
    expired: UUID
    rejected: UUID
    mail: str  # UNKNOWN under a key that is still remembered: can be sealed for a re-send
    ticket: str  # UNKNOWN where late calls are refused, and none can arrive any more
    early: str  # the same, but a call may still arrive
    fax: (
        str  # UNKNOWN where absence can never be sealed; its attempt has ended, its time has passed
    )
    settled: str  # COMMITTED


def parked(
    name: str,
    payload: Any,
    *,
    by: Worker,
    downstream: str = "acme-pay",
    actor: str = "alice",
    slot: str = "send",
) -> Approval:
    """A NON_REPLAYABLE task that waits while a person decides."""
    run = world.submit(
        world.node(name, kind=name, slots={slot: downstream}),
        queue_name=QUEUE,
        name=f"{name.capitalize()} run",
        actor=world.operator(name=actor),
    )
    return ask(world.task_id(run, name), payload, by=by, downstream=downstream, slot=slot)


def ask(
    task_id: UUID, payload: Any, *, by: Worker, downstream: str = "acme-pay", slot: str = "send"
) -> Approval:
    """Claim the task, bind the payload, and ask to send it."""
    claim = world.claim_one(by=by, of=task_id, queue_name=QUEUE, owner="payer-1@build-03")
    prepared = ledger.try_prepare(claim, by=by, payload=payload, slot=slot, downstream=downstream)
    effect: EffectView = prepared.effect  # type: ignore[union-attr]
    return ledger.approval(ledger.try_accept(effect, claim.fence, by=by))


def expire(approval: Approval) -> None:
    """Let its time have passed; nobody has swept it yet."""
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_approval SET requested_at = requested_at - interval '2 days',"
            " expires_at = clock_timestamp() - interval '1 minute' WHERE approval_id = %s",
            [approval.approval_id],
        )


def shorten(approval: Approval, *, minutes: int) -> None:
    """Let so many minutes be left of it."""
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_approval SET requested_at = clock_timestamp() - interval '23 hours',"
            " expires_at = clock_timestamp() + make_interval(mins => %s) WHERE approval_id = %s",
            [minutes, approval.approval_id],
        )


def revise(task_id: UUID) -> UUID:
    answer = revise_task(
        task_id=task_id,
        expected_state_version=world.task(task_id).state_version,
        input={"again": True},
        reason="The amount was wrong.",
        actor=world.operator(),
        request=ledger.key(),
    )
    assert isinstance(answer, Revised), answer
    return answer.task_id


def furnish() -> None:
    """The queue and its downstreams."""
    world.queue(name=QUEUE)
    ledger.register(Guarantee.NONE, name="acme-pay")
    ledger.register(Guarantee.NONE, name="acme-bank", required_approvers=2)


def compose_desk() -> Desk:
    furnish()
    fleet = world.worker(name="payments-fleet", queues=(QUEUE,))
    paid = parked("refund", {**INVOICE, "amount": "980.00"}, by=fleet)
    ledger.say_yes(paid, who="paula")
    task_id = paid.effect.task_id
    again = world.claim_one(by=fleet, of=task_id, queue_name=QUEUE, owner="payer-1@build-03")
    accepted = ledger.try_accept(_view(paid), again.fence, by=fleet)
    ledger.report(_view(paid), again, accepted, DispatchOutcome.COMMITTED, by=fleet)  # type: ignore[arg-type]
    world.commit(again, by=fleet)
    refund = parked("refund", INVOICE, by=fleet)
    shorten(refund, minutes=11)
    transfer = parked(
        "transfer", {**INVOICE, "amount": "250000.00", "to": "DE89 3704 0044"}, by=fleet,
        downstream="acme-bank",
    )  # fmt: skip
    shorten(transfer, minutes=340)
    newsletter = parked(
        "newsletter",
        {"recipients": [f"reader-{n}@example.org" for n in range(40)], "subject": "Your invoices"},
        by=fleet,
        actor="olga",
    )
    large = parked("export", {"rows": [f"row {n:05} " + "x" * 90 for n in range(1_000)]}, by=fleet)
    old = parked("credit", {**INVOICE, "amount": "124.00"}, by=fleet)
    successor = ask(revise(old.effect.task_id), {**INVOICE, "amount": "1240.00"}, by=fleet)
    expired = parked("reminder", {"to": "late@example.org", "text": "Please pay."}, by=fleet)
    expire(expired)
    rejected = parked("gift", {**INVOICE, "amount": "9999.00"}, by=fleet)
    reject(
        approval_id=rejected.approval_id,
        payload_digest=rejected.payload_digest,
        reason="Nobody agreed to a gift of this size.",
        actor=ledger.person("quentin"),
    )
    return Desk(
        fleet=fleet,
        refund=refund.approval_id,
        transfer=transfer.approval_id,
        newsletter=newsletter.approval_id,
        large=large.approval_id,
        superseded=old.approval_id,
        successor=successor.approval_id,
        expired=expired.approval_id,
        rejected=rejected.approval_id,
        mail=unknown(Guarantee.IDEMPOTENT_KEY, "mailer", by=fleet, seconds=400),
        ticket=unknown(Guarantee.QUERY_ONLY, "tickets", by=fleet, seconds=4_000, refuses_late=True),
        early=unknown(Guarantee.QUERY_ONLY, "crm", by=fleet, seconds=40, refuses_late=True),
        fax=unknown(Guarantee.NONE, "fax", by=fleet, seconds=90_000),
        settled=paid.effect.effect_id,
    )


def unknown(guarantee: Guarantee, name: str, *, by: Worker, seconds: float, **fields: Any) -> str:
    """An effect of a task that nobody holds: sent so many seconds ago, and never heard of since."""
    ledger.register(guarantee, name=name, **fields)
    run = world.submit(
        world.node(f"notify {name}", kind=name, slots={"send": name}),
        queue_name=QUEUE,
        name=f"{name.capitalize()} run",
    )
    task_id = world.task_id(run, f"notify {name}")
    payload = {"to": f"someone@{name}.example", "amount": 75, "currency": "EUR"}
    claim = world.claim_one(by=by, of=task_id, queue_name=QUEUE, owner="mailer-2@build-04")
    prepared = ledger.try_prepare(claim, by=by, payload=payload, slot="send", downstream=name)
    effect: EffectView = prepared.effect  # type: ignore[union-attr]
    answer = ledger.try_accept(effect, claim.fence, by=by)
    if isinstance(answer, Refusal):  # a person decides first
        ledger.say_yes(ledger.approval(answer), who="paula")
        claim = world.claim_one(by=by, of=task_id, queue_name=QUEUE, owner="mailer-2@build-04")
        answer = ledger.accept(effect, claim.fence, by=by)
    ledger.report(effect, claim, answer, DispatchOutcome.UNKNOWN, by=by)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
    ledger.pass_time(effect, seconds=seconds)
    return effect.effect_id


class Register(Adapter):
    """A downstream in this process: what it holds is told by the exact effect_id."""

    kind: ClassVar[str] = "register"
    limits: ClassVar[str] = "It lives as long as this process."

    def __init__(self) -> None:
        super().__init__(SdkGuarantee.QUERY_ONLY)
        self.held: dict[str, Any] = {}
        self.is_up = True

    def send(self, call: Call) -> Sent:
        return Unknown(detail=f"{call.effect_id} is not sent here")

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        assert deadline > 0
        if not self.is_up:
            return DontKnow(detail="it is down")
        held = self.held.get(effect.effect_id)
        return Happened(receipt=held) if held else Absent(detail="no such message")


class Ledger(Register):
    """It can't be asked whether something happened; what it has now, it tells."""

    can_be_asked = False
    can_present = True

    def present(self, effect: Bound, *, deadline: float) -> Present:
        assert deadline > 0
        there = {**effect.payload, "amount": "0.00"}
        return Present(there=there, instead=effect.payload, facts={"page": 7})


#: What TENURE_ADAPTERS may name.
ADAPTERS: dict[str, Register] = {
    **{name: Register() for name in ("mailer", "tickets", "crm")},
    "acme-pay": Ledger(),
}


def _view(approval: Approval) -> Any:
    return approval.effect
