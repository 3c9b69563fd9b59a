"""NON_REPLAYABLE tasks at one downstream: one call out at a time, and late receipts all the same (contract 8, 16)."""

import pytest

from coordinator.actors import Worker, system
from coordinator.models import Evidence
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.approvals import expire_approvals
from coordinator.services.claims import claim_task
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared
from coordinator.services.endings import Released, release_attempt
from coordinator.services.epochs import Bumped, bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import Settled
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.cases.moving_clock import advance
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def taken_for_dead(by: Worker) -> tuple[Claim, EffectView, Accepted]:
    """A sender that a person has given their word about: its effect is PREPARED again, its task READY."""
    claim, effect = ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)
    accepted = ledger.newest(effect)
    world.lapse(claim.fence.task_id)
    assert world.claim(by=by) == []
    ledger.pass_time(effect, seconds=91)
    assert ledger.asserted(effect, by=ledger.person("olga")) == Settled("PREPARED")
    assert world.task(claim.fence.task_id).state == "READY"
    return claim, effect, accepted


def approved(name: str, *, by: Worker) -> tuple[Claim, EffectView]:
    """Another task at the same downstream, of another kind, with a grant."""
    run = world.submit(world.node(name, slots={ledger.SLOT: "there"}, kind=name), name=name)
    claim = world.claim_one(by=by, of=world.task_id(run, name))
    effect = ledger.prepare(claim, by=by)
    ledger.say_yes(ledger.approval(ledger.try_accept(effect, claim.fence, by=by)))
    return world.claim_one(by=by, of=claim.fence.task_id), effect


def test_while_one_may_be_out_another_is_busy_and_goes_out_afterwards(by: Worker) -> None:
    _, first = ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)
    run = world.submit(world.node("U", slots={ledger.SLOT: "there"}, kind="other"), name="other")
    claim = world.claim_one(by=by, of=world.task_id(run, "U"))
    effect = ledger.prepare(claim, by=by)
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.SERIAL_BUSY
    assert ledger.happened(first, by=ledger.person("olga")) == Settled("COMMITTED")
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.APPROVAL_REQUIRED


def test_a_late_receipt_is_taken_while_another_call_is_out_and_stops_the_next(by: Worker) -> None:
    dead, effect, accepted = taken_for_dead(by)
    claim, other = approved("U", by=by)
    dispatch = ledger.accept(other, claim.fence, by=by)
    late = ledger.report(effect, dead, accepted, DispatchOutcome.COMMITTED, by=by)
    assert refused(late) is Outcome.FENCED
    assert Evidence.objects.filter(effect_id=effect.effect_id, late=True).count() == 1
    assert (ledger.state(effect), ledger.slot(effect).happened_on_file) == ("UNKNOWN", True)
    ledger.report(other, claim, dispatch, DispatchOutcome.COMMITTED, by=by)
    world.commit(claim, by=by)
    run = world.submit(world.node("V", slots={ledger.SLOT: "there"}, kind="V"), name="V")
    third = world.claim_one(by=by, of=world.task_id(run, "V"))
    last = ledger.prepare(third, by=by)
    assert refused(ledger.try_accept(last, third.fence, by=by)) is Outcome.SERIAL_BUSY
    assert ledger.happened(effect, by=ledger.person("olga")) == Settled("COMMITTED")
    assert refused(ledger.try_accept(last, third.fence, by=by)) is Outcome.APPROVAL_REQUIRED


@pytest.mark.parametrize("by_id", [False, True])
def test_a_ready_task_with_a_late_receipt_is_not_granted_but_held_for_a_person(
    by: Worker, by_id: bool
) -> None:
    dead, effect, accepted = taken_for_dead(by)
    ledger.report(effect, dead, accepted, DispatchOutcome.COMMITTED, by=by)
    of = dead.fence.task_id
    if by_id:
        answer = claim_task(
            task_id=of,
            expected_state_version=world.task(of).state_version,
            scheduler_epoch=1,
            owner="second",
            ttl_seconds=60,
            worker=by,
        )
        assert refused(answer) is Outcome.NOT_CLAIMABLE
    else:
        assert world.claim(by=by) == []
    assert world.task(of).state == "AWAITING_RECONCILIATION"
    assert ledger.happened(effect, by=ledger.person("olga")) == Settled("COMMITTED")
    world.commit(world.claim_one(by=by), by=by)


def test_a_mate_waits_while_the_lapsed_holder_has_a_call_that_may_be_out(by: Worker) -> None:
    """Tasks of one kind share a key: recycling the holder keeps it, as long as a person must settle its effect."""
    claim, effect = ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)
    mate = world.task_id(
        world.submit(world.node("mate", slots={ledger.SLOT: "there"}), name="mates"), "mate"
    )
    assert world.task(mate).serial_scope_id == world.task(claim.fence.task_id).serial_scope_id
    assert world.claim(by=by, limit=10) == []
    world.lapse(claim.fence.task_id)
    for _ in range(2):
        assert world.claim(by=by, limit=10) == []
    holder = world.task(claim.fence.task_id)
    assert (holder.state, holder.serial_held) == ("AWAITING_RECONCILIATION", True)
    assert world.task(mate).state == "READY"
    ledger.happened(effect, by=ledger.person("olga"))
    (second,) = world.claim(by=by, limit=10)  # one of the two, and the other one after it
    world.commit(second, by=by)
    (third,) = world.claim(by=by, limit=10)
    assert {second.fence.task_id, third.fence.task_id} == {mate, claim.fence.task_id}
    world.commit(third, by=by)


def test_waiting_for_a_decision_does_not_hold_the_key(by: Worker) -> None:
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    effect = ledger.prepare(claim, by=by)
    mate = world.task_id(
        world.submit(world.node("mate", slots={ledger.SLOT: "there"}), name="mates"), "mate"
    )
    assert world.claim(by=by, limit=10) == []
    ledger.approval(ledger.try_accept(effect, claim.fence, by=by))
    (granted,) = world.claim(by=by, limit=10)
    assert granted.fence.task_id == mate


@pytest.mark.parametrize("how", ["approved", "expired", "bumped", "settled"])
def test_a_late_receipt_takes_no_key_from_a_mate_that_holds_it_by_now(by: Worker, how: str) -> None:
    """While somebody decides on the next dispatch the key is free; the receipt of the first turns up after that."""
    dead, effect, accepted = taken_for_dead(by)
    second = world.claim_one(by=by)
    asked = ledger.approval(ledger.try_accept(effect, second.fence, by=by))
    world.submit(world.node("mate", slots={ledger.SLOT: "there"}), name="mates")
    mate = world.claim_one(by=by)
    ledger.report(effect, dead, accepted, DispatchOutcome.COMMITTED, by=by)
    of = dead.fence.task_id
    if how == "expired":
        advance(30 * 86_400)
        assert expire_approvals(actor=system("approvals")) == 1
    elif how == "bumped":
        bumped = bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=world.operator())
        assert isinstance(bumped, Bumped), bumped
    else:
        ledger.say_yes(asked)
    assert world.task(of).state == "AWAITING_RECONCILIATION"
    assert world.task(mate.fence.task_id).serial_held == (how != "bumped")
    if how == "settled":
        assert ledger.happened(effect, by=ledger.person("olga")) == Settled("COMMITTED")
        assert world.task(of).state == "READY"
    if how != "bumped":
        world.commit(mate, by=by)


def test_who_keeps_its_own_key_is_granted_again_before_any_mate(by: Worker) -> None:
    """A worker can settle what is out: the released task is READY, keeps its key, and is the only one to get it."""
    ledger.register(Guarantee.NONE)
    ledger.register(Guarantee.IDEMPOTENT_KEY, name="keyed")
    slots = {ledger.SLOT: "there", "other": "keyed"}
    world.submit(world.node("T", slots=slots), world.node("mate", slots={ledger.SLOT: "there"}))
    claim = next(iter(world.claim(by=by)))
    if claim.node_id == "mate":
        world.commit(claim, by=by)
        claim = world.claim_one(by=by)
    bound = ledger.try_prepare(claim, by=by, slot="other", downstream="keyed")
    assert isinstance(bound, Prepared)
    ledger.say_yes(ledger.approval(ledger.try_accept(bound.effect, claim.fence, by=by)))
    claim = world.claim_one(by=by, of=claim.fence.task_id)
    dispatch = ledger.accept(bound.effect, claim.fence, by=by)
    ledger.report(bound.effect, claim, dispatch, DispatchOutcome.UNKNOWN, by=by)
    released = release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
    assert isinstance(released, Released)
    task = world.task(claim.fence.task_id)
    assert (task.state, task.serial_held) == ("READY", True)
    (again,) = world.claim(by=by, limit=10)
    assert again.fence.task_id == claim.fence.task_id
    assert ledger.happened(bound.effect, by=by, fence=again.fence) == Settled("COMMITTED")
    world.commit(again, by=by)
