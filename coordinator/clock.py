"""The one clock: the primary database's, read after the locks are held (contract 4)."""

from datetime import datetime
from typing import Any, Final

from django.db import connection

from coordinator.rounds import Statement

#: The last statement of a locking round. `now()` and `statement_timestamp()` may predate a wait.
CLOCK: Final = Statement("SELECT clock_timestamp()")


def clock_of(rows: list[tuple[Any, ...]]) -> datetime:
    """The instant that CLOCK answered with."""
    instant: datetime = rows[0][0]
    return instant


def read_clock() -> datetime:
    """The database's time, for reads that hold no lock and decide nothing."""
    with connection.cursor() as cursor:
        cursor.execute(CLOCK.sql)
        return clock_of(cursor.fetchall())
