"""Runs that have been over for long: the whole of each, or nothing of it (contract 17)."""

from typing import Any, Final

from django.conf import settings
from django.core.files.storage import storages

from coordinator.gates import GateClass
from coordinator.rounds import Statement, name_point, run_round

from .transactions import in_transaction

#: Runs of one transaction have so many nodes together, or it is one run.
BATCH_NODES: Final = 500
BATCH_RUNS: Final = 100

#: Over, and nothing of it unsettled; no part of shared memory; no part of what an incident's report or a restore tells;
#: and counted, where the roll-up stands still.
_DUE: Final = """
SELECT r.id, r.node_count FROM coordinator_run r
WHERE r.state <> 'ACTIVE' AND r.finished_at < clock_timestamp() - make_interval(days => %s)
  AND NOT EXISTS (SELECT FROM coordinator_task t WHERE t.run_id = r.id
                  AND t.state NOT IN ('COMMITTED', 'SUPERSEDED', 'CANCELLED', 'FAILED'))
  AND NOT EXISTS (SELECT FROM coordinator_task t JOIN coordinator_effectslot e ON e.task_id = t.task_id
                  WHERE t.run_id = r.id AND (e.state IN ('ACCEPTED', 'UNKNOWN', 'RESENDABLE')
                    OR EXISTS (SELECT FROM coordinator_approval a WHERE a.effect_id = e.effect_id
                               AND a.state IN ('PENDING', 'APPROVED'))
                    OR EXISTS (SELECT FROM coordinator_incidenteffect i WHERE i.effect_id = e.effect_id)))
  AND NOT EXISTS (SELECT FROM coordinator_task t JOIN coordinator_canonicalcommit c ON c.task_id = t.task_id
                  JOIN coordinator_memoryfact f ON f.result_commit_id = c.result_commit_id WHERE t.run_id = r.id)
  AND NOT EXISTS (SELECT FROM coordinator_task t JOIN coordinator_attempt a ON a.task_id = t.task_id
                  WHERE t.run_id = r.id AND (
                    EXISTS (SELECT FROM coordinator_incidenthold h WHERE h.attempt_id = a.attempt_id)
                    OR EXISTS (SELECT FROM coordinator_stagedresult s JOIN coordinator_candidatedecision d
                               ON d.staged_id = s.id WHERE s.attempt_id = a.attempt_id)))
  AND NOT EXISTS (SELECT FROM coordinator_task t JOIN coordinator_restorehold h ON h.task_id = t.task_id
                  WHERE t.run_id = r.id AND h.released_at IS NULL)
  AND NOT EXISTS (SELECT FROM coordinator_rollup u WHERE u.rolled_until <= r.finished_at)
"""
_CANDIDATES: Final = f"{_DUE} ORDER BY r.finished_at LIMIT %s"
_COUNT: Final = f"SELECT count(*) FROM ({_DUE} LIMIT %s) due"  # noqa: S608 (constants of ours)
_STILL_DUE: Final = f"{_DUE} AND r.id = ANY(%s::int[]) ORDER BY r.id"
_GATES: Final = (
    f"SELECT pg_advisory_xact_lock({int(GateClass.RUN)}, id)"  # noqa: S608
    " FROM (SELECT unnest(%s::int[]) AS id ORDER BY 1) r"
)

_TASKS: Final = "(SELECT task_id FROM coordinator_task WHERE run_id = ANY(%s::int[]))"
_ATTEMPTS: Final = (
    "(SELECT a.attempt_id FROM coordinator_attempt a JOIN coordinator_task t ON t.task_id = a.task_id"
    " WHERE t.run_id = ANY(%s::int[]))"
)
_EFFECTS: Final = (
    "(SELECT e.effect_id FROM coordinator_effectslot e JOIN coordinator_task t ON t.task_id = e.task_id"
    " WHERE t.run_id = ANY(%s::int[]))"
)
#: From the leaves to the root. Their foreign keys are checked at the end of the transaction.
_DELETES: Final = tuple(
    f"DELETE FROM coordinator_{table} WHERE {column} IN {chosen}"  # noqa: S608
    for table, column, chosen in (
        (
            "decision",
            "approval_id",
            f"(SELECT approval_id FROM coordinator_approval WHERE effect_id IN {_EFFECTS})",  # noqa: S608
        ),
        ("approval", "effect_id", _EFFECTS),
        ("evidence", "effect_id", _EFFECTS),
        ("lookup", "effect_id", _EFFECTS),
        ("dispatch", "effect_id", _EFFECTS),
        ("effectslot", "effect_id", _EFFECTS),
        ("canonicalcommit", "task_id", _TASKS),
        ("stagedresult", "attempt_id", _ATTEMPTS),
        ("restorehold", "task_id", _TASKS),
        (
            "countedrefusal",
            "event_id",
            f"(SELECT id FROM coordinator_event WHERE refusal_key IS NOT NULL AND task_id IN {_TASKS})",  # noqa: S608
        ),
        ("countedattempt", "attempt_id", _ATTEMPTS),
        ("event", "task_id", _TASKS),
        ("dependency", "parent_id", _TASKS),
    )
)
_BLOBS: Final = f"DELETE FROM coordinator_blob WHERE attempt_id IN {_ATTEMPTS} RETURNING path"  # noqa: S608
_LAST: Final = (
    f"DELETE FROM coordinator_attempt WHERE task_id IN {_TASKS}",  # noqa: S608
    "DELETE FROM coordinator_task WHERE run_id = ANY(%s::int[])",
    "DELETE FROM coordinator_run WHERE id = ANY(%s::int[])",
)


def prune_runs() -> int:
    """Take away the next batch of runs that are due, with everything of theirs; how many."""
    if not settings.KEEP_RUNS_DAYS:
        return 0
    chosen = _choose()
    if not chosen:
        return 0
    count, paths = _delete(chosen)
    for path in paths:
        storages["blobs"].delete(path)
    return count


def count_runs(most: int) -> int:
    """How many are due, counted up to `most`; in the caller's transaction."""
    if not settings.KEEP_RUNS_DAYS:
        return 0
    (((count,),),) = run_round(Statement(_COUNT, (settings.KEEP_RUNS_DAYS, most)))
    return int(count)


@in_transaction
def _choose() -> list[int]:
    (rows,) = run_round(Statement(_CANDIDATES, (settings.KEEP_RUNS_DAYS, BATCH_RUNS)))
    chosen: list[int] = []
    nodes = 0
    for run_id, node_count in rows:
        nodes += node_count
        if chosen and nodes > BATCH_NODES:
            break
        chosen.append(run_id)
    return chosen


@in_transaction
def _delete(chosen: list[int]) -> tuple[int, list[str]]:
    """Under the runs' gates alone, so that none is being reopened; those that are no longer due are left."""
    _, _, rows = run_round(
        name_point("prune"),
        Statement(_GATES, (chosen,)),
        Statement(_STILL_DUE, (settings.KEEP_RUNS_DAYS, chosen)),
    )
    runs = [run_id for run_id, _ in rows]
    if not runs:
        return 0, []
    answers: list[list[tuple[Any, ...]]] = run_round(
        *(Statement(sql, (runs,)) for sql in _DELETES),
        Statement(_BLOBS, (runs,)),
        *(Statement(sql, (runs,)) for sql in _LAST),
    )
    return len(runs), [path for (path,) in answers[len(_DELETES)]]
