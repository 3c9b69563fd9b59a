"""Downstreams with what is unsettled there, for the console (console design, 7.10)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.db import connection

from coordinator.selectors.console_counts import COUNT_CAP

#: The last transmissions among which a trial look-up finds something to ask about.
DISPATCHES_LOOKED_AT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Unsettled:
    """Effects that may be out at one downstream, capped; `oldest` is the first that became UNKNOWN."""

    unknown: int
    out: int
    oldest: datetime | None


@dataclass(frozen=True, slots=True)
class LastSent:
    """The effect of the newest transmission to a downstream; enough to look it up."""

    effect_id: str
    state: str
    payload: str
    payload_digest: str
    condition: str | None


_UNSETTLED: Final = """
SELECT downstream, count(*) FILTER (WHERE state = 'UNKNOWN'), count(*),
       min(unknown_since) FILTER (WHERE state = 'UNKNOWN')
FROM (SELECT downstream, state, unknown_since FROM coordinator_effectslot
      WHERE state IN ('ACCEPTED', 'RESENDABLE', 'UNKNOWN') LIMIT %s) AS out
GROUP BY downstream
"""
_LAST_SENT: Final = """
SELECT e.effect_id, e.state, e.payload, e.payload_digest, e.condition
FROM (SELECT dispatch_id, effect_id FROM coordinator_dispatch ORDER BY dispatch_id DESC LIMIT %s) d
JOIN coordinator_effectslot e ON e.effect_id = d.effect_id
WHERE e.downstream = %s ORDER BY d.dispatch_id DESC LIMIT 1
"""


def count_unsettled() -> dict[str, Unsettled]:
    """By downstream; those without any are left out."""
    return {row[0]: Unsettled(*row[1:]) for row in _fetch(_UNSETTLED, [COUNT_CAP + 1])}


def read_last_sent(downstream: str) -> LastSent | None:
    """None where none of the newest transmissions went there."""
    rows = _fetch(_LAST_SENT, [DISPATCHES_LOOKED_AT, downstream])
    return LastSent(*rows[0]) if rows else None


def _fetch(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows
