"""Two operators at once: one step is taken once, whoever asks, and both are told the same (contract 12)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from coordinator.actors import Worker
from coordinator.models import Event, Incident, IncidentStep, Queue
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.claims import claim_tasks
from coordinator.services.incident_candidates import CandidatesDecided
from coordinator.services.incident_hearings import StepTaken
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, person, took
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

CROWD = [OLGA, OTTO, person("paula"), person("paul")]


def replays(answers: list[Any]) -> list[bool]:
    assert all(isinstance(each, StepTaken | CandidatesDecided) for each in answers), answers
    return sorted(each.replayed for each in answers)


def test_of_many_who_open_at_once_one_does(by: Worker) -> None:
    for name in ("a", "b"):
        world.queue(name=name)
    scopes = [("q",), ("a", "q"), ("q", "b"), None]
    answers = at_once(
        *(
            partial(rollback.open_, queues=scope, actor=who)
            for scope, who in zip(scopes, CROWD, strict=True)
        )
    )
    assert sum(isinstance(each, StepTaken) for each in answers) == 1
    for each in answers:
        if isinstance(each, Refusal):
            assert each.outcome is Outcome.INCIDENT_OPEN
    assert Incident.objects.count() == 1


def test_a_bump_that_two_ask_for_at_once_is_one_bump(by: Worker) -> None:
    world.submit(node("a"), node("b"))
    world.claim(by=by, limit=2)
    incident = rollback.opened()
    asked: list[Callable[[], Any]] = [
        partial(rollback.bump, incident, actor=who, expected_epoch=1, reason="at once")
        for who in CROWD
    ]
    answers = at_once(*asked)
    assert replays(answers) == [False, True, True, True]
    assert len({(each.by, each.at, each.revoked, each.version) for each in answers}) == 1
    assert world.epoch() == 2
    assert Event.objects.filter(kind="EPOCH_BUMPED").count() == 1
    assert IncidentStep.objects.filter(step="BUMPED").count() == 1


def test_a_bump_and_a_call_off_at_once_are_one_of_the_two(by: Worker) -> None:
    for _ in range(5):
        incident = rollback.opened()
        epoch = world.epoch()
        bumped, aborted = at_once(
            partial(rollback.bump, incident), partial(rollback.abort, incident)
        )
        assert isinstance(bumped, StepTaken) != isinstance(aborted, StepTaken)
        loser = aborted if isinstance(bumped, StepTaken) else bumped
        assert isinstance(loser, Refusal)
        assert loser.outcome is Outcome.WRONG_STEP
        assert world.epoch() == epoch + isinstance(bumped, StepTaken)
        if isinstance(bumped, StepTaken):
            took(rollback.switch(incident, "green"))
            took(rollback.resume(incident))
            Queue.objects.update(active_pool="blue")


def test_switches_to_two_pools_at_once_are_one_switch(by: Worker) -> None:
    world.worker(name="red", pool_name="red")
    incident = rollback.bumped()
    answers = at_once(
        *(
            partial(rollback.switch, incident, pool, actor=who)
            for pool, who in zip(["green", "red", "green", "red"], CROWD, strict=True)
        )
    )
    winner = Queue.objects.get(name="q").active_pool_id
    for answer, pool in zip(answers, ["green", "red", "green", "red"], strict=True):
        if pool == winner:
            assert isinstance(answer, StepTaken)
        else:
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.ALREADY_SETTLED
    assert Event.objects.filter(kind="INCIDENT_SWITCHED").count() == 1


def test_opposite_words_about_results_at_once_are_one_word(by: Worker) -> None:
    world.submit()
    world.stage(world.claim_one(by=by), by=by)
    incident = rollback.bumped()
    kept, discarded = at_once(
        partial(rollback.decide, incident, "KEEP", actor=OLGA),
        partial(rollback.decide, incident, "DISCARD", actor=OTTO),
    )
    assert isinstance(kept, CandidatesDecided) != isinstance(discarded, CandidatesDecided)
    assert Event.objects.filter(kind="CANDIDATES_DECIDED").count() == 1


def test_opening_waits_for_a_claim_that_is_under_way_and_stops_the_next(by: Worker) -> None:
    run = world.submit(node("a"), node("b"))
    with world.holding_task(world.task_id(run, "a")) as holder:
        claiming = world.Rival(partial(world.claim_one, by=by, of=world.task_id(run, "a")))
        world.wait_until_blocked(claiming.pid, by=holder.pid)  # it holds the gate, shared
        opening = world.Rival(rollback.open_)
        world.wait_until_blocked(opening.pid, by=claiming.pid)
        late = world.Rival(
            partial(claim_tasks, queue="q", worker=by, scheduler_epoch=1, owner="late")
        )
        world.wait_until_blocked(late.pid, by=opening.pid)
        holder.release()
        claimed = claiming.result()
        took(opening.result())
        told = late.result()
    assert isinstance(told, Refusal)
    assert told.outcome is Outcome.INTAKE_STOPPED
    world.commit(claimed, by=by)


def test_an_acceptance_that_waits_for_the_stop_is_refused(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    (queue_id,) = Queue.objects.filter(name="q").values_list("id", flat=True)
    with world.holding("SELECT pg_advisory_xact_lock_shared(1, %s)", [queue_id]) as holder:
        opening = world.Rival(rollback.open_)
        world.wait_until_blocked(opening.pid, by=holder.pid)
        accepting = world.Rival(partial(ledger.try_accept, effect, claim.fence, by=by))
        world.wait_until_blocked(accepting.pid, by=opening.pid)
        holder.release()
        took(opening.result())
        told = accepting.result()
    assert isinstance(told, Refusal)
    assert told.outcome is Outcome.INTAKE_STOPPED
    assert ledger.state(effect) == "PREPARED"


def test_a_bump_waits_for_a_commit_that_is_under_way_and_refuses_the_next(by: Worker) -> None:
    world.submit(node("a"), node("b"))
    first, second = world.claim(by=by, limit=2)
    incident = rollback.opened()
    with world.holding_task(first.fence.task_id) as holder:
        committing = world.Rival(partial(world.try_commit, first, by=by))
        world.wait_until_blocked(committing.pid, by=holder.pid)  # it holds the gate, shared
        bumping = world.Rival(partial(rollback.bump, incident))
        world.wait_until_blocked(bumping.pid, by=committing.pid)
        late = world.Rival(partial(world.try_commit, second, by=by))
        world.wait_until_blocked(late.pid, by=bumping.pid)
        holder.release()
        assert getattr(committing.result(), "outcome", "") == "COMMITTED"
        receipt, refused = took(bumping.result()), late.result()
    assert receipt.revoked == 1
    assert isinstance(refused, Refusal)
    assert (refused.outcome, refused.reason) == (Outcome.FENCED, Reason.STALE_EPOCH)


def test_a_switch_waits_for_a_report_that_is_under_way_and_counts_what_it_tells(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    incident = rollback.bumped()
    rollback.run_out(incident)
    with world.holding_task(claim.fence.task_id) as holder:
        report = partial(ledger.report, effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
        reporting = world.Rival(report)
        world.wait_until_blocked(reporting.pid, by=holder.pid)  # it holds the gate, shared
        switching = world.Rival(partial(rollback.switch, incident))
        world.wait_until_blocked(switching.pid, by=reporting.pid)
        holder.release()
        reporting.result()
        told = switching.result()
    assert isinstance(told, Refusal)
    assert (told.outcome, told.extra["unknown_effects"]) == (Outcome.NOT_DRAINED, 1)


def test_a_switch_counts_while_nobody_can_add_to_what_it_counts(by: Worker) -> None:
    """A late receipt that came before the switch closes the gate; one that comes after finds it done."""
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    incident = rollback.bumped()
    rollback.run_out(incident)
    switched, _ = at_once(
        partial(rollback.switch, incident),
        partial(ledger.report, effect, claim, accepted, DispatchOutcome.COMMITTED, by=by),
    )
    if isinstance(switched, Refusal):
        assert switched.outcome is Outcome.NOT_DRAINED
        assert rollback.gate(incident).unknown_effects == 1
    else:
        told = Event.objects.get(kind="INCIDENT_SWITCHED")
        late = Event.objects.filter(kind="EVIDENCE_RECORDED", id__gt=told.pk)
        assert ledger.state(effect) == "UNKNOWN"
        assert late.exists() or Event.objects.filter(kind="EFFECT_UNKNOWN", id__gt=told.pk).exists()
