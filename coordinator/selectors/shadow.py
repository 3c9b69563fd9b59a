"""A queue's shadow at a glance: how often both sides agree, and where they part (contract 13)."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from math import sqrt
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import Count, OuterRef, Subquery

from coordinator.models import Queue, ShadowExplanation, ShadowRound, ShadowSource
from coordinator.shadow.words import MISMATCHES

from .reasons import ServerClock
from .shadow_rounds import ExplanationRecord, explanation_record, is_explained, live_classes

WINDOW_HOURS: Final = 24
MAX_WINDOW_HOURS: Final = 24 * 90
TREND_BUCKETS: Final = 12
MAX_SOURCES: Final = 100
#: The 95 % quantile of the normal distribution, two-sided.
_Z: Final = 1.959963984540054


@dataclass(frozen=True, slots=True)
class WinnerCell:
    """How many rounds ended so on either side."""

    legacy: str
    claim_v1: str
    rounds: int


@dataclass(frozen=True, slots=True)
class MismatchClass:
    """One class of mismatch in a queue, over all rounds that are kept; `trend` over the window, oldest first."""

    verdict: str
    rounds: int
    unexplained: int
    first_at: datetime
    last_at: datetime
    trend: list[int]
    exemplar: UUID
    explanation: ExplanationRecord | None


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A feed. `lost` is what it says that it had to drop; `conflicts`: known event ids with another body."""

    name: str
    events: int
    duplicates: int
    conflicts: int
    too_late: int
    lost: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True, slots=True)
class ShadowSummary:
    """`sample`, rates and matrix are of rounds settled within the window.

    `rate_upper` is the upper end of the mismatch rate's 95 % Wilson interval. `noise` is how often
    the legacy side contradicts itself: of events that were told twice, the share told differently;
    null where none was told twice.
    """

    queue: str
    rollout_stage: str
    stage_since: datetime
    computed_at: datetime
    window_hours: int
    sample: int
    mismatched: int
    rate: float | None
    rate_upper: float | None
    noise: float | None
    unexplained: int
    open_rounds: int
    matrix: list[WinnerCell]
    classes: list[MismatchClass]
    sources: list[SourceRecord]


def read_shadow(*, queue: str, window_hours: int = WINDOW_HOURS) -> ShadowSummary | None:
    """Everything that the shadow page shows of a queue, in five queries; None where there is no such queue."""
    open_rounds = ShadowRound.objects.filter(queue_id=OuterRef("pk"), verdict=None).order_by()
    counted = open_rounds.values("queue_id").annotate(count=Count("round_id")).values("count")
    found = (
        Queue.objects.annotate(clock=ServerClock(), open_rounds=Subquery(counted))
        .filter(name=queue)
        .first()
    )
    if found is None:
        return None
    clock: datetime = found.clock
    since = clock - timedelta(hours=max(1, min(window_hours, MAX_WINDOW_HOURS)))
    cells = _matrix(found.pk, since)
    classes = _classes(found.pk, since, clock)
    sources = list(
        ShadowSource.objects.filter(queue_id=found.pk).order_by("-last_at", "name")[:MAX_SOURCES]
    )
    sample = sum(count for *_, count in cells)
    mismatched = sum(count for is_mismatch, *_, count in cells if is_mismatch)
    duplicates = sum(source.duplicates for source in sources)
    return ShadowSummary(
        queue=found.name,
        rollout_stage=found.rollout_stage,
        stage_since=found.stage_since,
        computed_at=clock,
        window_hours=window_hours,
        sample=sample,
        mismatched=mismatched,
        rate=mismatched / sample if sample else None,
        rate_upper=wilson_upper(mismatched, sample),
        noise=sum(source.conflicts for source in sources) / duplicates if duplicates else None,
        unexplained=sum(one.unexplained for one in classes),
        open_rounds=found.open_rounds or 0,
        matrix=_cells(cells),
        classes=classes,
        sources=[_source_record(source) for source in sources],
    )


def wilson_upper(hits: int, sample: int) -> float | None:
    """The upper end of the 95 % Wilson score interval of a rate; None of no sample."""
    if not sample:
        return None
    rate, square = hits / sample, _Z**2
    middle = rate + square / (2 * sample)
    spread = _Z * sqrt(rate * (1 - rate) / sample + square / (4 * sample**2))
    return min(1.0, (middle + spread) / (1 + square / sample))


def count_unexplained(queue_id: int) -> int:
    """Mismatches of the queue that nobody has explained, or whose explanation has expired."""
    rounds = ShadowRound.objects.filter(queue_id=queue_id, verdict__in=MISMATCHES)
    return rounds.exclude(is_explained(list(live_classes(queue_id)))).count()


def _matrix(queue_id: int, since: datetime) -> list[tuple[bool, str, str, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_MATRIX, [queue_id, since])
        rows: list[tuple[bool, str, str, int]] = cursor.fetchall()
    return rows


def _cells(rows: list[tuple[bool, str, str, int]]) -> list[WinnerCell]:
    counted: dict[tuple[str, str], int] = {}
    for _, legacy, claim, count in rows:
        counted[legacy, claim] = counted.get((legacy, claim), 0) + count
    return [WinnerCell(*ends, count) for ends, count in sorted(counted.items())]


def _classes(queue_id: int, since: datetime, clock: datetime) -> list[MismatchClass]:
    live = live_classes(queue_id)
    with connection.cursor() as cursor:
        span = [since.timestamp(), clock.timestamp() + 1]
        cursor.execute(_CLASSES, [TREND_BUCKETS, *span, TREND_BUCKETS, queue_id, list(MISMATCHES)])
        rows = cursor.fetchall()
    return [_class(row, live.get((queue_id, row[0]))) for row in rows]


def _class(row: tuple[Any, ...], said: ShadowExplanation | None) -> MismatchClass:
    verdict, rounds, unexplained, first_at, last_at, exemplar, buckets = row
    counts = orjson.loads(buckets) if buckets else {}
    trend = [counts.get(str(bucket), 0) for bucket in range(1, TREND_BUCKETS + 1)]
    return MismatchClass(
        verdict=verdict,
        rounds=rounds,
        unexplained=0 if said else unexplained,
        first_at=first_at,
        last_at=last_at,
        trend=trend,
        exemplar=exemplar,
        explanation=explanation_record(said) if said else None,
    )


def _source_record(source: ShadowSource) -> SourceRecord:
    return SourceRecord(
        name=source.name,
        events=source.events,
        duplicates=source.duplicates,
        conflicts=source.conflicts,
        too_late=source.too_late,
        lost=source.lost,
        first_at=source.first_at,
        last_at=source.last_at,
    )


_MATRIX: Final = """
SELECT verdict <> 'AGREE', legacy_end, claim_end, count(*) FROM coordinator_shadowround
WHERE queue_id = %s AND settled_at >= %s AND settled_at IS NOT NULL AND is_counted GROUP BY 1, 2, 3
"""
#: The newest round of a class is its exemplar. Mismatches are few; they have an index of their own.
_CLASSES: Final = """
SELECT verdict, sum(rounds)::bigint, sum(unexplained)::bigint, min(first_at), max(last_at), max(newest)::uuid,
       jsonb_object_agg(bucket, rounds) FILTER (WHERE bucket BETWEEN 1 AND %s)
FROM (
  SELECT verdict, count(*) AS rounds,
         count(*) FILTER (WHERE explained_at IS NULL OR explained_until <= clock_timestamp()) AS unexplained,
         min(settled_at) AS first_at, max(settled_at) AS last_at,
         max(round_id::text) AS newest,
         width_bucket(extract(epoch FROM settled_at)::float8, %s::float8, %s::float8, %s) AS bucket
  FROM coordinator_shadowround
  WHERE queue_id = %s AND verdict = ANY(%s::text[])
  GROUP BY verdict, bucket) bucketed
GROUP BY verdict ORDER BY verdict
"""
