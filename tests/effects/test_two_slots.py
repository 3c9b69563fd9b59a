"""A task with two effects: one may be out while a person is asked about the other (contract 7, 9)."""

from typing import Any

import pytest

from coordinator.actors import Worker, system
from coordinator.models import Approval
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.approvals import approve, expire_approvals, reject
from coordinator.services.cancels import cancel_task
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared
from coordinator.services.epochs import Bumped, bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import Settled
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.cases.moving_clock import advance
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

LONG = 30 * 86_400


def bound(claim: Claim, slot: str, *, by: Worker) -> EffectView:
    answer = ledger.try_prepare(claim, by=by, slot=slot, downstream=slot)
    assert isinstance(answer, Prepared), answer
    return answer.effect


def one_out_and_one_asked(by: Worker) -> tuple[Claim, EffectView, Approval]:
    """`mail` was sent, and nobody knows what came of it; then the same attempt asks for `fax`, and is parked."""
    for name in ("mail", "fax"):
        ledger.register(Guarantee.NONE, name=name)
    world.submit(world.node("T", slots={"mail": "mail", "fax": "fax"}))
    claim = world.claim_one(by=by)
    mail = bound(claim, "mail", by=by)
    ledger.say_yes(ledger.approval(ledger.try_accept(mail, claim.fence, by=by)))
    claim = world.claim_one(by=by)
    accepted = ledger.accept(mail, claim.fence, by=by)
    ledger.report(mail, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    fax = bound(claim, "fax", by=by)
    return claim, mail, ledger.approval(ledger.try_accept(fax, claim.fence, by=by))


def state(claim: Claim) -> str:
    return world.task(claim.fence.task_id).state


def decide(asked: Approval, *, yes: bool) -> Any:
    told: dict[str, Any] = {"payload_digest": asked.payload_digest}
    told |= {"actor": ledger.person("paula")}
    if yes:
        return approve(approval_id=asked.approval_id, **told)
    return reject(approval_id=asked.approval_id, reason="not that", **told)


@pytest.mark.parametrize("how", ["approved", "expired", "bumped"])
def test_whatever_ends_the_waiting_what_may_be_out_keeps_the_task_from_workers(
    by: Worker, how: str
) -> None:
    claim, mail, asked = one_out_and_one_asked(by)
    if how == "approved":
        assert not isinstance(decide(asked, yes=True), Refusal)
    elif how == "expired":
        advance(LONG)
        assert expire_approvals(actor=system("approvals")) == 1
    else:
        bumped = bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=world.operator())
        assert isinstance(bumped, Bumped), bumped
    assert state(claim) == "AWAITING_RECONCILIATION"
    assert world.claim(by=by) == []
    assert ledger.happened(mail, by=ledger.person("olga")) == Settled("COMMITTED")
    assert state(claim) == "READY"
    second = world.claim_one(by=by)
    (fax,) = (each for each in second.effects if each.slot == "fax")
    answer = ledger.try_accept(fax, second.fence, by=by)
    if how == "approved":
        assert not isinstance(answer, Refusal), answer
    else:
        assert ledger.approval(answer).approval_id != asked.approval_id


def test_settled_while_somebody_decides_the_task_waits_for_the_decision_alone(by: Worker) -> None:
    claim, mail, asked = one_out_and_one_asked(by)
    assert ledger.happened(mail, by=ledger.person("olga")) == Settled("COMMITTED")
    assert state(claim) == "AWAITING_APPROVAL"
    decide(asked, yes=True)
    assert state(claim) == "READY"


def test_rejected_the_task_fails_and_what_may_be_out_stays_to_be_settled(by: Worker) -> None:
    claim, mail, asked = one_out_and_one_asked(by)
    decide(asked, yes=False)
    assert ledger.state(mail) == "UNKNOWN"
    assert (state(claim), world.task(claim.fence.task_id).serial_held) == ("FAILED", True)
    assert ledger.happened(mail, by=ledger.person("olga")) == Settled("COMMITTED")
    assert (state(claim), world.task(claim.fence.task_id).serial_held) == ("FAILED", False)


def test_a_cancelled_task_keeps_its_key_until_what_may_be_out_is_settled(by: Worker) -> None:
    claim, mail, _ = one_out_and_one_asked(by)
    cancel_task(task_id=claim.fence.task_id, reason="enough", actor=world.operator())
    world.submit(world.node("mate", slots={"mail": "mail"}), name="mates")
    assert (state(claim), world.claim(by=by)) == ("CANCELLED", [])
    assert ledger.happened(mail, by=ledger.person("olga")) == Settled("COMMITTED")
    assert len(world.claim(by=by)) == 1


def test_a_late_receipt_while_somebody_decides_is_settled_before_anything_is_sent(
    by: Worker,
) -> None:
    """The first sender was taken for dead by a person's word; then its receipt turned up."""
    claim, effect = ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)
    first, accepted = claim, ledger.newest(effect)
    world.lapse(claim.fence.task_id)
    world.claim(by=by)
    ledger.pass_time(effect, seconds=91)
    assert ledger.asserted(effect, by=ledger.person("olga")) == Settled("PREPARED")
    second = world.claim_one(by=by)
    asked = ledger.approval(ledger.try_accept(effect, second.fence, by=by))
    late = ledger.report(effect, first, accepted, DispatchOutcome.COMMITTED, by=by)
    assert isinstance(late, Refusal)
    assert late.outcome is Outcome.FENCED
    assert ledger.state(effect) == "UNKNOWN"
    decide(asked, yes=True)
    assert state(claim) == "AWAITING_RECONCILIATION"
    assert ledger.happened(effect, by=ledger.person("olga")) == Settled("COMMITTED")
    world.commit(world.claim_one(by=by), by=by)
