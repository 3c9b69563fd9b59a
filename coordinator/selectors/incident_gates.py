"""The gate between the bump and the switch: what of the old epoch is still out (contract 12)."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db.models import F, Max, QuerySet

from coordinator.clock import read_clock
from coordinator.models import EffectSlot, Incident, IncidentHold, IncidentQueue, StagedResult
from coordinator.states import MAY_BE_OUT, IncidentState

from .reasons import ServerClock

#: So many rows of each kind are named; all are counted.
MAX_BLOCKING: Final = 50


@dataclass(frozen=True, slots=True)
class GateCounts:
    """What keeps the switch back; all three must be zero."""

    active_leases: int
    unknown_effects: int
    pending_results: int

    @property
    def is_open(self) -> bool:
        return not (self.active_leases or self.unknown_effects or self.pending_results)


class BlockerKind(StrEnum):
    LEASE = "lease"
    EFFECT = "effect"
    RESULT = "result"


@dataclass(frozen=True, slots=True)
class Blocker:
    """One row that keeps the gate closed: a lease (`until` its expiry), an effect or a staged result."""

    kind: BlockerKind
    queue: str
    run_id: UUID
    task_id: UUID
    node_id: str
    attempt_id: UUID | None
    effect_id: str | None
    owner: str | None
    state: str
    since: datetime | None
    until: datetime | None


@dataclass(frozen=True, slots=True)
class Gate:
    """`blocking` names at most 50 rows of each kind. `latest_expiry`: when the last old lease runs out.

    Before the bump it is closed, whatever it counts; from the switch on it has been passed.
    """

    incident_id: UUID
    state: str
    active_leases: int
    unknown_effects: int
    pending_results: int
    open: bool
    blocking: list[Blocker]
    oldest_holder: Blocker | None
    latest_expiry: datetime | None
    at: datetime


def read_gate(incident_id: UUID) -> Gate | None:
    """The gate as it stands. The switch counts again, under the exclusive gates of the queues."""
    found = Incident.objects.filter(incident_id=incident_id).values_list("state", flat=True).first()
    if found is None:
        return None
    at, state = read_clock(), IncidentState(found)
    if state in (IncidentState.SWITCHED, IncidentState.CLOSED):
        return Gate(incident_id, state, 0, 0, 0, True, [], None, None, at)
    counts = count_gate(incident_id)
    blocking = [*_leases(incident_id), *_effects(incident_id), *_results(incident_id)]
    is_open = counts.is_open and state == IncidentState.BUMPED
    return Gate(
        incident_id=incident_id,
        state=IncidentState.DRAINED if is_open else state,
        active_leases=counts.active_leases,
        unknown_effects=counts.unknown_effects,
        pending_results=counts.pending_results,
        open=is_open,
        blocking=blocking,
        oldest_holder=next(_oldest(incident_id), None),
        latest_expiry=leases_of(incident_id).aggregate(last=Max("lease_expires_at"))["last"],
        at=at,
    )


def count_gate(incident_id: UUID) -> GateCounts:
    """The three counts; decisive only where the exclusive gates of the incident's queues are held."""
    return GateCounts(
        active_leases=leases_of(incident_id).count(),
        unknown_effects=effects_out(incident_id).count(),
        pending_results=undecided_of(incident_id).count(),
    )


def is_drained(incident_id: UUID) -> bool:
    """Whether the gate of a bumped incident is open; stops at the first row that closes it."""
    return not (
        leases_of(incident_id).exists()
        or undecided_of(incident_id).exists()
        or effects_out(incident_id).exists()
    )


def leases_of(incident_id: UUID) -> QuerySet[IncidentHold]:
    """Leases that the bump revoked and that have not run out: their owners may not know yet."""
    return IncidentHold.objects.filter(incident_id=incident_id, lease_expires_at__gt=ServerClock())


def effects_out(incident_id: UUID) -> QuerySet[EffectSlot]:
    """Every effect of the incident's queues that may be out, of whichever epoch."""
    queues = IncidentQueue.objects.filter(incident_id=incident_id).values("queue_id")
    return EffectSlot.objects.filter(state__in=sorted(MAY_BE_OUT), task__queue_id__in=queues)


def undecided_of(incident_id: UUID) -> QuerySet[StagedResult]:
    """Canonical candidates of revoked attempts that nobody has decided about; what came late is none."""
    return StagedResult.objects.filter(
        canonical_candidate=True,
        attempt__incident_holds__incident_id=incident_id,
        ruling=None,
    )


def _leases(incident_id: UUID) -> Iterator[Blocker]:
    for hold in _holders(incident_id).order_by("-lease_expires_at", "id")[:MAX_BLOCKING]:
        yield _holder(hold)


def _oldest(incident_id: UUID) -> Iterator[Blocker]:
    for hold in _holders(incident_id).order_by("attempt__started_at", "id")[:1]:
        yield _holder(hold)


def _holders(incident_id: UUID) -> QuerySet[IncidentHold]:
    return (
        leases_of(incident_id)
        .select_related("attempt__task__queue", "attempt__task__run")
        .defer("attempt__task__input", "attempt__task__run__metadata")
    )


def _holder(hold: IncidentHold) -> Blocker:
    attempt = hold.attempt
    return Blocker(
        kind=BlockerKind.LEASE,
        queue=attempt.task.queue.name,
        run_id=attempt.task.run.run_id,
        task_id=attempt.task_id,
        node_id=attempt.task.node_id,
        attempt_id=attempt.attempt_id,
        effect_id=None,
        owner=attempt.owner,
        state=attempt.state,
        since=attempt.started_at,
        until=hold.lease_expires_at,
    )


def _effects(incident_id: UUID) -> Iterator[Blocker]:
    rows = (
        effects_out(incident_id)
        .select_related("task__queue", "task__run")
        .defer("payload", "condition", "task__input", "task__run__metadata")
    )
    for effect in rows.order_by(F("unknown_since").asc(nulls_first=True), "effect_id")[
        :MAX_BLOCKING
    ]:
        yield Blocker(
            kind=BlockerKind.EFFECT,
            queue=effect.task.queue.name,
            run_id=effect.task.run.run_id,
            task_id=effect.task_id,
            node_id=effect.node_id,
            attempt_id=None,
            effect_id=effect.effect_id,
            owner=None,
            state=effect.state,
            since=effect.unknown_since or effect.accepted_at,
            until=effect.call_deadline,
        )


def _results(incident_id: UUID) -> Iterator[Blocker]:
    rows = (
        undecided_of(incident_id)
        .select_related("attempt__task__queue", "attempt__task__run")
        .defer("result", "attempt__task__input", "attempt__task__run__metadata")
    )
    for staged in rows.order_by("id")[:MAX_BLOCKING]:
        attempt = staged.attempt
        yield Blocker(
            kind=BlockerKind.RESULT,
            queue=attempt.task.queue.name,
            run_id=attempt.task.run.run_id,
            task_id=attempt.task_id,
            node_id=attempt.task.node_id,
            attempt_id=attempt.attempt_id,
            effect_id=None,
            owner=attempt.owner,
            state=attempt.state,
            since=staged.staged_at,
            until=None,
        )
