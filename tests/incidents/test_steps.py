"""The steps of an incident: in their order, each once, each told; what may go on meanwhile (contract 12)."""

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from coordinator.actors import Worker, system
from coordinator.models import Event, Incident, IncidentStep, Queue
from coordinator.outcomes import Outcome, Refusal, Retry
from coordinator.services.answers import RequestKey
from coordinator.services.claims import claim_tasks
from coordinator.services.endings import Released, release_attempt
from coordinator.services.epochs import IntakeSet, bump_epoch, set_intake
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.queues import change_policy
from coordinator.states import DispatchOutcome, Guarantee, Intake
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, refused, took
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def claims_are_refused(by: Worker, outcome: Outcome = Outcome.INTAKE_STOPPED) -> None:
    told = claim_tasks(queue="q", worker=by, scheduler_epoch=world.epoch(), owner="me")
    refused(told, outcome)


def test_a_whole_incident_leads_from_stop_to_resume(by: Worker) -> None:
    world.submit(node("a"), node("b"))
    world.claim_one(by=by)
    incident = rollback.opened()
    claims_are_refused(by)
    receipt = took(rollback.bump(incident))
    assert (receipt.state, receipt.version, receipt.revoked) == ("BUMPED", 2, 1)
    assert (receipt.by, receipt.alone) == ("operator:otto", False)
    assert rollback.record(incident).state == "BUMPED"
    rollback.run_out(incident)
    assert rollback.record(incident).state == "DRAINED"
    switched = took(rollback.switch(incident))
    assert [(each.name, each.active_pool) for each in switched.queues] == [("q", "green")]
    claims_are_refused(by, Outcome.WRONG_POOL)
    closed = took(rollback.resume(incident))
    assert [(each.intake, each.scheduler_epoch) for each in closed.queues] == [("OPEN", 2)]
    record = rollback.record(incident)
    assert (record.state, record.ended_at) == ("CLOSED", closed.at)
    told = [(step.step, step.by, step.address, step.reason) for step in record.steps]
    assert told == [
        ("STOPPED", "operator:olga", "10.0.0.7", "bad deploy"),
        ("BUMPED", "operator:otto", "10.0.0.7", ""),
        ("DRAINED", "operator:otto", "10.0.0.7", "nothing of the old epoch is out"),
        ("SWITCHED", "operator:otto", "10.0.0.7", ""),
        ("CLOSED", "operator:olga", "10.0.0.7", ""),
    ]
    green = world.worker(name="fleet-green", pool_name="green")
    assert len(world.claim(by=green, limit=5)) == 2
    claims_are_refused(by, Outcome.WRONG_POOL)


def test_the_current_epoch_goes_on_while_intake_is_stopped(by: Worker) -> None:
    ledger.register(Guarantee.CONDITIONAL_WRITE)
    run = world.submit(
        node("a", slots={ledger.SLOT: "there"}), node("b"), node("c"), node("d", "b")
    )
    first = world.claim_one(by=by, of=world.task_id(run, "a"))
    second = world.claim_one(by=by, of=world.task_id(run, "b"))
    third = world.claim_one(by=by, of=world.task_id(run, "c"))
    effect = ledger.prepare(first, by=by)
    accepted = ledger.accept(effect, first.fence, by=by)
    rollback.opened()
    (renewed,) = renew_leases(
        items=[Renewal(first.fence.attempt_id, first.fence, first.owner)], worker=by
    )
    assert isinstance(renewed, Renewed)
    ledger.report(effect, first, accepted, DispatchOutcome.COMMITTED, by=by)
    world.commit(first, by=by)
    world.commit(second, by=by)  # its successor is released, and waits
    assert world.current(run, "d").state == "READY"
    released = release_attempt(attempt_id=third.fence.attempt_id, fence=third.fence, worker=by)
    assert isinstance(released, Released)
    world.submit(node("new"))
    with nothing_moves():
        claims_are_refused(by)


def test_a_call_that_was_accepted_before_the_stop_is_let_through_by_its_gate(by: Worker) -> None:
    claim = ledger.claimed(by=by, guarantee=Guarantee.GATED)
    effect = ledger.prepare(claim, by=by)
    accepted = ledger.accept(effect, claim.fence, by=by)
    rollback.opened()
    ledger.redeem(effect, accepted)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    world.commit(claim, by=by)


@pytest.mark.parametrize("guarantee", [Guarantee.CONDITIONAL_WRITE, Guarantee.NONE])
def test_an_incident_stops_new_acceptances_and_nobody_is_asked_to_approve(
    by: Worker, guarantee: Guarantee
) -> None:
    claim = ledger.claimed(by=by, guarantee=guarantee)
    effect = ledger.prepare(claim, by=by)
    incident = rollback.opened()
    with nothing_moves():
        told = refused(ledger.try_accept(effect, claim.fence, by=by), Outcome.INTAKE_STOPPED)
        assert (told.retry, told.extra) == (Retry.AFTER, {"incident_id": str(incident)})
    rollback.took(rollback.abort(incident))
    answer = ledger.try_accept(effect, claim.fence, by=by)
    assert getattr(answer, "outcome", None) in ("ACCEPTED", Outcome.APPROVAL_REQUIRED)


def test_a_stopped_intake_outside_incidents_stops_claims_only(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    set_intake(queue="q", intake=Intake.STOPPED, reason="drill", actor=OLGA)
    ledger.accept(effect, claim.fence, by=by)


def test_an_acceptance_that_was_given_before_the_stop_is_answered_again(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    request = ledger.key()
    first = ledger.try_accept(effect, claim.fence, by=by, request=request)
    rollback.opened()
    again = ledger.try_accept(effect, claim.fence, by=by, request=request)
    assert getattr(again, "dispatch_id", 1) == getattr(first, "dispatch_id", 2)


# --- the order ------------------------------------------------------------------------------------

Step = Callable[..., Any]
STEPS: dict[str, Step] = {
    "bump": rollback.bump, "decide": rollback.decide, "switch": rollback.switch,
    "resume": rollback.resume, "abort": rollback.abort,
}  # fmt: skip
#: After each state: which steps are refused as too early (they may come) and which as too late.
REFUSED: dict[str, dict[str, Retry]] = {
    "STOPPED": {"decide": Retry.AFTER, "switch": Retry.AFTER, "resume": Retry.AFTER},
    "BUMPED": {"resume": Retry.AFTER, "abort": Retry.NEVER},
    "SWITCHED": {"decide": Retry.NEVER, "abort": Retry.NEVER},
    "CLOSED": {"decide": Retry.NEVER, "abort": Retry.NEVER},
    "ABORTED": {
        "bump": Retry.NEVER, "decide": Retry.NEVER, "switch": Retry.NEVER, "resume": Retry.NEVER,
    },
}  # fmt: skip
WAYS: dict[str, list[str]] = {
    "STOPPED": [], "BUMPED": ["bump"], "SWITCHED": ["bump", "switch"],
    "CLOSED": ["bump", "switch", "resume"], "ABORTED": ["abort"],
}  # fmt: skip


@pytest.mark.parametrize("state", WAYS)
def test_no_step_is_skipped_and_none_taken_back(by: Worker, state: str) -> None:
    incident = rollback.opened()
    for step in WAYS[state]:
        took(STEPS[step](incident))
    for step, retry in REFUSED[state].items():
        events = Event.objects.count()
        with nothing_moves():
            told = refused(STEPS[step](incident), Outcome.WRONG_STEP)
        assert (told.retry, told.extra["state"], told.evidence_recorded) == (retry, state, True)
        assert Event.objects.count() == events + 1, step
        event = Event.objects.latest("id")
        assert event.kind == "REFUSED"
        assert event.data["incident_id"] == str(incident)
        assert event.data["outcome"] == "WRONG_STEP"


@pytest.mark.parametrize("state", WAYS)
def test_each_step_again_gets_the_same_receipt_and_moves_nothing(by: Worker, state: str) -> None:
    incident = rollback.opened()
    receipts = {step: took(STEPS[step](incident)) for step in WAYS[state]}
    events = Event.objects.count()
    with nothing_moves():
        for step, receipt in receipts.items():
            epochs = {"expected_epoch": 1} if step == "bump" else {}
            for person in (OLGA, OTTO):
                again = took(STEPS[step](incident, actor=person, expected_version=1, **epochs))
                assert again.replayed
                assert again == StepTaken(**_members(receipt) | {"replayed": True})
    assert Event.objects.count() == events


def _members(receipt: StepTaken) -> dict[str, Any]:
    return {name: getattr(receipt, name) for name in receipt.__dataclass_fields__}


def test_an_old_look_decides_nothing(by: Worker) -> None:
    incident = rollback.opened()
    with nothing_moves():
        told = refused(rollback.bump(incident, expected_version=2), Outcome.STATE_VERSION_MISMATCH)
        assert told.extra == {"version": 1, "state": "STOPPED"}
        refused(rollback.abort(incident, expected_version=7), Outcome.STATE_VERSION_MISMATCH)
    took(rollback.bump(incident, expected_version=1))
    with nothing_moves():
        refused(rollback.switch(incident, expected_version=1), Outcome.STATE_VERSION_MISMATCH)
    took(rollback.switch(incident, expected_version=2))
    with nothing_moves():
        refused(rollback.resume(incident, expected_version=2), Outcome.STATE_VERSION_MISMATCH)
    took(rollback.resume(incident, expected_version=4))


def test_what_does_not_exist_is_not_found() -> None:
    for step in STEPS.values():
        if step is not rollback.bump:
            refused(step(uuid4()), Outcome.NOT_FOUND)


def test_a_background_job_or_a_worker_runs_no_incident(by: Worker) -> None:
    incident = rollback.opened()
    with nothing_moves():
        for nobody in (by, system("sweep")):
            refused(rollback.open_(actor=nobody), Outcome.FORBIDDEN)
            for step in STEPS.values():
                refused(step(incident, actor=nobody), Outcome.FORBIDDEN)


# --- opening --------------------------------------------------------------------------------------


def test_opening_stops_intake_at_once_and_says_who_and_why(by: Worker) -> None:
    receipt = took(rollback.open_())
    assert (receipt.state, receipt.version, receipt.reason) == ("STOPPED", 1, "bad deploy")
    assert [(each.name, each.intake) for each in receipt.queues] == [("q", "STOPPED")]
    told = Event.objects.filter(data__incident_id=str(receipt.incident_id)).order_by("id")
    assert [event.kind for event in told] == ["INCIDENT_OPENED", "INTAKE_STOPPED"]
    for event in told:
        assert (event.actor, event.request_id) == ("operator:olga", "request-olga")
        assert event.data["address"] == "10.0.0.7"
        assert event.data["reason"] == "bad deploy"


def test_a_queue_has_one_open_incident(by: Worker) -> None:
    world.queue(name="other")
    first = rollback.opened()
    with nothing_moves():
        told = refused(rollback.open_(actor=OTTO), Outcome.INCIDENT_OPEN)
        assert told.extra["incident_id"] == str(first)
        refused(rollback.open_(queues=("other", "q")), Outcome.INCIDENT_OPEN)
        refused(rollback.open_(queues=None), Outcome.INCIDENT_OPEN)
    assert Event.objects.filter(kind="REFUSED", data__outcome="INCIDENT_OPEN").count() == 2
    rollback.opened(queues=("other",))
    took(rollback.abort(first))
    rollback.opened()


def test_the_same_request_opens_one_incident(by: Worker) -> None:
    request = RequestKey("operator", "k" * 16, "digest")
    first = took(rollback.open_(request=request))
    again = took(rollback.open_(request=request))
    assert again == StepTaken(**_members(first) | {"replayed": True})
    assert Incident.objects.count() == 1
    other = RequestKey("operator", "k" * 16, "another digest")
    refused(rollback.open_(request=other), Outcome.IDEMPOTENCY_CONFLICT)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"reason": " "}, "/reason"),
        ({"reason": "no"}, "/reason"),
        ({"reason": "x" * 2001}, "/reason"),
        ({"reason": "nul \0 here"}, "/reason"),
        ({"queues": ("nowhere",)}, "/queue"),
        ({"queues": ("q", "nowhere")}, "/queues"),
        ({"queues": ()}, "/queues"),
    ],
)
def test_an_incident_names_queues_and_a_reason(
    by: Worker, fields: dict[str, Any], pointer: str
) -> None:
    with nothing_moves():
        refused(rollback.open_(**fields), Outcome.INVALID, pointer)
    assert not Event.objects.exists()


def test_one_incident_holds_several_queues_or_all(by: Worker) -> None:
    for name in ("b", "a", "c"):
        world.queue(name=name)
    several = took(rollback.open_(queues=("b", "a")))
    assert [each.name for each in several.queues] == ["a", "b"]
    assert rollback.record(several.incident_id).covers_all is False
    took(rollback.abort(several.incident_id))
    everywhere = took(rollback.open_(queues=None))
    assert [each.name for each in everywhere.queues] == ["a", "b", "c", "q"]
    world.queue(name="later")
    assert Queue.objects.get(name="later").intake == "OPEN"
    bumped = took(rollback.bump(everywhere.incident_id))
    assert {each.name: each.scheduler_epoch for each in bumped.queues} == dict.fromkeys("abcq", 2)
    assert world.epoch("later") == 1


def test_all_queues_of_an_empty_house_are_none() -> None:
    refused(rollback.open_(queues=None), Outcome.INVALID, "/all")


# --- the ends -------------------------------------------------------------------------------------


def test_calling_it_off_puts_each_intake_back_as_it_was(by: Worker) -> None:
    world.queue(name="resting")
    set_intake(queue="resting", intake=Intake.STOPPED, reason="holiday", actor=OLGA)
    incident = rollback.opened(queues=("q", "resting"))
    receipt = took(rollback.abort(incident))
    assert {each.name: each.intake for each in receipt.queues} == {
        "q": "OPEN",
        "resting": "STOPPED",
    }
    assert world.epoch() == 1
    told = Event.objects.filter(data__incident_id=str(incident), kind="INTAKE_OPENED")
    assert [event.queue_id for event in told] == [Queue.objects.get(name="q").pk]
    refused(rollback.abort(rollback.opened(), reason=""), Outcome.INVALID, "/reason")


def test_resuming_opens_every_queue_of_the_incident(by: Worker) -> None:
    world.queue(name="resting")
    world.worker(name="both", pool_name="green", queues=("q", "resting"))
    set_intake(queue="resting", intake=Intake.STOPPED, reason="holiday", actor=OLGA)
    incident = rollback.bumped(queues=("q", "resting"))
    took(rollback.switch(incident))
    receipt = took(rollback.resume(incident))
    assert {each.name: each.intake for each in receipt.queues} == {"q": "OPEN", "resting": "OPEN"}


def test_nothing_but_the_incident_changes_what_it_holds(by: Worker) -> None:
    incident = rollback.opened()
    with nothing_moves():
        told = set_intake(queue="q", intake=Intake.OPEN, reason="I know better", actor=OLGA)
        assert refused(told, Outcome.INCIDENT_OPEN).extra["incident_id"] == str(incident)
        moved = change_policy(name="q", changes={"active_pool": "green"}, actor=OLGA)
        assert isinstance(moved, Refusal)
        assert moved.outcome is Outcome.INCIDENT_OPEN
    tried = Event.objects.filter(kind="REFUSED", data__incident_id=str(incident)).order_by("id")
    assert [event.data["point"] for event in tried] == ["intake", "administer"]
    assert set_intake(queue="q", intake=Intake.STOPPED, reason="drill", actor=OLGA) == IntakeSet(
        "q", "STOPPED", changed=False
    )
    changed = change_policy(name="q", changes={"max_attempts": 7}, actor=OLGA)
    assert not isinstance(changed, Refusal)


def test_an_epoch_that_was_raised_by_another_way_is_looked_at_again(by: Worker) -> None:
    incident = rollback.opened()
    bump_epoch(queue="q", expected_epoch=1, reason="demoted", actor=OLGA)
    with nothing_moves():
        told = refused(rollback.bump(incident, expected_epoch=1), Outcome.STATE_VERSION_MISMATCH)
        assert told.extra["epochs"] == {"q": 2}
    took(rollback.bump(incident, expected_epoch=2))
    assert world.epoch() == 3
    assert IncidentStep.objects.filter(step="BUMPED").count() == 1
