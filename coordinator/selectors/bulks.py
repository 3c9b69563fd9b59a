"""Bulk jobs as the API tells them: how far each is, and what came of each task."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Count, QuerySet

from coordinator.models import BulkItem, BulkJob


@dataclass(frozen=True, slots=True)
class BulkRecord:
    """`state`: REVIEWED, RUNNING, DONE or STOPPED. `outcomes` counts what had its turn, `waiting` the rest."""

    bulk_id: UUID
    verb: str
    state: str
    total: int
    waiting: int
    outcomes: dict[str, int]
    more: bool
    asked: str
    reason: str | None
    not_before: datetime | None
    undoes: UUID | None
    operator: str
    reviewed_at: datetime
    started_at: datetime | None
    stopped_at: datetime | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class BulkItemRecord:
    """`outcome` is null until its turn; `seen_version` is the version that it is acted on under."""

    task_id: UUID
    node_id: str
    queue: str
    seen_state: str
    seen_version: int
    outcome: str | None
    detail: str
    done_at: datetime | None


def list_bulks() -> QuerySet[BulkJob]:
    return BulkJob.objects.all()


def find_bulk(bulk_id: UUID) -> BulkRecord | None:
    job = BulkJob.objects.filter(pk=bulk_id).first()
    return bulk_records([job])[0] if job else None


def bulk_records(jobs: Sequence[BulkJob]) -> list[BulkRecord]:
    """With the counts of all of them, by one query."""
    items = BulkItem.objects.filter(job__in=[job.bulk_id for job in jobs])
    counts: dict[UUID, dict[str, int]] = {job.bulk_id: {} for job in jobs}
    for bulk_id, outcome, count in items.values_list("job", "outcome").annotate(Count("id")):
        counts[bulk_id][outcome or ""] = count
    return [_record(job, counts[job.bulk_id]) for job in jobs]


def _record(job: BulkJob, counts: dict[str, int]) -> BulkRecord:
    outcomes = {outcome: count for outcome, count in counts.items() if outcome}
    return BulkRecord(
        job.bulk_id,
        job.verb,
        _state(job),
        sum(counts.values()),
        counts.get("", 0),
        outcomes,
        job.more,
        job.asked,
        job.reason,
        job.not_before,
        job.undoes,
        job.operator_name,
        job.reviewed_at,
        job.started_at,
        job.stopped_at,
        job.finished_at,
    )


def _state(job: BulkJob) -> str:
    if job.finished_at:
        return "STOPPED" if job.stopped_at else "DONE"
    return "RUNNING" if job.started_at else "REVIEWED"


def list_bulk_items(bulk_id: UUID, *, outcome: str | None = None) -> QuerySet[BulkItem]:
    """In the order of the review, newest task first. `outcome` is one of `outcomes`, or empty for those that wait."""
    rows = BulkItem.objects.filter(job=bulk_id)
    if outcome is None:
        return rows
    return rows.filter(outcome=outcome or None)


def bulk_item_record(row: Any) -> BulkItemRecord:
    return BulkItemRecord(*(getattr(row, name) for name in BulkItemRecord.__dataclass_fields__))
