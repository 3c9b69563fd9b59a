"""Shadow rounds as they are read: the verdict, both sides, and the events behind it (contract 13)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson
from django.db.models import Q, QuerySet
from django.db.models.functions import Now

from coordinator.clock import read_clock
from coordinator.models import ShadowEvent, ShadowExplanation, ShadowRound
from coordinator.shadow.words import MISMATCHES, RoundVerdict

from .reasons import ServerClock
from .tasks import queue_number

MAX_EVENTS: Final = 500  # of one round; the first ones are shown


@dataclass(frozen=True, slots=True)
class RoundFilters:
    queue: str | None = None
    verdict: RoundVerdict | None = None
    mismatch: bool | None = None
    explained: bool | None = None
    legacy_end: str | None = None
    claim_end: str | None = None
    task_key: str | None = None
    source: str | None = None


@dataclass(frozen=True, slots=True)
class SideRecord:
    """How one side ended the round."""

    end: str
    owner: str
    result_digest: str | None


@dataclass(frozen=True, slots=True)
class MismatchRecord:
    """The exemplar: which event, what the legacy scheduler did, what claim.v1 answers to the same call."""

    verdict: str
    event_id: str
    beside: str
    legacy: str
    claim_v1: str


@dataclass(frozen=True, slots=True)
class RoundRecord:
    round_id: UUID
    queue: str
    source: str
    task_key: str
    number: int
    verdict: str | None
    mismatches: list[MismatchRecord]
    legacy: SideRecord | None
    claim_v1: SideRecord | None
    events: int
    too_late: int
    opened_at: datetime
    closes_at: datetime | None
    settled_at: datetime | None
    explained: bool


@dataclass(frozen=True, slots=True)
class LegacyEventRecord:
    event_id: str
    event: str
    owner: str
    at: datetime
    lease_seconds: float | None
    result_digest: str | None
    input_digest: str | None
    received_at: datetime
    too_late: bool


@dataclass(frozen=True, slots=True)
class ExplanationRecord:
    verdict: str
    of_class: bool
    triage: str
    reason: str
    owner: str
    link: str
    operator: str
    at: datetime
    expires_at: datetime | None


@dataclass(frozen=True, slots=True)
class RoundDetail:
    """A round with its first events in the order of time, and what people said about it and its class."""

    round: RoundRecord
    events: list[LegacyEventRecord]
    more_events: bool
    explanations: list[ExplanationRecord]


def list_rounds(filters: RoundFilters) -> QuerySet[ShadowRound]:
    """Newest first; page by `round_id`."""
    rounds = ShadowRound.objects.select_related("queue")
    wanted = {
        "verdict": filters.verdict,
        "legacy_end": filters.legacy_end,
        "claim_end": filters.claim_end,
        "task_key": filters.task_key,
        "source": filters.source,
        "queue_id": queue_number(filters.queue),
    }
    rounds = rounds.filter(**{name: value for name, value in wanted.items() if value is not None})
    if filters.mismatch is not None:
        is_mismatch = Q(verdict__in=MISMATCHES)
        rounds = rounds.filter(is_mismatch if filters.mismatch else ~is_mismatch)
    if filters.explained is not None:
        rounds = rounds.filter(verdict__in=MISMATCHES)
        known = is_explained(list(live_classes()))
        rounds = rounds.filter(known if filters.explained else ~known)
    return rounds.order_by("-round_id")


def live_classes(queue_id: int | None = None) -> dict[tuple[int, str], ShadowExplanation]:
    """The classes that a person has explained and whose explanation has not expired, by (queue, class).

    The newest word on a class counts, so that a new one can also end an old one sooner.
    """
    said = ShadowExplanation.objects.filter(is_of_class=True).annotate(clock=ServerClock())
    if queue_id is not None:
        said = said.filter(queue_id=queue_id)
    newest = said.order_by("queue_id", "verdict", "-id").distinct("queue_id", "verdict")
    return {
        (one.queue_id, one.verdict): one
        for one in newest
        if one.expires_at is not None and one.expires_at > one.clock
    }


def is_explained(classes: list[tuple[int, str]]) -> Q:
    """Whether a person explained the round itself, or its class; neither has expired."""
    itself = Q(explained_at__isnull=False) & (
        Q(explained_until=None) | Q(explained_until__gt=Now())
    )
    known = itself
    for queue_id, verdict in classes:
        known |= Q(queue_id=queue_id, verdict=verdict)
    return known


def find_round(round_id: UUID) -> RoundDetail | None:
    found = ShadowRound.objects.select_related("queue").filter(round_id=round_id).first()
    if found is None:
        return None
    events = list(found.told.order_by("at", "event_id")[: MAX_EVENTS + 1])
    said = ShadowExplanation.objects.filter(
        Q(round=found) | Q(queue_id=found.queue_id, verdict=found.verdict, is_of_class=True)
    ).order_by("-id")[:MAX_EVENTS]
    return RoundDetail(
        round=round_record(found, classes=set(live_classes(found.queue_id))),
        events=[_event_record(event) for event in events[:MAX_EVENTS]],
        more_events=len(events) > MAX_EVENTS,
        explanations=[explanation_record(one) for one in said],
    )


def round_record(found: ShadowRound, *, classes: set[tuple[int, str]]) -> RoundRecord:
    """`classes`: the keys of live_classes. No further query."""
    return RoundRecord(
        round_id=found.round_id,
        queue=found.queue.name,
        source=found.source,
        task_key=found.task_key,
        number=found.number,
        verdict=found.verdict,
        mismatches=[MismatchRecord(**one) for one in orjson.loads(found.mismatches)],
        legacy=_side(found.legacy_end, found.legacy_owner, found.legacy_result),
        claim_v1=_side(found.claim_end, found.claim_owner, found.claim_result),
        events=found.events,
        too_late=found.too_late,
        opened_at=found.opened_at,
        closes_at=found.closes_at,
        settled_at=found.settled_at,
        explained=_explained(found, classes),
    )


def explanation_record(one: ShadowExplanation) -> ExplanationRecord:
    return ExplanationRecord(
        verdict=one.verdict,
        of_class=one.is_of_class,
        triage=one.triage,
        reason=one.reason,
        owner=one.owner,
        link=one.link,
        operator=one.operator,
        at=one.at,
        expires_at=one.expires_at,
    )


def _explained(found: ShadowRound, classes: set[tuple[int, str]]) -> bool:
    if found.verdict not in MISMATCHES:
        return False
    until = found.explained_until
    itself = found.explained_at is not None and (until is None or until > read_clock())
    return itself or (found.queue_id, found.verdict) in classes


def _side(end: str | None, owner: str, result: str | None) -> SideRecord | None:
    return None if end is None else SideRecord(end, owner, result)


def _event_record(event: ShadowEvent) -> LegacyEventRecord:
    return LegacyEventRecord(
        event_id=event.event_id,
        event=event.event,
        owner=event.owner,
        at=event.at,
        lease_seconds=event.lease_seconds,
        result_digest=event.result_digest,
        input_digest=event.input_digest,
        received_at=event.received_at,
        too_late=event.is_too_late,
    )
