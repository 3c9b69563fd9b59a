"""Where a look for what is over goes on, so that no batch passes again over what it may not take (contract 17)."""

from datetime import datetime
from typing import Final, NamedTuple

from coordinator.rounds import Statement, run_round


class Batch(NamedTuple):
    """What one batch took away, and whether there was anything left to look at."""

    taken: int
    more: bool


class Place(NamedTuple):
    """Behind this row; the start of the table by default."""

    after_time: datetime | None = None
    after_id: int = 0


START: Final = Place()
_READ: Final = "SELECT after_time, after_id FROM coordinator_prunecursor WHERE kind = %s"
_MOVE: Final = """
INSERT INTO coordinator_prunecursor (kind, after_time, after_id) VALUES (%s, %s::timestamptz, %s::bigint)
ON CONFLICT (kind) DO UPDATE SET after_time = excluded.after_time, after_id = excluded.after_id
"""


def read_place(kind: str) -> Place:
    """Where the next look begins; in the caller's transaction. Two at once may look at the same: that does no harm."""
    (rows,) = run_round(Statement(_READ, (kind,)))
    return Place(*rows[0]) if rows else START


def move_to(kind: str, place: Place) -> Statement:
    """The next look goes on behind `place`. What a crash leaves there is found by the next pass."""
    return Statement(_MOVE, (kind, place.after_time, place.after_id))
