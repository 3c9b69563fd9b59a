"""Saved views, by name; and what the filters of a page count, apart from the page (console design, 7.2)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models.functions import Lower

from coordinator.models import MAX_VIEW_NAME, MAX_VIEW_QUERY, SavedView
from coordinator.selectors.console_counts import COUNT_CAP, in_time
from coordinator.selectors.task_filters import (
    TaskFilter,
    in_order,
    pinned,
    sifted_sql,
    tasks_matching,
)

__all__ = [
    "MAX_VIEW_NAME",
    "MAX_VIEW_QUERY",
    "ViewRecord",
    "find_view",
    "list_views",
    "view_record",
]

#: All that there may be: a list that everybody reads has an end.
MAX_VIEWS: Final = 50
#: Queues that a page offers with their counts, as in the statement below, and fewer kinds; the form takes any.
MAX_FACETS: Final = 20


@dataclass(frozen=True, slots=True)
class ViewRecord:
    view_id: UUID
    name: str
    query: str
    made_by: int
    made_by_name: str
    made_at: datetime


def list_views() -> list[ViewRecord]:
    rows = SavedView.objects.order_by(Lower("name"))[:MAX_VIEWS]
    return [view_record(row) for row in rows]


def find_view(view_id: UUID) -> ViewRecord | None:
    row = SavedView.objects.filter(pk=view_id).first()
    return view_record(row) if row else None


def view_record(row: SavedView) -> ViewRecord:
    return ViewRecord(*(getattr(row, name) for name in ViewRecord.__dataclass_fields__))


def count_filters(filters: Mapping[str, TaskFilter]) -> dict[str, int]:
    """How many tasks each filter finds, capped; within its newest stretch where it has no index.

    Empty where the database can't count all of them in time.
    """
    if not filters:
        return {}
    counts = [(name, *_count_sql(pinned(wanted))) for name, wanted in filters.items()]
    sql = " UNION ALL ".join(sql for _, sql, _ in counts)
    params = [param for name, _, given in counts for param in (name, *given)]
    rows = in_time(lambda: _rows(sql, params)) or []
    return {name: min(count, COUNT_CAP + 1) for name, count in rows}


def _count_sql(wanted: TaskFilter) -> tuple[str, tuple[Any, ...]]:
    if wanted.is_sifted:
        sql, params = sifted_sql(wanted)
        return _CAPPED.format(f"{sql} LIMIT {COUNT_CAP + 1}"), params
    rows = in_order(tasks_matching(wanted), wanted).values("pk")[: COUNT_CAP + 1]
    sql, params = rows.query.sql_with_params()
    return _CAPPED.format(sql), params


_CAPPED: Final = "SELECT %s, (SELECT count(*) FROM ({}) AS found)"


@dataclass(frozen=True, slots=True)
class Facets:
    """How many tasks a filter finds in each queue and of each kind, its own queue or kind left out."""

    queues: dict[str, int]
    kinds: dict[str, int]


def read_facets(wanted: TaskFilter, names: Sequence[str]) -> Facets:
    """Capped counts of these queues, and of the kinds among the newest stretch; only those that have any.

    In one statement. Empty where the database can't count in time.
    """
    wanted = pinned(wanted)
    parts = [_by_queue(replace(wanted, queue=""), names), _by_kind(replace(wanted, kind=""))]
    sql = " UNION ALL ".join(f"({sql})" for sql, _ in parts)
    rows = in_time(lambda: _rows(sql, [param for _, given in parts for param in given])) or []
    found = Facets({}, {})
    for what, name, count in rows:
        if count:
            (found.queues if what == "queue" else found.kinds)[name] = min(count, COUNT_CAP + 1)
    return found


def _by_queue(wanted: TaskFilter, names: Sequence[str]) -> tuple[str, list[Any]]:
    if wanted.is_sifted or wanted.run_id or wanted.ids:
        sql, params = sifted_sql(wanted)
        return _BY_QUEUE.format(sql), list(params)
    each = [(name, *_count_sql(replace(wanted, queue=name))) for name in names[:MAX_FACETS]]
    if not each:
        return "SELECT 'queue', '', 0", []
    sql = " UNION ALL ".join(sql.replace("SELECT", "SELECT 'queue',", 1) for _, sql, _ in each)
    return sql, [param for name, _, given in each for param in (name, *given)]


def _by_kind(wanted: TaskFilter) -> tuple[str, list[Any]]:
    sql, params = sifted_sql(wanted)
    return _BY_KIND.format(sql), list(params)


_BY_QUEUE: Final = (
    "SELECT 'queue', q.name, n FROM (SELECT queue_id, count(*) AS n FROM ({}) AS found GROUP BY queue_id) AS lanes"
    " JOIN coordinator_queue q ON q.id = lanes.queue_id ORDER BY n DESC, q.name LIMIT 20"
)
_BY_KIND: Final = "SELECT 'kind', kind, count(*) AS n FROM ({}) AS found GROUP BY kind ORDER BY n DESC, kind LIMIT 12"


def _rows(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return list(cursor.fetchall())
