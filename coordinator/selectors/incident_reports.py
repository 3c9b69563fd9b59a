"""The report of an incident: who did what when, what was taken back, what came late, what it cost (contract 12)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Max, QuerySet, Sum
from django.db.models.fields.json import KT

from coordinator.clock import read_clock
from coordinator.models import (
    Attempt,
    CandidateDecision,
    Event,
    Incident,
    IncidentEffect,
    IncidentHold,
    StagedResult,
)
from coordinator.states import IncidentState

from .incident_effects import EffectStory, effect_stories
from .incident_previews import Cost, cost_of
from .incidents import IncidentRecord, find_incident, incident_record

#: So many rows of each list are told, the newest of the timeline left out last; all are counted.
MAX_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class TimelineEntry:
    """A step, a decision, a refused one, an alarm, or a queue's switch."""

    at: datetime
    kind: str
    by: str
    address: str
    request_id: str
    data: dict[str, Any]
    repeats: int


@dataclass(frozen=True, slots=True)
class Durations:
    """In seconds; None for what has not ended. `draining` ends when the last thing had run out or was settled."""

    stopped: float | None
    draining: float | None
    drained: float | None
    switched: float | None
    total: float | None


@dataclass(frozen=True, slots=True)
class HoldStory:
    """A revoked attempt: what it held, until when, and what it has used. FENCED: it came back and was refused."""

    attempt_id: UUID
    task_id: UUID
    node_id: str
    queue: str
    owner: str
    pool: str
    lease_expires_at: datetime
    attempt_state: str
    task_state: str
    cost_usd: float


@dataclass(frozen=True, slots=True)
class FencedCall:
    """Calls of one revoked attempt that came after the bump; equal ones are counted."""

    attempt_id: UUID
    task_id: UUID
    point: str
    outcome: str
    reason: str | None
    calls: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class CandidateStory:
    """A result that a revoked attempt had put aside, and the word about it."""

    attempt_id: UUID
    task_id: UUID
    node_id: str
    result_digest: str
    staged_at: datetime
    decision: str | None
    by: str | None
    at: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class VoidedApproval:
    approval_id: str
    effect_id: str


@dataclass(frozen=True, slots=True)
class IncidentStory:
    """Everything that is known of an incident. Each list tells at most 500 rows; counts tell of all.

    `stale_claims`: claims with an old epoch that were refused. `abandoned`: what the revoked
    attempts have used.
    """

    incident: IncidentRecord
    durations: Durations
    timeline: list[TimelineEntry]
    revoked: int
    holds: list[HoldStory]
    abandoned: Cost
    fenced_calls: int
    fenced: list[FencedCall]
    stale_claims: int
    effect_count: int
    effects: list[EffectStory]
    candidate_count: int
    candidates: list[CandidateStory]
    voided: int
    voided_approvals: list[VoidedApproval]
    told_at: datetime


def tell_incident(incident_id: UUID) -> IncidentStory | None:
    """Made of the events and rows as they stand; the same again once the incident is over, but for late calls."""
    found = find_incident(incident_id)
    if found is None:
        return None
    record, now = incident_record(found), read_clock()
    steps = {step.step: step.at for step in record.steps}
    events = _events(incident_id)
    bumped = steps.get(IncidentState.BUMPED)
    holds = IncidentHold.objects.filter(incident_id=incident_id)
    fenced = _late_calls(holds, bumped) if bumped else Event.objects.none()
    effect_count, effects = effect_stories(found, until=steps.get(IncidentState.SWITCHED))
    candidates = _staged(incident_id)
    return IncidentStory(
        incident=record,
        durations=_durations(found, steps, now),
        timeline=_timeline(events),
        revoked=holds.count(),
        holds=_holds(holds),
        abandoned=cost_of(Attempt.objects.filter(incident_holds__incident_id=incident_id)),
        fenced_calls=fenced.aggregate(calls=Sum(F("repeats") + 1, default=0))["calls"],
        fenced=[_fenced_call(event) for event in fenced.order_by("id")[:MAX_ROWS]],
        stale_claims=_stale_claims(found, events) if bumped else 0,
        effect_count=effect_count,
        effects=effects,
        candidate_count=candidates.count(),
        candidates=_candidates(candidates),
        voided=events.filter(kind="APPROVAL_VOID").count(),
        voided_approvals=_voided(events),
        told_at=now,
    )


def _events(incident_id: UUID) -> QuerySet[Event]:
    return (
        Event.objects.filter(task__isnull=True, data__has_key="incident_id")
        .annotate(incident=KT("data__incident_id"))
        .filter(incident=str(incident_id))
        .order_by("id")
    )


def _timeline(events: QuerySet[Event]) -> list[TimelineEntry]:
    return [
        TimelineEntry(
            at=event.at,
            kind=event.kind,
            by=event.actor,
            address=event.data.get("address", ""),
            request_id=event.request_id,
            data={
                name: value
                for name, value in event.data.items()
                if name not in ("address", "incident_id")
            },
            repeats=event.repeats,
        )
        for event in events.exclude(kind="APPROVAL_VOID")[:MAX_ROWS]
    ]


def _voided(events: QuerySet[Event]) -> list[VoidedApproval]:
    rows = events.filter(kind="APPROVAL_VOID").values_list("data", flat=True)[:MAX_ROWS]
    return [VoidedApproval(row["approval_id"], row["effect_id"]) for row in rows]


def _durations(incident: Incident, steps: dict[str, datetime], now: datetime) -> Durations:
    opened, bumped = steps[IncidentState.STOPPED], steps.get(IncidentState.BUMPED)
    switched, ended = steps.get(IncidentState.SWITCHED), incident.ended_at
    drained = _drained_at(incident, bumped, min(filter(None, (switched, now))))
    return Durations(
        stopped=_seconds(opened, bumped or incident.ended_at),
        draining=_seconds(bumped, drained),
        drained=_seconds(drained, switched),
        switched=_seconds(switched, ended),
        total=_seconds(opened, ended),
    )


def _drained_at(incident: Incident, bumped: datetime | None, until: datetime) -> datetime | None:
    """When the last lease had run out, the last effect was settled and the last candidate decided about."""
    if bumped is None or incident_record(incident).state == IncidentState.BUMPED:
        return None
    lasts: list[datetime | None] = [
        IncidentHold.objects.filter(incident=incident).aggregate(at=Max("lease_expires_at"))["at"],
        IncidentEffect.objects.filter(incident=incident).aggregate(at=Max("effect__settled_at"))[
            "at"
        ],
        CandidateDecision.objects.filter(incident=incident).aggregate(at=Max("at"))["at"],
    ]
    return min(max([bumped, *(each for each in lasts if each is not None)]), until)


def _seconds(begin: datetime | None, end: datetime | None) -> float | None:
    if begin is None or end is None:
        return None
    return round((end - begin).total_seconds(), 3)


def _holds(holds: QuerySet[IncidentHold]) -> list[HoldStory]:
    rows = holds.select_related("attempt__task__queue").defer("attempt__task__input")
    return [
        HoldStory(
            attempt_id=hold.attempt_id,
            task_id=hold.attempt.task_id,
            node_id=hold.attempt.task.node_id,
            queue=hold.attempt.task.queue.name,
            owner=hold.attempt.owner,
            pool=hold.attempt.pool,
            lease_expires_at=hold.lease_expires_at,
            attempt_state=hold.attempt.state,
            task_state=hold.attempt.task.state,
            cost_usd=float(hold.attempt.cost_usd),
        )
        for hold in rows.order_by("id")[:MAX_ROWS]
    ]


def _late_calls(holds: QuerySet[IncidentHold], bumped: datetime) -> QuerySet[Event]:
    """What revoked attempts were refused since the bump."""
    return Event.objects.filter(
        kind="REFUSED",
        at__gte=bumped,
        task_id__in=holds.values("attempt__task_id"),
        attempt_id__in=holds.values("attempt_id"),
    )


def _fenced_call(event: Event) -> FencedCall:
    assert event.attempt_id is not None, "the query asks for it"
    assert event.task_id is not None, "the query asks for it"
    return FencedCall(
        attempt_id=event.attempt_id,
        task_id=event.task_id,
        point=event.data.get("point", ""),
        outcome=event.data.get("outcome", ""),
        reason=event.data.get("reason"),
        calls=event.repeats + 1,
        first_at=event.at,
        last_at=event.last_at or event.at,
    )


def _stale_claims(incident: Incident, events: QuerySet[Event]) -> int:
    """Claims with an old epoch that were refused while the incident was open; between its own events."""
    first = events.values_list("id", flat=True).first()
    last = events.values_list("id", flat=True).last()
    refused = Event.objects.filter(
        task__isnull=True,
        kind="REFUSED",
        id__gte=first,
        queue_id__in=[lane.queue_id for lane in incident.lanes.all()],
        data__point="claim",
        data__reason="STALE_EPOCH",
    )
    if incident.ended_at is not None:
        refused = refused.filter(id__lte=last)
    return int(refused.aggregate(calls=Sum(F("repeats") + 1, default=0))["calls"])


def _staged(incident_id: UUID) -> QuerySet[StagedResult]:
    return StagedResult.objects.filter(
        canonical_candidate=True, attempt__incident_holds__incident_id=incident_id
    )


def _candidates(staged: QuerySet[StagedResult]) -> list[CandidateStory]:
    rows = staged.select_related("attempt__task", "ruling").defer("result", "attempt__task__input")
    return [_candidate(each) for each in rows.order_by("id")[:MAX_ROWS]]


def _candidate(staged: StagedResult) -> CandidateStory:
    ruling: CandidateDecision | None = getattr(staged, "ruling", None)
    return CandidateStory(
        attempt_id=staged.attempt_id,
        task_id=staged.attempt.task_id,
        node_id=staged.attempt.task.node_id,
        result_digest=staged.result_digest,
        staged_at=staged.staged_at,
        decision=ruling.decision if ruling else None,
        by=ruling.actor if ruling else None,
        at=ruling.at if ruling else None,
        reason=ruling.reason if ruling else None,
    )
