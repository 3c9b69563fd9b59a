"""Bulk jobs as pages show them: the frozen set, its progress, and what came of each task."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Count

from coordinator.models import BulkItem, BulkJob
from coordinator.seen import BulkSeen

JOBS_SHOWN: Final = 50
#: Items that a page lists of each outcome; the counts are of all.
ITEMS_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class BulkFacts:
    bulk_id: UUID
    verb: str
    asked: str
    more: bool
    reason: str | None
    not_before: datetime | None
    undoes: UUID | None
    operator: int
    operator_name: str
    reviewed_at: datetime
    started_at: datetime | None
    stopped_at: datetime | None
    finished_at: datetime | None

    @property
    def state(self) -> str:
        if self.finished_at:
            return "STOPPED" if self.stopped_at else "DONE"
        return "RUNNING" if self.started_at else "REVIEWED"

    @property
    def seen(self) -> BulkSeen:
        return BulkSeen(self.started_at, self.stopped_at, self.finished_at)


@dataclass(frozen=True, slots=True)
class BulkRow:
    """`outcome` is None while the item waits for its turn."""

    task_id: UUID
    node_id: str
    queue: str
    seen_state: str
    outcome: str | None
    detail: str
    done_at: datetime | None


@dataclass(frozen=True, slots=True)
class Bulk:
    """`counts` by outcome; `""` counts what waits. `rows` of each outcome, up to ITEMS_SHOWN."""

    facts: BulkFacts
    counts: Mapping[str, int]
    rows: Mapping[str, tuple[BulkRow, ...]]
    undone_by: UUID | None = None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def waiting(self) -> int:
        return self.counts.get("", 0)

    @property
    def done(self) -> int:
        return self.total - self.waiting


def read_bulk(bulk_id: UUID) -> Bulk | None:
    job = BulkJob.objects.filter(pk=bulk_id).values_list(*_FACTS).first()
    if job is None:
        return None
    rows = BulkItem.objects.filter(job_id=bulk_id).order_by("id")
    by_outcome: dict[str, list[BulkRow]] = {}
    for row in rows.values_list(*BulkRow.__dataclass_fields__):
        found = BulkRow(*row)
        by_outcome.setdefault(found.outcome or "", []).append(found)
    return Bulk(
        BulkFacts(*job),
        {outcome: len(each) for outcome, each in by_outcome.items()},
        {outcome: tuple(each[:ITEMS_SHOWN]) for outcome, each in by_outcome.items()},
        BulkJob.objects.filter(undoes=bulk_id).values_list("bulk_id", flat=True).first(),
    )


def list_bulks(*, before: UUID | None = None) -> list[tuple[BulkFacts, int, int]]:
    """A page of jobs and one more, newest first, each with its size and how many items have their outcome."""
    rows = BulkJob.objects.annotate(total=Count("items"), done=Count("items__outcome"))
    if before is not None:
        rows = rows.filter(bulk_id__lt=before)
    newest = rows.order_by("-bulk_id").values_list(*_FACTS, "total", "done")[: JOBS_SHOWN + 1]
    return [(BulkFacts(*row[:-2]), row[-2], row[-1]) for row in newest]


_FACTS: Final = tuple(BulkFacts.__dataclass_fields__)
