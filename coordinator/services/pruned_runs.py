"""Runs that have been over for long: the whole of each, or nothing of it (contract 17)."""

from typing import Any, Final

from django.conf import settings
from django.core.files.storage import storages

from coordinator.actors import system
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.rounds import Statement, name_point, run_round

from .events import EventKind, Fact, record
from .prune_cursors import START, Batch, Place, move_to, read_place
from .transactions import in_transaction

#: Runs of one transaction have so many nodes together, or it is one run.
BATCH_NODES: Final = 500
BATCH_RUNS: Final = 100
#: One look goes over so many runs, or so many nodes, whether they may be taken or not.
LOOKED_AT: Final = 500
LOOKED_AT_NODES: Final = 5_000
KIND: Final = "runs"

#: In a sub-select, so that an index can be entered by it.
_LIMIT: Final = "(SELECT clock_timestamp() - make_interval(days => %s))"
#: Nothing of it unsettled; no part of shared memory; no part of what an incident's report or a restore tells; and
#: counted and sealed, where the roll-up or the audit's chain stands still. Each table is entered by the ids of the one
#: before (`OFFSET 0` keeps them apart): joined, it would be read whole for one run, wherever the statistics say so.
_LETS_GO: Final = """
NOT EXISTS (SELECT FROM coordinator_task t WHERE t.run_id = r.id
            AND t.state NOT IN ('COMMITTED', 'SUPERSEDED', 'CANCELLED', 'FAILED') OFFSET 0)
AND NOT EXISTS (SELECT FROM coordinator_task t CROSS JOIN LATERAL (
                  SELECT FROM coordinator_effectslot e WHERE e.task_id = t.task_id
                  AND (e.state IN ('ACCEPTED', 'UNKNOWN', 'RESENDABLE')
                    OR EXISTS (SELECT FROM coordinator_approval a WHERE a.effect_id = e.effect_id
                               AND a.state IN ('PENDING', 'APPROVED') OFFSET 0)
                    OR EXISTS (SELECT FROM coordinator_incidenteffect i WHERE i.effect_id = e.effect_id OFFSET 0))
                  OFFSET 0) e WHERE t.run_id = r.id OFFSET 0)
AND NOT EXISTS (SELECT FROM coordinator_task t CROSS JOIN LATERAL (
                  SELECT FROM coordinator_canonicalcommit c WHERE c.task_id = t.task_id AND EXISTS (
                    SELECT FROM coordinator_memoryfact f WHERE f.result_commit_id = c.result_commit_id OFFSET 0)
                  OFFSET 0) c WHERE t.run_id = r.id OFFSET 0)
AND NOT EXISTS (SELECT FROM coordinator_task t CROSS JOIN LATERAL (
                  SELECT FROM coordinator_attempt a WHERE a.task_id = t.task_id AND (
                    EXISTS (SELECT FROM coordinator_incidenthold h WHERE h.attempt_id = a.attempt_id OFFSET 0)
                    OR EXISTS (SELECT FROM coordinator_stagedresult s WHERE s.attempt_id = a.attempt_id AND EXISTS (
                                 SELECT FROM coordinator_candidatedecision d WHERE d.staged_id = s.id OFFSET 0)
                               OFFSET 0))
                  OFFSET 0) a WHERE t.run_id = r.id OFFSET 0)
AND NOT EXISTS (SELECT FROM coordinator_task t CROSS JOIN LATERAL (
                  SELECT FROM coordinator_restorehold h WHERE h.task_id = t.task_id AND h.released_at IS NULL
                  OFFSET 0) h WHERE t.run_id = r.id OFFSET 0)
AND NOT EXISTS (SELECT FROM coordinator_rollup u WHERE u.rolled_until <= r.finished_at)
AND NOT EXISTS (SELECT FROM coordinator_auditchain c WHERE c.sealed_until <= r.finished_at)
"""
#: The next runs that are over for long enough, by their end; a page of them, whole or up to so many nodes.
_PAGE: Final = f"""
SELECT id, node_count, finished_at FROM (
  SELECT id, node_count, finished_at, sum(node_count) OVER (ORDER BY finished_at, id) - node_count AS nodes_before
  FROM (SELECT id, node_count, finished_at FROM coordinator_run
        WHERE finished_at IS NOT NULL AND finished_at < {_LIMIT}
          AND (finished_at, id) > (coalesce(%s::timestamptz, '-infinity'), %s::bigint)
        ORDER BY finished_at, id LIMIT %s) over_for_long) counted
WHERE nodes_before < %s
"""  # noqa: S608 (constants of ours)
_LOOK: Final = f"""
SELECT r.id, r.node_count, r.finished_at, {_LETS_GO} FROM ({_PAGE}) r ORDER BY r.finished_at, r.id
"""  # noqa: S608
_COUNT: Final = f"SELECT count(*) FILTER (WHERE {_LETS_GO}), count(*) FROM ({_PAGE}) r"  # noqa: S608
_STILL_DUE: Final = f"""
SELECT r.id FROM coordinator_run r
WHERE r.id = ANY(%s::int[]) AND r.state <> 'ACTIVE' AND r.finished_at < {_LIMIT} AND {_LETS_GO} ORDER BY r.id
"""  # noqa: S608
_GATES: Final = (
    f"SELECT pg_advisory_xact_lock({int(GateClass.RUN)}, id)"  # noqa: S608
    " FROM (SELECT unnest(%s::int[]) AS id ORDER BY 1) r"
)

#: As arrays, so that each table is entered by their ids: a join would read all of it, and take the longer the more
#: is kept.
_TASKS: Final = "ANY (ARRAY(SELECT task_id FROM coordinator_task WHERE run_id = ANY(%s::int[])))"
_ATTEMPTS: Final = (
    f"ANY (ARRAY(SELECT attempt_id FROM coordinator_attempt WHERE task_id = {_TASKS}))"  # noqa: S608 (constants of ours)
)
_EFFECTS: Final = (
    f"ANY (ARRAY(SELECT effect_id FROM coordinator_effectslot WHERE task_id = {_TASKS}))"  # noqa: S608
)
_EVENTS: Final = f"ANY (ARRAY(SELECT id FROM coordinator_event WHERE task_id = {_TASKS}))"  # noqa: S608
#: From the leaves to the root. Their foreign keys are checked at the end of the transaction.
_DELETES: Final = tuple(
    f"DELETE FROM coordinator_{table} WHERE {column} = {chosen}"  # noqa: S608
    for table, column, chosen in (
        (
            "decision",
            "approval_id",
            f"ANY (ARRAY(SELECT approval_id FROM coordinator_approval WHERE effect_id = {_EFFECTS}))",  # noqa: S608
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
            f"ANY (ARRAY(SELECT id FROM coordinator_event WHERE refusal_key IS NOT NULL AND task_id = {_TASKS}))",  # noqa: S608
        ),
        ("countedattempt", "attempt_id", _ATTEMPTS),
        ("event", "task_id", _TASKS),
        ("dependency", "parent_id", _TASKS),
    )
)
#: The links of events that are about to go stay, with the digests of what they sealed; which ones is told in the chain.
_UNLINK: Final = f"""
UPDATE coordinator_auditlink SET pruned = true
WHERE event_id = {_EVENTS} RETURNING number
"""  # noqa: S608
_BLOBS: Final = f"DELETE FROM coordinator_blob WHERE attempt_id = {_ATTEMPTS} RETURNING path"  # noqa: S608
_LAST: Final = (
    f"DELETE FROM coordinator_attempt WHERE task_id = {_TASKS}",  # noqa: S608
    "DELETE FROM coordinator_task WHERE run_id = ANY(%s::int[])",
    "DELETE FROM coordinator_run WHERE id = ANY(%s::int[])",
)


def prune_runs() -> Batch:
    """Take away the next batch of runs that are due, with everything of theirs."""
    if not settings.KEEP_RUNS_DAYS:
        return Batch(0, more=False)
    chosen, more = _choose()
    count, paths = _delete(chosen) if chosen else (0, [])
    for path in paths:
        storages["blobs"].delete(path)
    return Batch(count, more)


def count_runs(most: int) -> Batch:
    """How many of the first `most` that are over for long are due; in the caller's transaction."""
    if not settings.KEEP_RUNS_DAYS:
        return Batch(0, more=False)
    of_all = (settings.KEEP_RUNS_DAYS, *START, most, 2**62)
    ((due, seen),) = run_round(Statement(_COUNT, of_all))[0]
    return Batch(due, more=seen >= most)


@in_transaction
def _choose() -> tuple[list[int], bool]:
    """The next runs to take, and whether there was anything to look at; the next look goes on behind them."""
    asked = (settings.KEEP_RUNS_DAYS, *read_place(KIND), LOOKED_AT, LOOKED_AT_NODES)
    _, rows = run_round(name_point("prune", by_id=True), Statement(_LOOK, asked))
    chosen: list[int] = []
    nodes, place = 0, START
    for run_id, node_count, finished_at, is_due in rows:
        if is_due:
            nodes += node_count
            if chosen and (nodes > BATCH_NODES or len(chosen) >= BATCH_RUNS):
                break
            chosen.append(run_id)
        place = Place(finished_at, run_id)
    run_round(move_to(KIND, place))
    return chosen, bool(rows)


@in_transaction
def _delete(chosen: list[int]) -> tuple[int, list[str]]:
    """Under the runs' gates alone, so that none is being reopened; those that are no longer due are left."""
    _, _, rows, clock = run_round(
        name_point("prune", by_id=True),
        Statement(_GATES, (chosen,)),
        Statement(_STILL_DUE, (chosen, settings.KEEP_RUNS_DAYS)),
        CLOCK,
    )
    runs = [run_id for (run_id,) in rows]
    if not runs:
        return 0, []
    (links,) = run_round(Statement(_UNLINK, (runs,)))
    if links:
        told = {"runs": len(runs), "links": _ranges(sorted(number for (number,) in links))}
        fact = Fact(EventKind.PRUNED, data=told)
        run_round(record([fact], actor=system("prune"), at=clock_of(clock)))
    answers: list[list[tuple[Any, ...]]] = run_round(
        *(Statement(sql, (runs,)) for sql in _DELETES),
        Statement(_BLOBS, (runs,)),
        *(Statement(sql, (runs,)) for sql in _LAST),
    )
    return len(runs), [path for (path,) in answers[len(_DELETES)]]


def _ranges(numbers: list[int]) -> list[list[int]]:
    """Numbers in order as ranges, each from its first to its last: [[3, 5], [9, 9]]."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ranges
