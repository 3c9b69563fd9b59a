"""The audit: events by who, what, when and where, at a cost that doesn't grow with the history (console design, 7.9).

Only some filters have an index. A page therefore looks at a bounded stretch of ids at a time and
says how far back it looked; a range of time is turned into a range of ids by bisection.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from coordinator.models import Event
from coordinator.selectors.audit_chain import SealedLink, links_of

PAGE_SIZE: Final = 50
#: One page looks at no more events than these.
STRETCH: Final = 50_000
EXPORT_STRETCH: Final = 5_000
#: An export ends after so many events, and says so.
MAX_EXPORTED: Final = 100_000
MAX_LOOKED_AT: Final = 2_000_000
#: Ids follow the clock but for what was recorded side by side.
SLACK: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """What is asked for; empty means any. `refused`: `only`, `without`, or empty.

    `object` is the name of what an event is about; `ids` one that a task, an attempt or a run may have.
    """

    actor: str = ""
    kind: str = ""
    queue: str = ""
    object: str = ""
    ids: UUID | None = None
    refused: str = ""
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditRow:
    id: int
    at: datetime
    kind: str
    actor: str
    queue: str | None
    run_id: UUID | None
    task_id: UUID | None
    node_id: str | None
    attempt_id: UUID | None
    state_version: int | None
    request_id: str
    data: dict[str, Any]
    repeats: int
    last_at: datetime | None
    #: Its place in the chain, as the table has it: only an export asks.
    queue_id: int | None = None
    run_key: int | None = None
    link: SealedLink | None = None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Newest first. `before` continues: where more follow (`older`), or where looking stopped."""

    rows: tuple[AuditRow, ...]
    before: int | None
    older: bool


@dataclass(frozen=True, slots=True)
class Reach:
    """The ids to look among: from `first` to before `before`."""

    first: int
    before: int


_COLUMNS: Final = (
    "id",
    "at",
    "kind",
    "actor",
    "queue__name",
    "run__run_id",
    "task_id",
    "task__node_id",
    "attempt_id",
    "state_version",
    "request_id",
    "data",
    "repeats",
    "last_at",
    "queue_id",
    "run_id",
)
#: The first id whose event is not before an instant: some thirty probes of the primary key.
_BISECT: Final = """
WITH RECURSIVE ends AS (
  SELECT coalesce(min(id), 1) AS first, coalesce(max(id), 0) + 1 AS last FROM coordinator_event
), search(lo, hi) AS (
  SELECT first, last FROM ends
  UNION ALL
  SELECT CASE WHEN probe.at < %(at)s THEN (lo + hi) / 2 + 1 ELSE lo END,
         CASE WHEN probe.at < %(at)s THEN hi ELSE (lo + hi) / 2 END
  FROM search LEFT JOIN LATERAL (
    SELECT at FROM coordinator_event WHERE id >= (lo + hi) / 2 ORDER BY id LIMIT 1
  ) probe ON true
  WHERE lo < hi
)
SELECT lo FROM search WHERE lo >= hi
"""
_ENDS: Final = "SELECT coalesce(min(id), 1), coalesce(max(id), 0) + 1 FROM coordinator_event"


def read_page(wanted: AuditFilter, *, before: int | None = None) -> AuditPage:
    reach = _reach(wanted, before)
    lowest = max(reach.first, reach.before - STRETCH)
    found = _rows(wanted, Reach(lowest, reach.before), PAGE_SIZE + 1)
    if len(found) > PAGE_SIZE:
        return AuditPage(found[:PAGE_SIZE], found[PAGE_SIZE - 1].id, older=True)
    return AuditPage(found, lowest if lowest > reach.first else None, older=False)


def export_rows(wanted: AuditFilter, *, before: int | None = None) -> Iterator[AuditRow | int]:
    """Every event, newest first. Where it had to end early the last item is the id to go on before."""
    reach = _reach(wanted, before)
    top, bottom = reach.before, max(reach.first, reach.before - MAX_LOOKED_AT)
    told = 0
    while top > bottom and told < MAX_EXPORTED:
        lowest = max(bottom, top - EXPORT_STRETCH)
        found = _rows(wanted, Reach(lowest, top), min(EXPORT_STRETCH, MAX_EXPORTED - told))
        links = links_of([row.id for row in found])
        yield from (replace(row, link=links.get(row.id)) for row in found)
        told += len(found)
        top = found[-1].id if told >= MAX_EXPORTED else lowest
    if top > reach.first:
        yield top


def _reach(wanted: AuditFilter, before: int | None) -> Reach:
    with connection.cursor() as cursor:
        cursor.execute(_ENDS)
        ends = cursor.fetchone()
        assert ends is not None
        first, end = ends
        if wanted.since:
            first = max(first, _first_id(cursor, wanted.since - SLACK))
        if wanted.until:
            end = min(end, _first_id(cursor, wanted.until + SLACK))
    return Reach(first, min(end, before) if before else end)


def _first_id(cursor: Any, at: datetime) -> int:
    cursor.execute(_BISECT, {"at": at})
    return int(cursor.fetchone()[0])


def _rows(wanted: AuditFilter, reach: Reach, limit: int) -> tuple[AuditRow, ...]:
    rows = _matching(wanted).filter(id__gte=reach.first, id__lt=reach.before).order_by("-id")
    return tuple(AuditRow(*row) for row in rows.values_list(*_COLUMNS)[:limit])


def _matching(wanted: AuditFilter) -> QuerySet[Event]:
    rows = Event.objects.all()
    exact = {"kind": wanted.kind, "queue__name": wanted.queue}
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if wanted.actor:
        rows = rows.filter(actor__contains=wanted.actor)
    if wanted.object:
        rows = rows.filter(Q(data__name=wanted.object) | Q(data__person=wanted.object))
    if wanted.ids:
        one = Q(task_id=wanted.ids) | Q(attempt_id=wanted.ids) | Q(run__run_id=wanted.ids)
        rows = rows.filter(one | Q(data__credential_id=str(wanted.ids)))
    if wanted.refused:
        rows = rows.filter(refusal_key__isnull=wanted.refused == "without")
    if wanted.since:
        rows = rows.filter(at__gte=wanted.since)
    if wanted.until:
        rows = rows.filter(at__lt=wanted.until)
    return rows
