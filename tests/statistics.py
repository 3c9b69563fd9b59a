"""What PostgreSQL's planner believes of the tables: told by a test, and forgotten before the next one.

The server of the tests never analyzes by itself. What one test has had analyzed would decide the plans of those that
come after it in the same process, which are others in every parallel run.
"""

from typing import Any

from django.db import connection

_KNOWN = """
SELECT count(pg_clear_relation_stats('public', c.relname)) FROM pg_class c
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'i') AND (c.reltuples <> -1 OR c.relpages <> 0)
"""
_COLUMNS = """
SELECT count(pg_clear_attribute_stats('public', s.tablename, s.attname, s.inherited)::text)
FROM pg_stats s WHERE s.schemaname = 'public'
"""
_BELIEVE = """
SELECT bool_and(pg_restore_relation_stats(
  'schemaname', 'public', 'relname', c.relname::text, 'relpages', %s::int, 'reltuples', %s::real))
FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'coordinator\\_%%'
"""
_COLUMN = """
SELECT pg_restore_attribute_stats(
  'schemaname', 'public', 'relname', %s::text, 'attname', %s::text, 'inherited', false,
  'null_frac', %s::real, 'avg_width', 8, 'n_distinct', %s::real)
"""


def forget_statistics(cursor: Any) -> None:
    """As in a new database: nothing is known of any table."""
    cursor.execute(_KNOWN)
    cursor.execute(_COLUMNS)


def believe(*, pages: int, rows: float) -> None:
    """The planner takes every table of ours for one that held so many rows in so many pages when last looked at.

    It scales them to the pages that the table has now.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BELIEVE, [pages, rows])


def believe_of_column(table: str, column: str, *, empty: float, distinct: float) -> None:
    """`empty`: the share of rows in which it is NULL; `distinct`: how many values, or minus their share."""
    with connection.cursor() as cursor:
        cursor.execute(_COLUMN, [table, column, empty, distinct])
