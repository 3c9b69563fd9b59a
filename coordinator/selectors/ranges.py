"""Counters of a range of time, as the figures are made of them: by step, or summed up (contract 14)."""

# ruff: noqa: S608 (SQL made of our own constants)

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from django.db import connection

from coordinator.shadow.lanes import SUFFIX
from coordinator.tallies import SAMPLED, Name, Span

from .figures import Counters, grouped

#: Up to so many hours are told by minutes, longer ranges by hours.
MINUTES_UP_TO_HOURS: Final = 6
MAX_HOURS: Final = 24 * 31
A_WEEK: Final = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Range:
    since: datetime
    until: datetime
    step: timedelta
    span: Span

    @classmethod
    def of(cls, now: datetime, hours: int) -> "Range":
        hours = max(1, min(hours, MAX_HOURS))
        if hours <= MINUTES_UP_TO_HOURS:
            until = now.replace(second=0, microsecond=0) + timedelta(minutes=1)
            return cls(until - timedelta(hours=hours), until, timedelta(minutes=1), Span.MINUTE)
        until = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return cls(until - timedelta(hours=hours), until, timedelta(hours=1), Span.HOUR)

    def a_week_ago(self) -> "Range":
        """As many whole hours: minutes are not kept for so long."""
        hours = round((self.until - self.since) / timedelta(hours=1))
        last = (self.until - timedelta(minutes=1)).replace(minute=0, second=0, microsecond=0)
        until = last + timedelta(hours=1) - A_WEEK
        return Range(until - timedelta(hours=hours), until, timedelta(hours=1), Span.HOUR)

    def steps(self) -> list[datetime]:
        count = round((self.until - self.since) / self.step)
        return [self.since + index * self.step for index in range(count)]


_SAMPLED: Final = ", ".join(f"'{name}'" for name in sorted(SAMPLED))
#: All queues together: without the lanes of rehearsals, which are no work.
#: Of the events only the grants are wanted here; the rest of that name is for /metrics.
_WHERE: Final = (
    "span = %s AND name = ANY(%s) AND since >= %s AND since < %s AND (name <> 'events' OR label = 'CLAIMED')"
    f" AND CASE WHEN %s::text IS NULL THEN (queue_id = 0 OR name NOT IN ({_SAMPLED}))"
    f" AND queue_id NOT IN (SELECT id FROM coordinator_queue WHERE name LIKE '%%{SUFFIX}')"
    " ELSE queue_id = (SELECT id FROM coordinator_queue WHERE name = %s) END"
)
_BY_STEP: Final = f"SELECT since, name, label, sum(count), sum(total) FROM coordinator_tally WHERE {_WHERE} GROUP BY 1, 2, 3"  # noqa: E501
_SUM: Final = f"SELECT name, label, sum(count), sum(total) FROM coordinator_tally WHERE {_WHERE} GROUP BY 1, 2"


def _params(chosen: Range, names: tuple[Name, ...], queue: str | None) -> list[Any]:
    wanted = [str(name) for name in names]
    return [str(chosen.span), wanted, chosen.since, chosen.until, queue, queue]


def read_steps(
    chosen: Range, names: tuple[Name, ...], queue: str | None
) -> dict[datetime, Counters]:
    with connection.cursor() as cursor:
        cursor.execute(_BY_STEP, _params(chosen, names, queue))
        rows: dict[datetime, list[tuple[str, str, int, Decimal]]] = defaultdict(list)
        for since, name, label, count, total in cursor.fetchall():
            rows[since.astimezone(UTC)].append((name, label, int(count), total))
    return {since: grouped(told) for since, told in rows.items()}


def read_sum(chosen: Range, names: tuple[Name, ...], queue: str | None) -> Counters:
    with connection.cursor() as cursor:
        cursor.execute(_SUM, _params(chosen, names, queue))
        rows = cursor.fetchall()
    return grouped([(name, label, int(count), total) for name, label, count, total in rows])
