"""The gate between the bump and the switch: leases, effects and results of the old epoch (contract 12)."""

from datetime import timedelta
from typing import Any

import pytest

from coordinator.actors import Worker
from coordinator.models import CandidateDecision, Credential, Event, IncidentHold, StagedResult
from coordinator.outcomes import Outcome
from coordinator.selectors.candidates import list_candidates
from coordinator.services.claims import claim_tasks
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, refused, took
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def counts(incident: Any) -> tuple[int, int, int]:
    gate = rollback.gate(incident)
    return gate.active_leases, gate.unknown_effects, gate.pending_results


def test_leases_count_until_they_run_out_as_they_stood_at_the_bump(by: Worker) -> None:
    world.submit(node("short"), node("long"), node("lapsed"))
    for owner, seconds in (("first", 60), ("second", 120), ("third", 60)):
        claim = world.claim_one(by=by, owner=owner, ttl_seconds=seconds)
        if owner == "third":
            world.lapse(claim.fence.task_id)
    incident = rollback.bumped()
    gate = rollback.gate(incident)
    assert (gate.active_leases, gate.open, gate.state) == (2, False, "BUMPED")
    assert [(each.kind, each.owner) for each in gate.blocking] == [
        ("lease", "second"),
        ("lease", "first"),
    ]
    assert gate.oldest_holder is not None
    assert gate.oldest_holder.owner == "first"
    longest = IncidentHold.objects.get(attempt__owner="second")
    assert gate.latest_expiry == longest.lease_expires_at
    assert IncidentHold.objects.count() == 3
    with nothing_moves():
        told = refused(rollback.switch(incident), Outcome.NOT_DRAINED)
        assert told.extra["active_leases"] == 2
        assert told.extra["latest_expiry"] == longest.lease_expires_at
    rollback.run_out(incident)
    assert counts(incident) == (0, 0, 0)
    took(rollback.switch(incident))


def test_before_the_bump_the_gate_is_closed_and_after_the_switch_it_was_passed(by: Worker) -> None:
    incident = rollback.opened()
    gate = rollback.gate(incident)
    assert (gate.open, gate.state, counts(incident)) == (False, "STOPPED", (0, 0, 0))
    took(rollback.bump(incident))
    assert (rollback.gate(incident).open, rollback.gate(incident).state) == (True, "DRAINED")
    took(rollback.switch(incident))
    assert (rollback.gate(incident).open, rollback.gate(incident).state) == (True, "SWITCHED")


@pytest.mark.parametrize("first_absent", [False, True])
def test_an_effect_that_may_be_out_keeps_the_gate_closed_until_it_is_settled(
    by: Worker, first_absent: bool
) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.CONDITIONAL_WRITE)
    ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    incident = rollback.bumped()
    rollback.run_out(incident)
    (blocker,) = rollback.gate(incident).blocking
    assert (blocker.kind, blocker.effect_id, blocker.state) == (
        "effect",
        effect.effect_id,
        "UNKNOWN",
    )
    with nothing_moves():
        assert refused(rollback.switch(incident), Outcome.NOT_DRAINED).extra["unknown_effects"] == 1
    if first_absent:  # safe to send again; but the first call may still arrive
        ledger.absent(effect, by=OTTO)
        assert ledger.state(effect) == "RESENDABLE"
        refused(rollback.switch(incident), Outcome.NOT_DRAINED)
    ledger.happened(effect, by=OTTO)
    assert counts(incident) == (0, 0, 0)
    took(rollback.switch(incident))


def test_effects_of_an_earlier_epoch_count_and_those_of_other_queues_do_not(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    ledger.redeem(effect, accepted)
    first = rollback.bumped()
    rollback.run_out(first)
    world.queue(name="other")
    world.worker(name="g", pool_name="green", queues=("other",))
    second = rollback.bumped(queues=("other",))
    assert counts(first) == (0, 1, 0)
    assert counts(second) == (0, 0, 0)
    took(rollback.switch(second))
    refused(rollback.switch(first), Outcome.NOT_DRAINED)
    assert claim.fence.scheduler_epoch == 1


# --- results --------------------------------------------------------------------------------------


def staged(by: Worker, *names: str) -> dict[str, Any]:
    run = world.submit(*(node(name) for name in names))
    claims = {name: world.claim_one(by=by, of=world.task_id(run, name)) for name in names}
    for claim in claims.values():
        world.stage(claim, by=by)
    return claims


def test_results_wait_for_a_word_and_kept_ones_stay_readable(by: Worker) -> None:
    claims = staged(by, "a", "b")
    incident = rollback.bumped()
    rollback.run_out(incident)
    assert counts(incident) == (0, 0, 2)
    kept = rollback.decide(
        incident, "KEEP", attempt_ids=[claims["a"].fence.attempt_id], reason="to compare"
    )
    assert getattr(kept, "decided", kept) == 1
    assert counts(incident) == (0, 0, 1)
    refused(rollback.switch(incident), Outcome.NOT_DRAINED)
    dropped = rollback.decide(incident, "DISCARD", reason="wrong input")
    assert getattr(dropped, "attempt_ids", dropped) == [claims["b"].fence.attempt_id]
    assert counts(incident) == (0, 0, 0)
    (shown,) = list_candidates(claims["a"].fence.task_id)
    assert (shown.decision, shown.result is not None) == ("KEEP", True)
    (hidden,) = list_candidates(claims["b"].fence.task_id)
    assert (hidden.decision, hidden.result) == ("DISCARD", None)
    assert (
        hidden.result_digest
        == StagedResult.objects.get(attempt_id=claims["b"].fence.attempt_id).result_digest
    )
    told = Event.objects.filter(kind="CANDIDATES_DECIDED").order_by("id")
    assert [(event.actor, event.data["decision"], event.data["reason"]) for event in told] == [
        ("operator:otto", "KEEP", "to compare"),
        ("operator:otto", "DISCARD", "wrong input"),
    ]
    took(rollback.switch(incident))


def test_the_same_word_again_is_the_same_receipt_and_another_is_refused(by: Worker) -> None:
    claims = staged(by, "a")
    incident = rollback.bumped()
    first = rollback.decide(incident, "KEEP")
    with nothing_moves():
        again = rollback.decide(incident, "KEEP", actor=OLGA, reason="me too", expected_version=1)
        for name in ("decided", "attempt_ids", "version", "by", "at", "reason"):
            assert getattr(again, name) == getattr(first, name)
        assert getattr(again, "replayed", None) is True
        refused(rollback.decide(incident, "DISCARD"), Outcome.ALREADY_SETTLED)
        named = [claims["a"].fence.attempt_id]
        refused(rollback.decide(incident, "DISCARD", attempt_ids=named), Outcome.ALREADY_SETTLED)
    assert CandidateDecision.objects.count() == 1


def test_a_mixed_list_with_another_word_changes_nothing(by: Worker) -> None:
    claims = staged(by, "a", "b")
    incident = rollback.bumped()
    ids = [claim.fence.attempt_id for claim in claims.values()]
    rollback.decide(incident, "KEEP", attempt_ids=ids[:1])
    with nothing_moves():
        refused(rollback.decide(incident, "DISCARD", attempt_ids=ids), Outcome.ALREADY_SETTLED)
    both = rollback.decide(incident, "KEEP", attempt_ids=ids)
    assert getattr(both, "decided", both) == 1


def test_only_revoked_attempts_are_decided_about_with_a_reason_and_a_fresh_look(by: Worker) -> None:
    stranger = world.finish(world.task_id(world.submit(), "a"), by=by)
    staged(by, "b")
    incident = rollback.bumped()
    with nothing_moves():
        unknown = [stranger.result_commit_id]
        told = rollback.decide(incident, attempt_ids=unknown)
        refused(told, Outcome.INVALID, "/attempt_ids")
        refused(rollback.decide(incident, attempt_ids=[]), Outcome.INVALID, "/attempt_ids")
        refused(rollback.decide(incident, reason=" "), Outcome.INVALID, "/reason")
        refused(rollback.decide(incident, expected_version=1), Outcome.STATE_VERSION_MISMATCH)
    rollback.decide(incident, expected_version=2)
    assert rollback.record(incident).version == 3


def test_where_nothing_was_put_aside_there_is_nothing_to_decide(by: Worker) -> None:
    incident = rollback.bumped()
    with nothing_moves():
        told = rollback.decide(incident)
        assert (getattr(told, "decided", told), getattr(told, "version", told)) == (0, 2)


# --- the switch -----------------------------------------------------------------------------------


def test_the_pool_must_exist_and_have_somebody_for_each_queue(by: Worker) -> None:
    world.pool(name="empty")
    incident = rollback.bumped()
    green = Credential.objects.get(pool_id="green")
    with nothing_moves():
        refused(rollback.switch(incident, "nowhere"), Outcome.INVALID, "/to_pool")
        refused(rollback.switch(incident, "empty"), Outcome.INVALID, "/to_pool")
    unfit: list[dict[str, Any]] = [
        {"revoked_at": green.created_at},
        {"expires_at": green.created_at - timedelta(hours=1)},
        {"queues": ["other"]},
        {"scopes": ["submit"]},
    ]
    fit = {"revoked_at": None, "expires_at": None, "queues": ["q"], "scopes": ["work"]}
    for change in unfit:
        Credential.objects.filter(pk=green.pk).update(**(fit | change))
        with nothing_moves():
            told = refused(rollback.switch(incident), Outcome.INVALID, "/to_pool")
            assert "`q`" in told.errors[0].detail
    Credential.objects.filter(pk=green.pk).update(**fit)
    took(rollback.switch(incident))


def test_a_switch_again_to_another_pool_is_told_where_it_went(by: Worker) -> None:
    incident = rollback.bumped()
    took(rollback.switch(incident))
    with nothing_moves():
        assert took(rollback.switch(incident)).replayed
        told = refused(rollback.switch(incident, "blue"), Outcome.ALREADY_SETTLED)
        assert told.extra == {"to_pool": "green"}


def test_the_old_pool_gets_nothing_after_the_switch_and_neither_does_an_old_binary(
    by: Worker,
) -> None:
    world.pool(name="newer", min_contract="claim.v2")
    world.submit()
    newer = world.worker(name="newer", pool_name="newer")
    incident = rollback.bumped()
    took(rollback.switch(incident, "newer"))
    took(rollback.resume(incident))
    with nothing_moves():
        for worker in (by, newer):  # another pool's, and one whose contract is below the minimum
            told = claim_tasks(queue="q", worker=worker, scheduler_epoch=2, owner="me")
            refused(told, Outcome.WRONG_POOL)
    claimed = claim_tasks(
        queue="q", worker=_of_contract(newer, "claim.v2"), scheduler_epoch=2, owner="me"
    )
    assert len(getattr(claimed, "claims", [])) == 1


def _of_contract(worker: Worker, contract: str) -> Worker:
    return Worker(
        worker.kind,
        worker.name,
        worker.id,
        pool=worker.pool,
        queues=worker.queues,
        scopes=worker.scopes,
        contract=contract,
    )
