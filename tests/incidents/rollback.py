"""Incidents for tests: plain functions over the services, keyword-only. Two people; leases are moved in time."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from django.db import connection

from coordinator.actors import Actor, ActorKind, Operator
from coordinator.models import Incident, IncidentQueue
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.incident_gates import Gate, read_gate
from coordinator.selectors.incidents import IncidentRecord, confirmation, read_incident
from coordinator.services import canaries
from coordinator.services.answers import RequestKey
from coordinator.services.incident_bumps import bump_incident
from coordinator.services.incident_candidates import CandidatesDecided, decide_candidates
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.incident_switches import switch_pool
from coordinator.services.incidents import abort_incident, open_incident, resume_intake
from coordinator.states import CandidateRuling
from tests import world


def person(name: str) -> Operator:
    """An operator; the same name is the same person."""
    number = 100 + sum(map(ord, name))
    return Operator(ActorKind.OPERATOR, name, number, f"request-{name}", "10.0.0.7")


OLGA, OTTO = person("olga"), person("otto")


def open_(
    *,
    queues: Sequence[str] | None = ("q",),
    reason: str = "bad deploy",
    actor: Actor = OLGA,
    request: RequestKey | None = None,
) -> StepTaken | Refusal:
    return open_incident(queues=queues, reason=reason, actor=actor, request=request)


def opened(**fields: Any) -> UUID:
    answer = open_(**fields)
    assert isinstance(answer, StepTaken), answer
    return answer.incident_id


def bump(incident_id: UUID, *, actor: Actor = OTTO, **fields: Any) -> StepTaken | Refusal:
    """As a careful person would: the epochs as they stand, the names typed out."""
    incident = Incident.objects.get(incident_id=incident_id)
    lanes = IncidentQueue.objects.filter(incident=incident).select_related("queue")
    epochs = {lane.queue.name: lane.queue.scheduler_epoch for lane in lanes}
    asked: dict[str, Any] = {
        "expected_epoch": epochs if len(epochs) > 1 else next(iter(epochs.values())),
        "confirm": confirmation(list(epochs), covers_all=incident.covers_all),
        "actor": actor,
    }
    return bump_incident(incident_id=incident_id, **(asked | fields))


def bumped(**fields: Any) -> UUID:
    """An incident whose epoch has been raised."""
    incident_id = opened(**fields)
    took(bump(incident_id))
    return incident_id


def decide(
    incident_id: UUID, decision: str = "KEEP", *, actor: Actor = OTTO, **fields: Any
) -> CandidatesDecided | Refusal:
    asked = {"reason": "looked at it"} | fields
    return decide_candidates(
        incident_id=incident_id, decision=CandidateRuling(decision), actor=actor, **asked
    )


def switch(
    incident_id: UUID, to_pool: str = "green", *, actor: Actor = OTTO, **fields: Any
) -> StepTaken | Refusal:
    return switch_pool(incident_id=incident_id, to_pool=to_pool, actor=actor, **fields)


def resume(incident_id: UUID, *, actor: Actor = OLGA, **fields: Any) -> StepTaken | Refusal:
    return resume_intake(incident_id=incident_id, actor=actor, **fields)


def let_in(
    incident_id: UUID, percent: int, *, actor: Actor = OLGA, **fields: Any
) -> StepTaken | Refusal:
    """As somebody who has just looked at the incident."""
    asked = {"expected_version": Incident.objects.get(incident_id=incident_id).version} | fields
    return canaries.let_in(incident_id=incident_id, percent=percent, actor=actor, **asked)


def abort(
    incident_id: UUID, *, reason: str = "false alarm", actor: Actor = OLGA, **fields: Any
) -> StepTaken | Refusal:
    return abort_incident(incident_id=incident_id, reason=reason, actor=actor, **fields)


def took(answer: StepTaken | Refusal) -> StepTaken:
    assert isinstance(answer, StepTaken), answer
    return answer


def refused(answer: object, outcome: Outcome, pointer: str | None = None) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert answer.outcome is outcome, answer
    if pointer is not None:
        assert pointer in {error.pointer for error in answer.errors}, answer
    return answer


def gate(incident_id: UUID) -> Gate:
    found = read_gate(incident_id)
    assert found is not None
    return found


def record(incident_id: UUID) -> IncidentRecord:
    found = read_incident(incident_id)
    assert found is not None
    return found


def run_out(incident_id: UUID) -> None:
    """Let the leases that the bump revoked have run out. Nobody sleeps."""
    with world.guarded("prune"), connection.cursor() as cursor:
        cursor.execute(
            "UPDATE coordinator_incidenthold SET lease_expires_at = clock_timestamp() - interval '1 second'"
            " WHERE incident_id = %s",
            [incident_id],
        )
