"""Counts that stop at a cap: a number on a page never costs more than its rows are worth."""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import psycopg.errors
from django.db import OperationalError, connection
from django.db.models import QuerySet

T = TypeVar("T")

#: A count beyond this is shown as "10 000+".
COUNT_CAP: Final = 10_000


def in_time(read: Callable[[], T]) -> T | None:
    """What `read` finds, or None where the database gave up: the filter leads through too many rows."""
    try:
        return read()
    except OperationalError as error:
        if isinstance(error.__cause__, psycopg.errors.QueryCanceled):
            return None
        raise


def capped_counts(
    wanted: Mapping[str, QuerySet[Any, Any]], *, cap: int = COUNT_CAP
) -> dict[str, int]:
    """How many rows each query has, `cap + 1` for more, all in one round trip. Those that come first are counted."""
    if not wanted:
        return {}
    selects: list[str] = []
    params: list[Any] = []
    for name, rows in wanted.items():
        query = rows.values("pk")[: cap + 1].query
        if query.is_empty():
            selects.append("SELECT %s, 0")
            params.append(name)
            continue
        sql, given = query.sql_with_params()
        selects.append(f"SELECT %s, (SELECT count(*) FROM ({sql}) AS counted)")  # noqa: S608 (the ORM's own SQL)
        params += [name, *given]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(selects), params)
        return dict(cursor.fetchall())
