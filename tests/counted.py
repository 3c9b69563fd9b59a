"""What PostgreSQL has read for an act, by its own count.

A connection tells its counts when it next ends a transaction, or ten seconds after it has fallen idle. One that an
earlier test has left, in the pool or in a server that the whole run shares, would add its own to whatever is measured
then: `alone` ends them first. A pool puts an ended connection away before it uses it.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from django.db import connection

from tests.site.waiting import until

_OTHERS: Final = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database()
AND backend_type = 'client backend' AND application_name NOT LIKE 'tenure hints %%' AND backend_start < %s
"""
_ROWS: Final = """
SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0) FROM pg_stat_user_tables WHERE relname LIKE ANY(%s)
"""
_BLOCKS: Final = """
SELECT sum(heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit) FROM pg_statio_user_tables
"""


def alone() -> None:
    """A new connection, which has prepared nothing; none is left of those that there were."""
    now = _value("SELECT clock_timestamp()")
    connection.close()
    connection.close_pool()  # type: ignore[attr-defined]
    until(lambda: _value(_OTHERS, now) == 0, "the others to be gone")


def connections_in_use() -> int:
    """Of this thread's pool, with this thread's own. One that the pool still makes, or makes anew, counts as well:
    wait for the number that is expected, and do not compare with an earlier one.
    """
    connection.ensure_connection()
    told = connection.pool.get_stats()  # type: ignore[attr-defined]
    return int(told["pool_size"] - told["pool_available"])


def rows_read(act: Callable[[], object], *, tables: Sequence[str] = ("%",)) -> int:
    """How many rows of these tables (without their `coordinator_`) are read for it, by whatever way."""
    names = [rf"coordinator\_{name}" for name in tables]
    before = _counted(_ROWS, names)
    act()
    return _counted(_ROWS, names) - before


def least_rows_read(look: Callable[[], object], *, tables: Sequence[str] = ("%",)) -> int:
    """Of two looks. What a thread or process of an earlier test still reads meanwhile is in one of them only."""
    return min(rows_read(look, tables=tables), rows_read(look, tables=tables))


def blocks_touched(act: Callable[[], object]) -> int:
    """How many blocks of tables and indexes are looked at for it."""
    before = _counted(_BLOCKS)
    act()
    return _counted(_BLOCKS) - before


def scans(*, tables: Sequence[str]) -> int:
    """How often these tables have been read from end to end."""
    return _counted(
        "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE relname = ANY(%s)",
        [f"coordinator_{name}" for name in tables],
    )


def _counted(sql: str, *params: Any) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute("SELECT pg_stat_clear_snapshot()")
    return int(_value(sql, *params))


def _value(sql: str, *params: Any) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()[0]
