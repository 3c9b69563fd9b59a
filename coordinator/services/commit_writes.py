"""The statements that write accepted commits: each one for the whole batch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.fence import AttemptRow, TaskRow
from coordinator.rounds import Statement

from .memory import MemoryBook
from .results import Offered


@dataclass(frozen=True, slots=True)
class Accepted:
    """A commit that was judged current: what is to be written for it."""

    task: TaskRow
    attempt: AttemptRow
    result_commit_id: UUID
    offered: Offered
    released: list[str]
    digest: str  # of the call

    @property
    def answer(self) -> dict[str, Any]:
        """What a repeat of this very commit is answered with."""
        return {"result_commit_id": str(self.result_commit_id), "released": self.released}


def commit_writes(
    accepted: Sequence[Accepted], clock: datetime, book: MemoryBook
) -> list[Statement]:
    if not accepted:
        return book.writes(clock)
    return [
        _insert_commits(accepted, clock),
        Statement(
            _COMMIT_TASKS,
            (
                [each.task.task_id for each in accepted],
                [each.result_commit_id for each in accepted],
                [each.task.task_id for each in accepted],
            ),
        ),
        Statement(
            _COMMIT_ATTEMPTS,
            (
                clock,
                [each.attempt.attempt_id for each in accepted],
                [each.digest for each in accepted],
                [orjson.dumps(each.answer).decode() for each in accepted],
                [each.attempt.attempt_id for each in accepted],
            ),
        ),
        *book.writes(clock),
    ]


def _insert_commits(accepted: Sequence[Accepted], clock: datetime) -> Statement:
    with_parents = any(each.task.dependency_count for each in accepted)
    return Statement(
        _INSERT_COMMITS.format(parents=_PARENTS if with_parents else "'[]'::jsonb"),
        (
            clock,
            [each.result_commit_id for each in accepted],
            [each.task.task_id for each in accepted],
            [each.attempt.attempt_id for each in accepted],
            [each.task.claim_generation for each in accepted],
            [each.task.scheduler_epoch for each in accepted],
            [each.task.input_digest for each in accepted],
            [each.offered.digest for each in accepted],
            [each.offered.text for each in accepted],
            [each.offered.blob_id for each in accepted],
        ),
    )


def children_writes(counted: Mapping[UUID, tuple[int, bool]], clock: datetime) -> list[Statement]:
    """Count each child down by its parents in this batch; those that reach zero open."""
    if not counted:
        return []
    counts = list(counted.values())
    return [
        Statement(
            _COUNT_DOWN,
            (
                clock,
                list(counted),
                [count for count, _ in counts],
                [opens for _, opens in counts],
                list(counted),
            ),
        )
    ]


_INSERT_COMMITS: Final = """
INSERT INTO coordinator_canonicalcommit
  (result_commit_id, task_id, attempt_id, claim_generation, scheduler_epoch, input_digest, result_digest, result,
   blob_id, parents, committed_at)
SELECT n.result_commit_id, n.task_id, n.attempt_id, n.claim_generation, n.scheduler_epoch, n.input_digest,
       n.result_digest, n.result, n.blob_id, {parents}, c.clock
FROM (SELECT %s::timestamptz) AS c(clock),
     unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], %s::text[], %s::text[], %s::text[],
            %s::bigint[])
       AS n(result_commit_id, task_id, attempt_id, claim_generation, scheduler_epoch, input_digest, result_digest,
            result, blob_id)
"""
#: Lineage: which commits the input was made of (contract 11).
_PARENTS: Final = """coalesce((
  SELECT jsonb_agg(jsonb_build_object('node_id', p.node_id, 'result_commit_id', pc.result_commit_id,
                                      'result_digest', pc.result_digest) ORDER BY p.node_id)
  FROM coordinator_dependency d JOIN coordinator_task p ON p.task_id = d.parent_id
       JOIN coordinator_canonicalcommit pc ON pc.task_id = p.task_id
  WHERE d.child_id = n.task_id), '[]'::jsonb)"""
_COMMIT_TASKS: Final = """
UPDATE coordinator_task t SET
  state = 'COMMITTED', state_version = t.state_version + 1, result_commit_id = n.result_commit_id,
  lease_expires_at = NULL, claimable_at = NULL, serial_held = false
FROM unnest(%s::uuid[], %s::uuid[]) AS n(task_id, result_commit_id)
WHERE t.task_id = n.task_id AND t.task_id = ANY(%s::uuid[])
"""
_COMMIT_ATTEMPTS: Final = """
UPDATE coordinator_attempt a SET
  state = 'COMMITTED', ended_at = c.clock, end_reason = 'COMMITTED', end_call = n.digest, end_answer = n.answer::jsonb
FROM (SELECT %s::timestamptz) AS c(clock), unnest(%s::uuid[], %s::text[], %s::text[]) AS n(attempt_id, digest, answer)
WHERE a.attempt_id = n.attempt_id AND a.attempt_id = ANY(%s::uuid[])
"""
_COUNT_DOWN: Final = """
UPDATE coordinator_task t SET
  pending_dependencies = t.pending_dependencies - n.parents,
  state = CASE WHEN n.opens THEN 'READY' ELSE t.state END,
  state_version = t.state_version + n.opens::int,
  ready_at = CASE WHEN n.opens THEN c.clock ELSE t.ready_at END,
  claimable_at = CASE WHEN n.opens THEN greatest(c.clock, t.not_before) ELSE t.claimable_at END
FROM (SELECT %s::timestamptz) AS c(clock), unnest(%s::uuid[], %s::int[], %s::bool[]) AS n(task_id, parents, opens)
WHERE t.task_id = n.task_id AND t.task_id = ANY(%s::uuid[])
"""
