"""The report tells the whole story, and nothing that the events don't (contract 12)."""

from collections import Counter
from typing import Any
from uuid import UUID, uuid4

import pytest

from coordinator.actors import Worker
from coordinator.models import Event
from coordinator.selectors.incident_markdown import render_markdown
from coordinator.selectors.incident_reports import IncidentStory, tell_incident
from coordinator.services.claims import claim_tasks
from coordinator.services.commits import CommitItem, commit_results
from coordinator.services.usage import Usage
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import OLGA, OTTO, took
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def report(incident: UUID) -> IncidentStory:
    with nothing_moves():
        story = tell_incident(incident)
    assert story is not None
    return story


def lived_through(by: Worker) -> tuple[UUID, Any, Any]:
    """An incident with an effect out, a staged result, late calls, a refused step, and its end."""
    ledger.register(Guarantee.GATED, name="there")
    run = world.submit(node("pay", slots={ledger.SLOT: "there"}), node("think"), node("ask"))
    pay = world.claim_one(by=by, of=world.task_id(run, "pay"), owner="payer")
    think = world.claim_one(by=by, of=world.task_id(run, "think"), owner="thinker")
    effect = ledger.prepare(pay, by=by)
    accepted = ledger.accept(effect, pay.fence, by=by)
    ledger.redeem(effect, accepted)
    world.stage(think, by=by)
    incident = rollback.opened(reason="deploy 42 | loses *orders*")
    rollback.resume(incident)  # too early: refused, and told
    took(rollback.bump(incident, actor=OLGA, reason="nobody else is awake"))
    for _ in range(3):
        world.try_commit(think, by=by)
    item = world.commit_item(pay)
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__}
    late = CommitItem(**fields | {"usage": Usage(100, 50, 2.0, 0.5)})
    commit_results(items=[late], worker=by, queue=None)
    claim_tasks(queue="q", worker=by, scheduler_epoch=1, owner="late")
    ledger.report(effect, pay, accepted, DispatchOutcome.COMMITTED, by=by)
    ledger.happened(effect, by=OTTO)
    rollback.decide(incident, "KEEP", reason="to compare")
    rollback.run_out(incident)
    took(rollback.switch(incident))
    took(rollback.resume(incident))
    return incident, pay, think


def test_the_report_tells_who_did_what_when_and_what_it_cost(by: Worker) -> None:
    incident, pay, think = lived_through(by)
    story = report(incident)
    assert [(entry.kind, entry.by) for entry in story.timeline] == [
        ("INCIDENT_OPENED", "operator:olga"),
        ("INTAKE_STOPPED", "operator:olga"),
        ("REFUSED", "operator:olga"),
        ("INCIDENT_BUMPED", "operator:olga"),
        ("ALARM", "operator:olga"),
        ("EPOCH_BUMPED", "operator:olga"),
        ("CANDIDATES_DECIDED", "operator:otto"),
        ("INCIDENT_DRAINED", "operator:otto"),
        ("INCIDENT_SWITCHED", "operator:otto"),
        ("INCIDENT_CLOSED", "operator:olga"),
        ("INTAKE_OPENED", "operator:olga"),
    ]
    assert {entry.address for entry in story.timeline} == {"10.0.0.7"}
    assert story.revoked == 2
    assert {(hold.owner, hold.attempt_state) for hold in story.holds} == {
        ("payer", "FENCED"),
        ("thinker", "FENCED"),
    }
    cost = story.abandoned
    assert (cost.attempts, cost.input_tokens, cost.cost_usd) == (2, 100, 0.5)
    calls = {(call.attempt_id, call.point): call.calls for call in story.fenced}
    assert calls == {
        (think.fence.attempt_id, "commit"): 3,
        (pay.fence.attempt_id, "commit"): 1,
        (pay.fence.attempt_id, "report"): 1,
    }
    assert (story.fenced_calls, story.stale_claims) == (5, 1)
    assert (story.effect_count, story.candidate_count, story.voided) == (1, 1, 0)
    (effect,) = story.effects
    assert (effect.after_bump, effect.changed_by_bump, effect.state) == (
        "UNKNOWN",
        True,
        "COMMITTED",
    )
    assert [(line.said, line.late) for line in effect.evidence] == [
        ("COMMITTED", True),
        ("HAPPENED", False),
    ]
    (candidate,) = story.candidates
    assert (candidate.decision, candidate.by, candidate.reason) == (
        "KEEP",
        "operator:otto",
        "to compare",
    )
    parts = story.durations
    assert all(
        part is not None and part >= 0
        for part in (parts.stopped, parts.draining, parts.drained, parts.switched, parts.total)
    )


def test_the_report_matches_the_events(by: Worker) -> None:
    incident, pay, think = lived_through(by)
    story = report(incident)
    events = list(Event.objects.order_by("id"))
    mine = [event for event in events if event.data.get("incident_id") == str(incident)]
    assert [(entry.at, entry.kind, entry.by) for entry in story.timeline] == [
        (event.at, event.kind, event.actor) for event in mine
    ]
    attempts = {pay.fence.attempt_id, think.fence.attempt_id}
    bumped = next(event.at for event in mine if event.kind == "INCIDENT_BUMPED")
    refused = [
        event
        for event in events
        if event.kind == "REFUSED" and event.attempt_id in attempts and event.at >= bumped
    ]
    assert Counter((call.attempt_id, call.point, call.calls) for call in story.fenced) == Counter(
        (event.attempt_id, event.data["point"], event.repeats + 1) for event in refused
    )
    expired = [event for event in events if event.data.get("reason") == "EPOCH_BUMP"]
    held = [event for event in events if event.kind == "HELD_FOR_RECONCILIATION"]
    assert {hold.attempt_id for hold in story.holds} == {
        event.attempt_id for event in [*expired, *held]
    }


def test_the_report_of_an_open_incident_tells_what_is_known(by: Worker) -> None:
    world.submit()
    world.claim_one(by=by)
    incident = rollback.opened()
    story = report(incident)
    assert (story.incident.state, story.revoked, story.fenced_calls) == ("STOPPED", 0, 0)
    assert (story.durations.stopped, story.durations.total) == (None, None)
    took(rollback.bump(incident))
    story = report(incident)
    assert (story.durations.stopped is not None, story.durations.draining) == (True, None)
    assert tell_incident(uuid4()) is None


def test_void_approvals_are_told_by_their_effect(by: Worker) -> None:
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE)
    effect = ledger.prepare(claim, by=by)
    asked = ledger.approval(ledger.try_accept(effect, claim.fence, by=by))
    incident = rollback.bumped()
    assert report(incident).voided == 1
    (void,) = report(incident).voided_approvals
    assert (void.approval_id, void.effect_id) == (str(asked.approval_id), effect.effect_id)


def test_an_effect_that_turned_up_in_the_drain_is_told_too(by: Worker) -> None:
    """Its slot was closed long before the bump, by a take-over; then a receipt came."""
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by)
    assert ledger.state(effect) == "PREPARED"
    world.stage(second, by=by)
    incident = rollback.bumped()
    assert report(incident).effects == []
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    (story,) = report(incident).effects
    assert (story.after_bump, story.state) == (None, "UNKNOWN")
    ledger.happened(effect, by=OTTO)
    rollback.decide(incident)
    rollback.run_out(incident)
    took(rollback.switch(incident))
    took(rollback.resume(incident))
    (story,) = report(incident).effects
    assert story.state == "COMMITTED"


# --- Markdown -------------------------------------------------------------------------------------


def test_the_document_has_every_part_and_no_word_of_others_breaks_it(by: Worker) -> None:
    incident, _, think = lived_through(by)
    text = render_markdown(report(incident))
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles == [
        f"# Incident {incident}", "## Steps", "## How long", "## Queues", "## What was taken back",
        "## Revoked attempts", "## Refused after the bump", "## Void approvals", "## Effects",
        "## Results that were put aside", "## Timeline",
    ]  # fmt: skip
    assert "- Reason: deploy 42 \\| loses \\*orders\\*" in text
    assert "- Abandoned: 0.500000 USD" in text
    assert str(think.fence.attempt_id) in text
    for section in text.split("\n## ")[1:]:
        rows = [line for line in section.splitlines() if line.startswith("|")]
        bars = {line.replace("\\|", "").count("|") for line in rows}
        assert len(bars) <= 1, section
    assert "None." in text  # no approval was void


def test_the_document_of_hostile_words_stays_one_line_a_row(by: Worker) -> None:
    incident = rollback.opened(reason="x\n# Not a title\n| a | b |\n<script>alert(1)</script>")
    text = render_markdown(report(incident))
    assert "\n# Not a title" not in text
    assert "<script>" not in text
    assert text.count("\n# ") == 0
