"""What /metrics answers with: counters since ever, and how far they have got (contract 14)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection

from coordinator.tallies import Name, Span

from .gauges import MAX_QUEUES

#: A scrape answers with so many counters; the closed list of names keeps it far below.
MAX_TOTALS: Final = 200_000


@dataclass(frozen=True, slots=True)
class Total:
    """One counter since ever. `queue` is empty where no queue is concerned."""

    queue: str
    name: Name
    label: str
    count: int
    total: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything before `until` is counted; None where nothing has ever been."""

    until: datetime | None
    now: datetime

    @property
    def lag_seconds(self) -> float | None:
        if self.until is None:
            return None
        return max(0.0, (self.now - self.until).total_seconds())


_TOTALS: Final = f"""
SELECT coalesce(q.name, ''), t.name, t.label, t.count, t.total::float8
FROM coordinator_tally t
LEFT JOIN (SELECT id, name FROM coordinator_queue ORDER BY name LIMIT {MAX_QUEUES}) q ON q.id = t.queue_id
WHERE t.span = '{Span.EVER}' AND t.name = ANY(%s) AND (q.id IS NOT NULL OR t.queue_id = 0)
ORDER BY t.name, 1, t.label LIMIT {MAX_TOTALS}
"""  # noqa: S608 (constants of ours)


def read_totals() -> list[Total]:
    """The counters of the first MAX_QUEUES queues by name, and of what concerns no queue."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, ([str(name) for name in Name],))
        return [
            Total(queue, Name(name), label, count, total)
            for queue, name, label, count, total in cursor.fetchall()
        ]


def read_progress() -> Progress:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.rolled_until, clock_timestamp() FROM (SELECT 1) one"
            " LEFT JOIN coordinator_rollup r ON r.id = 1"
        )
        until, now = cursor.fetchall()[0]
    return Progress(until, now)
