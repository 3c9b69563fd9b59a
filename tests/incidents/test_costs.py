"""What an incident costs does not grow with what it holds: every step and reading is set-based and bounded."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coordinator import rounds
from coordinator.actors import Worker
from coordinator.models import IncidentHold
from coordinator.selectors import incident_gates, incident_previews, incident_reports
from coordinator.selectors.incidents import IncidentFilters, incident_record, list_incidents
from coordinator.states import Guarantee
from tests import world
from tests.effects import ledger
from tests.incidents import rollback
from tests.incidents.rollback import took
from tests.world import node

pytestmark = pytest.mark.django_db(transaction=True)

FEW, MANY = 2, 40


def statements(call: Callable[[], Any]) -> int:
    """How many statements a call sends, in rounds or by the ORM."""
    log: list[list[str]] = []
    token = rounds.sent.set(log)
    try:
        with CaptureQueriesContext(connection) as queries:
            call()
    finally:
        rounds.sent.reset(token)
    return len(queries) + sum(map(len, log))


def costs_of(by: Worker, held: int, *, queue_name: str) -> dict[str, int]:
    """An incident over so many held tasks, each with a call out and a result put aside; what each part of it sends."""
    names = [f"n{number}" for number in range(held)]
    slots = {ledger.SLOT: "there"}
    run = world.submit(*(node(name, slots=slots) for name in names), queue_name=queue_name)
    for name in names:
        claim = world.claim_one(by=by, of=world.task_id(run, name), queue_name=queue_name)
        ledger.accept(ledger.prepare(claim, by=by), claim.fence, by=by)
        world.stage(claim, by=by)
    incident: list[UUID] = []
    told = {"open": statements(lambda: incident.append(rollback.opened(queues=(queue_name,))))}
    (of,) = incident
    told["preview"] = statements(lambda: incident_previews.preview_bump(of))
    told["bump"] = statements(lambda: took(rollback.bump(of)))
    told["gate"] = statements(lambda: incident_gates.read_gate(of))
    told["candidates"] = statements(lambda: rollback.decide(of))
    told["report"] = statements(lambda: incident_reports.tell_incident(of))
    assert IncidentHold.objects.filter(incident_id=of).count() == held
    return told


def test_forty_holds_cost_what_two_do() -> None:
    ledger.register(Guarantee.CONDITIONAL_WRITE)
    costs = []
    for name, held in (("few", FEW), ("many", MANY)):
        world.queue(name=name)
        by = world.worker(name=name, queues=(name,))
        costs.append(costs_of(by, held, queue_name=name))
    few, many = costs
    assert few == many
    assert max(many.values()) <= 60, many


def test_a_page_of_incidents_costs_five_queries_however_many_there_are() -> None:
    for number in range(12):
        world.queue(name=f"q{number}")
        world.worker(name=f"g{number}", pool_name="green", queues=(f"q{number}",))
        incident = rollback.opened(queues=(f"q{number}",))
        took(rollback.abort(incident))
    with CaptureQueriesContext(connection) as queries:
        told = [incident_record(each) for each in list_incidents(IncidentFilters())[:50]]
    # incidents, lanes, their queues, steps, and what was let in first
    assert (len(told), len(queries)) == (12, 5)
