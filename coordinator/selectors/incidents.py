"""Incidents as they are read: where each stands, over which queues, and who took which step (contract 12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import QuerySet

from coordinator.models import Incident, IncidentQueue
from coordinator.states import ENDED_INCIDENT, IncidentState

from .canaries import CanaryRecord, canary_record
from .incident_gates import is_drained

#: What is typed to bump an incident over every queue that there was.
ALL_QUEUES: Final = "all queues"


@dataclass(frozen=True, slots=True)
class IncidentFilters:
    queue: str | None = None
    is_open: bool | None = None


@dataclass(frozen=True, slots=True)
class IncidentLane:
    """One queue of an incident: how it stands, how it stood before, and what the incident did to it."""

    name: str
    scheduler_epoch: int
    intake: str
    intake_share: int  # per cent that a canary lets in
    active_pool: str
    intake_before: str
    pool_before: str
    pool_after: str | None
    epoch_before: int | None
    epoch_after: int | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step that was taken: the state that it led to, who, when, from where and why."""

    step: str
    version: int
    by: str
    address: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class IncidentRecord:
    """`state` is DRAINED while the gate is open (contract 12); `covers_all`: every queue at its opening."""

    incident_id: UUID
    state: str
    version: int
    queues: list[IncidentLane]
    covers_all: bool
    reason: str
    opened_by: str
    opened_at: datetime
    ended_at: datetime | None
    steps: list[StepRecord]
    canaries: list[CanaryRecord]


def confirmation(names: Sequence[str], *, covers_all: bool) -> str:
    """What must be typed out to bump: the queue's name, several in the order of their names, or `all queues`."""
    return ALL_QUEUES if covers_all else ", ".join(sorted(names))


def list_incidents(filters: IncidentFilters) -> QuerySet[Incident]:
    """Newest first; page by `incident_id`. Lanes, queues, steps and canaries come with it: five queries."""
    found = Incident.objects.prefetch_related("lanes__queue", "steps", "canaries")
    if filters.queue is not None:
        found = found.filter(lanes__queue__name=filters.queue)
    if filters.is_open is not None:
        ended = {"state__in": sorted(ENDED_INCIDENT)}
        found = found.exclude(**ended) if filters.is_open else found.filter(**ended)
    return found.order_by("-incident_id")


def find_incident(incident_id: UUID) -> Incident | None:
    return list_incidents(IncidentFilters()).filter(incident_id=incident_id).first()


def read_incident(incident_id: UUID) -> IncidentRecord | None:
    found = find_incident(incident_id)
    return incident_record(found) if found else None


def open_incident_of(queue: str) -> UUID | None:
    """The incident that holds this queue, if one does."""
    return (
        IncidentQueue.objects.filter(queue__name=queue, is_open=True)
        .values_list("incident_id", flat=True)
        .first()
    )


def incident_record(incident: Incident) -> IncidentRecord:
    """`incident` as list_incidents read it: no further query, but for the gate of a bumped one."""
    lanes = sorted(incident.lanes.all(), key=lambda lane: lane.queue.name)
    return IncidentRecord(
        incident_id=incident.incident_id,
        state=state_of(incident),
        version=incident.version,
        queues=[_lane(lane) for lane in lanes],
        covers_all=incident.covers_all,
        reason=incident.reason,
        opened_by=incident.opened_by,
        opened_at=incident.opened_at,
        ended_at=incident.ended_at,
        steps=[
            StepRecord(
                step=step.step,
                version=step.version,
                by=step.actor,
                address=step.address,
                at=step.at,
                reason=step.reason,
            )
            for step in sorted(incident.steps.all(), key=lambda step: step.pk)
        ],
        canaries=[
            canary_record(row) for row in sorted(incident.canaries.all(), key=lambda row: row.pk)
        ],
    )


def state_of(incident: Incident) -> IncidentState:
    """The stored state, but for BUMPED with an open gate: that is DRAINED."""
    state = IncidentState(incident.state)
    if state == IncidentState.BUMPED and is_drained(incident.incident_id):
        return IncidentState.DRAINED
    return state


def _lane(lane: IncidentQueue) -> IncidentLane:
    queue = lane.queue
    return IncidentLane(
        name=queue.name,
        scheduler_epoch=queue.scheduler_epoch,
        intake=queue.intake,
        intake_share=queue.intake_share,
        active_pool=queue.active_pool_id,
        intake_before=lane.intake_before,
        pool_before=lane.pool_before,
        pool_after=lane.pool_after,
        epoch_before=lane.epoch_before,
        epoch_after=lane.epoch_after,
    )
