"""Rolling up what the database counted: the log's rows become per-hour totals (contract 14)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.rounds import Statement, name_point, run_round

from .events import EventKind, Fact, record
from .transactions import in_transaction

#: One transaction rolls up so many statements; a call goes on until the log is empty or so many times.
BATCH: Final = 20_000
MAX_BATCHES: Final = 50
#: How long totals and uncovered statements are kept, and how many of the latter at most.
KEEP_DAYS: Final = 400
MAX_UNCOVERED_KEPT: Final = 10_000
#: The advisory lock of the one roll-up at a time: the two-integer form, a class of its own.
_LOCK: Final = Statement("SELECT pg_try_advisory_xact_lock(101, 0)")


@dataclass(frozen=True, slots=True)
class RolledUp:
    """`uncovered`: statements with rows that the guard had not passed; `refused`: writes without a point."""

    statements: int
    uncovered: int
    refused: int


def roll_up_coverage(*, actor: Actor) -> RolledUp:
    """Move the log into the totals, each row exactly once, and raise one alarm an hour and point where one is missing.

    Safe at any time, twice at once (the second does nothing) and after a crash: rows leave the
    log in the transaction that adds them to the totals. Only committed writes are in it.
    """
    total = RolledUp(0, 0, 0)
    for _ in range(MAX_BATCHES):
        done = _roll_up(actor)
        total = RolledUp(
            total.statements + done.statements,
            total.uncovered + done.uncovered,
            total.refused + done.refused,
        )
        if done.statements < BATCH:
            break
    return total


@in_transaction
def _roll_up(actor: Actor) -> RolledUp:
    _, locked = run_round(name_point("coverage"), _LOCK)
    if not locked[0][0]:
        return RolledUp(0, 0, 0)
    refused, moved, clock_rows = run_round(
        Statement(_SEE_REFUSED), Statement(_MOVE, (BATCH,)), CLOCK
    )
    clock = clock_of(clock_rows)
    uncovered = [row for row in moved if row[0] is not None]
    refusals = refused[0][0] if refused else 0
    run_round(
        *([Statement(_ADD_REFUSED, (clock, refusals))] if refusals else []),
        Statement(_FORGET_TOTALS, (KEEP_DAYS,)),
        Statement(_FORGET_UNCOVERED, (MAX_UNCOVERED_KEPT,)),
        *_alarms(uncovered, refusals, actor, clock),
    )
    statements = moved[-1][-1] if moved else 0
    return RolledUp(statements, sum(row[3] for row in uncovered), refusals)


def _alarms(
    uncovered: list[tuple[Any, ...]], refused: int, actor: Actor, clock: datetime
) -> list[Statement]:
    """One alarm a point and hour: the next of the same only raises its counter."""
    facts = [
        _alarm(point, hour, missing=missing) for point, hour, missing, *_ in uncovered if missing
    ]
    if refused:
        hour = clock.replace(minute=0, second=0, microsecond=0)
        facts.append(_alarm("none", hour, refused=refused))
    return [record(facts, actor=actor, at=clock)] if facts else []


def _alarm(point: str, hour: datetime, **told: int) -> Fact:
    return Fact(
        EventKind.ALARM,
        data={"alarm": "COVERAGE", "point": point, "hour": hour, **told},
        refusal_key=f"alarm:coverage:{point}:{hour.isoformat()}",
    )


_SEE_REFUSED: Final = """
WITH drawn AS (SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS total FROM coordinator_refusedwrite),
     known AS (SELECT coalesce((SELECT seen FROM coordinator_refusedwrites), 0) AS seen),
     noted AS (
  INSERT INTO coordinator_refusedwrites (id, seen) SELECT 1, total FROM drawn
  ON CONFLICT (id) DO UPDATE SET seen = greatest(coordinator_refusedwrites.seen, excluded.seen))
SELECT greatest(total - seen, 0) FROM drawn, known
"""
#: The rows of the log, the totals and the uncovered statements in one statement: each row exactly once.
_MOVE: Final = """
WITH taken AS (
  DELETE FROM coordinator_countedwrite
  WHERE ctid = ANY (ARRAY(SELECT ctid FROM coordinator_countedwrite LIMIT %s))
  RETURNING *
), totals AS (
  SELECT date_trunc('hour', at, 'UTC') AS hour, point, is_act, count(*) AS statements, sum(counted) AS counted,
         sum(guarded) AS guarded, sum(kept) AS kept,
         count(*) FILTER (WHERE NOT is_act AND guarded < counted) AS uncovered
  FROM taken GROUP BY 1, 2, 3
), added AS (
  INSERT INTO coordinator_coveragehour AS h (hour, point, is_act, statements, counted, guarded, kept)
  SELECT hour, point, is_act, statements, counted, guarded, kept FROM totals
  ON CONFLICT (hour, point, is_act) DO UPDATE SET
    statements = h.statements + excluded.statements, counted = h.counted + excluded.counted,
    guarded = h.guarded + excluded.guarded, kept = h.kept + excluded.kept
), named AS (
  INSERT INTO coordinator_uncoveredwrite (at, point, written_to, rows, missing, session)
  SELECT at, point, written_to, counted, counted - guarded, coalesce(session, '') FROM taken
  WHERE NOT is_act AND guarded < counted ORDER BY at
)
SELECT point, hour, counted - guarded AS missing, uncovered, NULL::bigint AS statements FROM totals
WHERE NOT is_act AND uncovered > 0
UNION ALL SELECT NULL, NULL, NULL, 0, coalesce(sum(statements), 0)::bigint FROM totals
ORDER BY statements NULLS FIRST
"""
_ADD_REFUSED: Final = """
INSERT INTO coordinator_coveragehour AS h (hour, point, is_act, statements, counted, guarded, kept)
SELECT date_trunc('hour', %s::timestamptz, 'UTC'), 'none', false, n, n, 0, 0 FROM (SELECT %s::bigint) AS r(n)
ON CONFLICT (hour, point, is_act) DO UPDATE SET
  statements = h.statements + excluded.statements, counted = h.counted + excluded.counted
"""
_FORGET_TOTALS: Final = """
DELETE FROM coordinator_coveragehour WHERE hour < clock_timestamp() - make_interval(days => %s)
"""
_FORGET_UNCOVERED: Final = """
DELETE FROM coordinator_uncoveredwrite WHERE id <= (SELECT max(id) FROM coordinator_uncoveredwrite) - %s
"""
