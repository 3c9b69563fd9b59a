"""The bump of an incident: by whom, of what, and what it takes back (contract 8, 12)."""

from typing import Any

import pytest

from coordinator.actors import Worker
from coordinator.models import Approval, Attempt, EffectSlot, Event, IncidentEffect, IncidentHold
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.selectors.incident_previews import Preview, preview_bump
from coordinator.services.incident_bumps import bump_incident
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.results import Staged, stage_result
from coordinator.services.usage import Usage
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, refused, took
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

SLOTS = {
    "condition": Guarantee.CONDITIONAL_WRITE,
    "gated": Guarantee.GATED,
    "redeemed": Guarantee.GATED,
    "asked": Guarantee.NONE,
    "plain": None,
}


def busy(by: Worker) -> dict[str, Any]:
    """Tasks that are held or wait: an effect accepted, one redeemed, one unredeemed, one asked for, one plain."""
    for guarantee in {each for each in SLOTS.values() if each}:
        ledger.register(guarantee, name=str(guarantee))
    run = world.submit(
        *(
            node(name, kind=name, slots={ledger.SLOT: str(guarantee)} if guarantee else {})
            for name, guarantee in SLOTS.items()
        )
    )
    claims = {name: world.claim_one(by=by, of=world.task_id(run, name)) for name in SLOTS}
    for name, wanted in SLOTS.items():
        if wanted is None:
            continue
        prepared = ledger.try_prepare(claims[name], by=by, downstream=str(wanted))
        assert not isinstance(prepared, Refusal)
        answer = ledger.try_accept(prepared.effect, claims[name].fence, by=by)
        if name == "redeemed":
            assert not isinstance(answer, Refusal)
            ledger.redeem(prepared.effect, answer)
    world.stage(claims["plain"], by=by)
    renew_leases(
        items=[
            Renewal(claim.fence.attempt_id, claim.fence, claim.owner, usage=Usage(10, 5, 1.5, 0.25))
            for name, claim in claims.items()
            if name != "asked"
        ],
        worker=by,
    )
    return claims


def preview(incident: Any) -> Preview:
    told = preview_bump(incident)
    assert told is not None
    return told


def test_the_bump_does_what_the_preview_told(by: Worker) -> None:
    claims = busy(by)
    incident = rollback.opened()
    with nothing_moves():
        told = preview(incident)
    held = {claims[name].fence.attempt_id for name in SLOTS if name != "asked"}
    assert (told.epochs, told.confirm, told.version) == ({"q": 1}, "q", 1)
    assert told.revoked == 4
    assert {claim.attempt_id for claim in told.claims} == held
    assert {(effect.node_id, effect.state, effect.becomes) for effect in told.effects} == {
        ("condition", "ACCEPTED", "UNKNOWN"),
        ("gated", "ACCEPTED", "PREPARED"),
        ("redeemed", "ACCEPTED", "UNKNOWN"),
    }
    assert (told.effects_unknown, told.effects_closed, told.approvals_void) == (2, 1, 1)
    assert [approval.node_id for approval in told.approvals] == ["asked"]
    assert told.staged_results == 1
    cost = told.cost
    assert (cost.attempts, cost.input_tokens, cost.output_tokens) == (4, 40, 20)
    assert (cost.compute_seconds, cost.cost_usd) == (6.0, 1.0)

    receipt = took(rollback.bump(incident))
    assert (receipt.revoked, receipt.unknown_effects) == (4, 2)
    assert (receipt.voided_approvals, receipt.pending_results) == (1, 1)
    ended = Attempt.objects.filter(end_reason="EPOCH_BUMP")
    assert set(ended.values_list("attempt_id", "state")) == {(each, "EXPIRED") for each in held}
    for change in told.effects:
        assert EffectSlot.objects.get(effect_id=change.effect_id).state == change.becomes
    assert Approval.objects.get().state == "VOID"
    assert set(IncidentHold.objects.values_list("attempt_id", flat=True)) == held
    assert dict(IncidentEffect.objects.values_list("effect__node_id", "state")) == {
        "condition": "UNKNOWN", "redeemed": "UNKNOWN", "gated": "PREPARED",
    }  # fmt: skip
    assert preview_bump(incident) is None


def test_everything_of_the_old_epoch_is_refused_from_its_return_on(by: Worker) -> None:
    claims = busy(by)
    incident = rollback.bumped()
    old = claims["plain"]
    with nothing_moves():
        (renewed,) = renew_leases(
            items=[Renewal(old.fence.attempt_id, old.fence, old.owner)], worker=by
        )
        answers: list[object] = [renewed, world.try_commit(old, by=by)]
        effect = EffectSlot.objects.get(node_id="gated")
        answers.append(ledger.try_prepare(claims["gated"], by=by, downstream=str(Guarantee.GATED)))
        for answer in answers:
            told = refused(answer, Outcome.FENCED)
            assert told.reason is Reason.STALE_EPOCH
        assert effect.state == "PREPARED"
    staged = stage_result(
        attempt_id=old.fence.attempt_id, fence=old.fence, result={"late": True}, worker=by
    )
    assert isinstance(staged, Staged)
    assert not staged.canonical_candidate
    assert rollback.gate(incident).pending_results == 1  # what a zombie stages does not count


def test_a_late_receipt_of_the_old_epoch_is_kept_and_closes_the_gate_again(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    incident = rollback.bumped()
    rollback.run_out(incident)
    assert rollback.record(incident).state == "DRAINED"
    told = ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    assert refused(told, Outcome.FENCED).evidence_recorded
    assert (rollback.record(incident).state, rollback.gate(incident).unknown_effects) == (
        "BUMPED",
        1,
    )
    with nothing_moves():
        refused(rollback.switch(incident), Outcome.NOT_DRAINED)


# --- by whom --------------------------------------------------------------------------------------


def test_the_opener_alone_types_a_reason_and_an_alarm_is_raised(by: Worker) -> None:
    incident = rollback.opened()
    with nothing_moves():
        for words in ("", "  ", "no"):
            told = refused(
                rollback.bump(incident, actor=OLGA, reason=words), Outcome.INVALID, "/reason"
            )
            assert told.evidence_recorded
    (event,) = Event.objects.filter(kind="REFUSED")
    assert (event.actor, event.repeats) == ("operator:olga", 2)
    receipt = took(rollback.bump(incident, actor=OLGA, reason="nobody else is awake"))
    assert (receipt.alone, receipt.reason) == (True, "nobody else is awake")
    (alarm,) = Event.objects.filter(kind="ALARM")
    assert (alarm.data["alarm"], alarm.data["reason"]) == ("LONE_BUMP", "nobody else is awake")
    assert alarm.data["incident_id"] == str(incident)


def test_a_second_person_needs_no_reason_and_raises_no_alarm(by: Worker) -> None:
    incident = rollback.opened()
    took(rollback.bump(incident, actor=OTTO))
    assert not Event.objects.filter(kind="ALARM").exists()
    event = Event.objects.get(kind="EPOCH_BUMPED")
    assert (event.actor, event.data["reason"]) == ("operator:otto", "bad deploy")
    assert event.data["incident_id"] == str(incident)


# --- of what --------------------------------------------------------------------------------------


@pytest.mark.parametrize("confirm", ["", "Q", "q ", "q, q", "all queues", "x" * 300])
def test_the_name_must_be_typed_out(by: Worker, confirm: str) -> None:
    incident = rollback.opened()
    with nothing_moves():
        told = refused(rollback.bump(incident, confirm=confirm), Outcome.INVALID, "/confirm")
    assert told.evidence_recorded
    event = Event.objects.get(kind="REFUSED")
    assert (event.actor, set(event.data["errors"])) == ("operator:otto", {"/confirm"})


@pytest.mark.parametrize("confirm", ["q", "b, a, q", "a,b,q", "all queues"])
def test_several_names_are_typed_in_their_order(by: Worker, confirm: str) -> None:
    for name in ("b", "a"):
        world.queue(name=name)
    incident = rollback.opened(queues=("q", "b", "a"))
    with nothing_moves():
        refused(rollback.bump(incident, confirm=confirm), Outcome.INVALID, "/confirm")
    took(rollback.bump(incident, confirm="a, b, q"))


def test_an_incident_over_all_is_confirmed_as_all(by: Worker) -> None:
    incident = rollback.opened(queues=None)
    with nothing_moves():
        refused(rollback.bump(incident, confirm="q"), Outcome.INVALID, "/confirm")
    took(rollback.bump(incident, confirm="all queues"))


@pytest.mark.parametrize("expected", [0, 2, 7])
def test_a_stale_expected_epoch_is_refused(by: Worker, expected: int) -> None:
    world.submit()
    world.claim_one(by=by)
    incident = rollback.opened()
    with nothing_moves():
        told = refused(
            rollback.bump(incident, expected_epoch=expected), Outcome.STATE_VERSION_MISMATCH
        )
        assert told.extra["epochs"] == {"q": 1}
    assert Event.objects.filter(kind="REFUSED", data__point="incident.bump").count() == 1
    took(rollback.bump(incident, expected_epoch=1))
    with nothing_moves():
        assert took(rollback.bump(incident, expected_epoch=1)).replayed
        refused(rollback.bump(incident, expected_epoch=2), Outcome.STATE_VERSION_MISMATCH)


def test_each_queue_of_several_is_bumped_from_the_epoch_that_was_seen(by: Worker) -> None:
    world.queue(name="old", scheduler_epoch=7)
    incident = rollback.opened(queues=("q", "old"))
    with nothing_moves():
        refused(rollback.bump(incident, expected_epoch=1), Outcome.INVALID, "/expected_epoch")
        for wrong in ({"q": 1}, {"q": 1, "old": 7, "other": 1}):
            told = bump_incident(
                incident_id=incident, expected_epoch=wrong, confirm="old, q", actor=OTTO
            )
            refused(told, Outcome.INVALID, "/expected_epochs")
        told = rollback.bump(incident, expected_epoch={"q": 1, "old": 6})
        assert refused(told, Outcome.STATE_VERSION_MISMATCH).extra["epochs"] == {"old": 7}
    receipt = took(rollback.bump(incident))
    assert {each.name: each.scheduler_epoch for each in receipt.queues} == {"old": 8, "q": 2}


def test_one_queue_of_two_leaves_the_other_alone(by: Worker) -> None:
    world.queue(name="other")
    elsewhere = world.worker(name="fleet-2", queues=("other",))
    world.submit(queue_name="other")
    kept = world.claim_one(by=elsewhere, queue_name="other")
    rollback.bumped()
    assert world.epoch("other") == 1
    world.commit(kept, by=elsewhere)
