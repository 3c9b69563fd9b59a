"""Coverage: per acceptance point, the writes that passed the guard ÷ those that were counted (contract 14)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.db import connection

from coordinator.fence import Point

#: Only so many rows of the log are read beside the totals: a roll-up that stands still must not slow the page.
MAX_UNROLLED: Final = 200_000
MAX_UNCOVERED_SHOWN: Final = 50
MAX_HOURS: Final = 24 * 31
#: A percentage below 100 is never rounded up to it.
_BELOW: Final = 99.99


@dataclass(frozen=True, slots=True)
class PointCoverage:
    """Rows at one point. `break_glass` and `none` (refused: no point was named) can't be guarded."""

    point: str
    guarded: int
    counted: int
    percent: float


@dataclass(frozen=True, slots=True)
class Uncovered:
    """A statement that wrote `missing` rows which the guard had not passed, and the session that sent it."""

    at: datetime
    point: str
    written_to: str
    rows: int
    missing: int
    session: str


@dataclass(frozen=True, slots=True)
class Coverage:
    """The clock hours that the window touches.

    `acts`: rows by what is no acceptance point; `kept`: rows that are the record of refused
    calls. `is_behind`: the roll-up stands still, and rows are left out.
    """

    points: tuple[PointCoverage, ...]
    uncovered: tuple[Uncovered, ...]
    percent: float
    refused_writes: int
    computed_at: datetime
    acts: dict[str, int] = field(default_factory=dict)
    kept: int = 0
    is_behind: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing was written past the guard: what a promotion asks for."""
        return not self.is_behind and all(point.guarded == point.counted for point in self.points)


_TOTALS: Final = """
WITH clock AS (SELECT clock_timestamp() AS now,
                      date_trunc('hour', clock_timestamp() - make_interval(hours => %s), 'UTC') AS since)
SELECT clock.now, t.point, t.is_act, sum(t.counted)::bigint, sum(t.guarded)::bigint, sum(t.kept)::bigint,
       sum(t.unrolled)::bigint
FROM clock LEFT JOIN LATERAL (
  SELECT point, is_act, counted, guarded, kept, 0 AS unrolled FROM coordinator_coveragehour WHERE hour >= clock.since
  UNION ALL
  SELECT point, is_act, sum(counted), sum(guarded), sum(kept), count(*)
  FROM (SELECT * FROM coordinator_countedwrite LIMIT %s) l WHERE l.at >= clock.since GROUP BY point, is_act
  UNION ALL
  SELECT 'none', false, greatest(CASE WHEN s.is_called THEN s.last_value ELSE 0 END
                                 - coalesce((SELECT seen FROM coordinator_refusedwrites), 0), 0), 0, 0, 0
  FROM coordinator_refusedwrite s
) t ON true
GROUP BY clock.now, t.point, t.is_act ORDER BY t.point
"""
_UNCOVERED: Final = """
SELECT at, point, written_to, rows, missing, session FROM (
  SELECT at, point, written_to, rows, missing, session FROM coordinator_uncoveredwrite
  UNION ALL
  SELECT at, point, written_to, counted, counted - guarded, coalesce(session, '')
  FROM (SELECT * FROM coordinator_countedwrite LIMIT %s) l WHERE NOT is_act AND guarded < counted
) u WHERE at >= date_trunc('hour', %s - make_interval(hours => %s), 'UTC')
ORDER BY at DESC LIMIT %s
"""


def read_coverage(*, hours: int = 1) -> Coverage:
    """Totals and the log that is not rolled up yet, so that a fault is seen at once. Every acceptance point is told."""
    window = max(1, min(hours, MAX_HOURS))
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS, (window, MAX_UNROLLED + 1))
        rows = cursor.fetchall()
        computed_at: datetime = rows[0][0]
        points = _points(rows)
        uncovered: list[tuple[Any, ...]] = []
        if any(point.guarded < point.counted for point in points):
            cursor.execute(_UNCOVERED, (MAX_UNROLLED, computed_at, window, MAX_UNCOVERED_SHOWN))
            uncovered = cursor.fetchall()
    counted, guarded = sum(p.counted for p in points), sum(p.guarded for p in points)
    return Coverage(
        points=points,
        uncovered=tuple(Uncovered(*row) for row in uncovered),
        percent=_percent(guarded, counted),
        refused_writes=sum(point.counted for point in points if point.point == "none"),
        computed_at=computed_at,
        acts={point: counted for _, point, is_act, counted, *_ in rows if is_act},
        kept=sum(row[5] or 0 for row in rows),
        is_behind=sum(row[6] or 0 for row in rows) > MAX_UNROLLED,
    )


def _points(rows: Sequence[tuple[Any, ...]]) -> tuple[PointCoverage, ...]:
    found = {
        point: (guarded, counted)
        for _, point, is_act, counted, guarded, *_ in rows
        if point and not is_act
    }
    names = [
        *Point,
        *sorted(name for name, (_, counted) in found.items() if name not in set(Point) and counted),
    ]
    return tuple(_point(str(name), *found.get(name, (0, 0))) for name in names)


def _point(name: str, guarded: int, counted: int) -> PointCoverage:
    return PointCoverage(name, guarded, counted, _percent(guarded, counted))


def _percent(guarded: int, counted: int) -> float:
    """100 only where nothing is missing; with nothing written there is nothing missing."""
    if guarded >= counted:
        return 100.0
    return min(_BELOW, round(100 * guarded / counted, 2))
