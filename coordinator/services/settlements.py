"""What has become of a run: COMMITTED, FAILED or CANCELLED once nothing in it can move (contract 6)."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connection

from coordinator.actors import Actor, system
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.rounds import Statement, name_point, run_round

from .events import EventKind, Fact, record
from .transactions import in_transaction

MAX_SETTLED_AT_ONCE: Final = 500

#: A task in one of these goes on without a person: an approval that nobody gives expires and
#: the coordinator's own look-ups settle effects. A BLOCKED task moves only after another one.
_MOVES: Final = "('READY', 'CLAIMED', 'AWAITING_APPROVAL', 'AWAITING_RECONCILIATION')"
#: OFFSET 0 keeps it a probe for each run: as a join, the planner might begin with all tasks that move.
_CAN_MOVE: Final = f"EXISTS (SELECT FROM coordinator_task t WHERE t.run_id = r.id AND t.state IN {_MOVES} OFFSET 0)"

_STANDING: Final = f"""
SELECT r.id FROM coordinator_run r
WHERE r.id = ANY(%s::int[]) AND r.state = 'ACTIVE' AND NOT {_CAN_MOVE}
"""  # noqa: S608 (constants of ours)
_STANDING_ANYWHERE: Final = f"""
SELECT r.id FROM coordinator_run r WHERE r.state = 'ACTIVE' AND NOT {_CAN_MOVE} ORDER BY r.id LIMIT %s
"""  # noqa: S608
_GATES: Final = (
    f"SELECT pg_advisory_xact_lock_shared({int(GateClass.RUN)}, id)"  # noqa: S608
    " FROM (SELECT unnest(%s::int[]) AS id ORDER BY 1) r"
)

#: One statement, after the gates: it sees what every commit, revision and reopening before it
#: did. Of two at once the second finds the run no longer ACTIVE and changes nothing.
_SETTLE: Final = f"""
UPDATE coordinator_run r SET state = found.state, finished_at = %s
FROM (
  SELECT r.id, CASE
    WHEN count(t.state) = 0 THEN 'COMMITTED'
    WHEN count(*) FILTER (WHERE t.state = 'FAILED') > 0 THEN 'FAILED'
    WHEN count(*) FILTER (WHERE t.state = 'CANCELLED') > 0 THEN 'CANCELLED'
  END AS state
  FROM coordinator_run r
  LEFT JOIN coordinator_task t ON t.run_id = r.id AND t.state NOT IN ('COMMITTED', 'SUPERSEDED')
  WHERE r.id = ANY(%s::int[]) AND NOT {_CAN_MOVE}
  GROUP BY r.id
) found
WHERE r.id = found.id AND r.state = 'ACTIVE' AND found.state IS NOT NULL
RETURNING r.id, r.queue_id, r.state
"""  # noqa: S608


def settle_runs(run_ids: Sequence[int]) -> None:
    """Settle those of these runs in which nothing can move any more (contract 6).

    Called after a transaction that ended tasks, never inside it: a commit holds no run row.
    COMMITTED when each node's newest task is; else FAILED when something failed; else
    CANCELLED when something was cancelled. Takes the runs' gates shared, so that no revision
    and no reopening is half done, and decides in a later statement. Safe to repeat.
    """
    wanted = sorted(set(run_ids))
    if not wanted:
        return
    standing = [row[0] for row in _fetch(_STANDING, wanted)]
    if standing:  # mostly there is something left to do, and this one look was all
        _settle(standing)


def look_for_standing(run_ids: Iterable[int]) -> Statement:
    """That look as a statement, which travels with the COMMIT of the transaction that ended tasks."""
    return Statement(_STANDING, (sorted(set(run_ids)),))


def settle_standing(rows: Sequence[tuple[Any, ...]]) -> None:
    """Settle the runs that the look found standing."""
    if rows:
        _settle([row[0] for row in rows])


def settle_active_runs(limit: int = MAX_SETTLED_AT_ONCE) -> int:
    """Settle at most `limit` runs whose settling was lost with a process; answers how many it looked at."""
    standing = [row[0] for row in _fetch(_STANDING_ANYWHERE, min(limit, MAX_SETTLED_AT_ONCE))]
    if standing:
        _settle(standing)
    return len(standing)


def _fetch(sql: str, parameter: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, [parameter])
        return list(cursor.fetchall())


@in_transaction
def _settle(run_ids: Sequence[int]) -> None:
    _, _, clock = run_round(name_point("settle"), Statement(_GATES, (list(run_ids),)), CLOCK)
    settle_gated(run_ids, actor=system("settle"), at=clock_of(clock))


def settle_gated(run_ids: Sequence[int], *, actor: Actor, at: datetime) -> dict[int, str]:
    """The same inside a transaction that holds the runs' gates and whose writes are sent; what each came to."""
    (rows,) = run_round(Statement(_SETTLE, (at, list(run_ids))))
    if rows:
        facts = [
            Fact(EventKind.RUN_SETTLED, queue_id=queue_id, run_id=run_id, data={"state": state})
            for run_id, queue_id, state in rows
        ]
        run_round(record(facts, actor=actor, at=at))
    return {run_id: state for run_id, _, state in rows}


def reactivate(run_id: int) -> Statement:
    """Reopening and revising make a settled run ACTIVE again; they hold its gate alone (contract 6)."""
    return Statement(_REACTIVATE, (run_id,))


_REACTIVATE: Final = """
UPDATE coordinator_run SET state = 'ACTIVE', finished_at = NULL WHERE id = %s AND state <> 'ACTIVE'
"""
