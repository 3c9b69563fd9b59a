"""Leases: renewed by their owners, marked reclaimable by the sweep once they lapse (contract 4, 7)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from coordinator.actors import Actor, Worker
from coordinator.fence import Call, Fence, IsCurrent, Point, TaskRow
from coordinator.models import RENEWALS_REMEMBERED
from coordinator.outcomes import Outcome, Reason, Refusal, Retry
from coordinator.rounds import Statement, name_point, run_round

from .hearings import Hearing, open_hearing
from .locking import seconds_until
from .transactions import in_transaction
from .usage import Usage

SWEEP_BATCH: Final = 1_000


@dataclass(frozen=True, slots=True)
class Renewal:
    """One renewal. `asked_by`: whose call it is, where several callers' are heard together."""

    attempt_id: UUID
    fence: Fence
    owner: str
    ttl_seconds: int | None = None
    usage: Usage | None = None
    asked_by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Renewed:
    lease_expires_at: datetime
    lease_seconds: float
    outcome: str = "RENEWED"


@in_transaction
def renew_leases(
    *, items: Sequence[Renewal], worker: Worker, queue: str | None = None
) -> list[Renewed | Refusal]:
    """Move each lease to GREATEST(old, clock + ttl), clipped to the queue's limits.

    The fence decides, not the clock: a lapsed lease that nobody took over is renewed. Does
    not touch `state_version` nor, but for a lapsed row, any indexed column (HOT). Refused
    besides the fence's refusals: LEASE_LIMIT once `max_lease_seconds` are used up.
    """
    hearing = open_hearing(
        Point.RENEW, [(item.attempt_id, item.fence) for item in items], worker=worker
    )
    answers: list[Renewed | Refusal] = []
    renewed: dict[UUID, datetime] = {}
    for item in items:
        begin = len(hearing.facts)
        answer = _renew(hearing, item, queue)
        hearing.attribute(begin, item.asked_by)
        answers.append(answer)
        if isinstance(answer, Renewed):
            renewed[item.attempt_id] = max(
                answer.lease_expires_at, renewed.get(item.attempt_id, answer.lease_expires_at)
            )
    hearing.write_and_close(*_renewals(hearing, renewed))
    return answers


def _renew(hearing: Hearing, item: Renewal, queue: str | None) -> Renewed | Refusal:
    call = Call(Point.RENEW, item.fence, hearing.worker.id)
    verdict = hearing.judge(call, item.attempt_id, queue=queue, usage=item.usage)
    if not isinstance(verdict, IsCurrent):
        assert isinstance(verdict, Refusal), (
            "a renewal ends nothing, so there is no repeat to answer"
        )
        return verdict
    task, attempt = hearing.tasks[item.fence.task_id], hearing.attempts[item.attempt_id]
    if item.owner != attempt.owner:
        refusal = Refusal(
            Outcome.FENCED,
            "The attempt was granted to another owner.",
            reason=Reason.STALE_GENERATION,
            retry_as=Retry.RECLAIM,
            evidence_recorded=True,
        )
        return hearing.refuse(refusal, item.fence, task, attempt)
    return _extended(hearing, item, task, attempt.started_at)


def _extended(
    hearing: Hearing, item: Renewal, task: TaskRow, started_at: datetime
) -> Renewed | Refusal:
    queue, clock = hearing.queues[task.queue_id], hearing.clock
    old = task.lease_expires_at
    assert old is not None, "a CLAIMED task has a lease (constraint task_claimed_has_attempt)"
    limit = started_at + timedelta(seconds=queue.max_lease_seconds)
    if old >= limit:
        refusal = Refusal(
            Outcome.LEASE_LIMIT,
            f"The lease has reached the queue's max_lease_seconds ({queue.max_lease_seconds}); a commit still works.",
            evidence_recorded=True,
            extra={"lease_seconds": seconds_until(old, clock)},
        )
        return hearing.refuse(refusal, item.fence, task, hearing.attempts[item.attempt_id])
    seconds = min(item.ttl_seconds or queue.default_ttl_seconds, queue.max_ttl_seconds)
    expires = max(old, min(limit, clock + timedelta(seconds=seconds)))
    return Renewed(expires, seconds_until(expires, clock))


_RENEW_TASKS: Final = """
UPDATE coordinator_task t SET lease_expires_at = r.expires, claimable_at = NULL
FROM unnest(%s::uuid[], %s::timestamptz[]) AS r(task_id, expires)
WHERE t.task_id = r.task_id AND t.task_id = ANY(%s::uuid[])
"""
_RENEW_ATTEMPTS: Final = """
UPDATE coordinator_attempt a SET lease_expires_at = r.expires, renewals = a.renewals + 1,
  renewed_at = (a.renewed_at || c.clock)[greatest(1, cardinality(a.renewed_at) + 2 - %s):]
FROM (SELECT %s::timestamptz) AS c(clock), unnest(%s::uuid[], %s::timestamptz[]) AS r(attempt_id, expires)
WHERE a.attempt_id = r.attempt_id AND a.attempt_id = ANY(%s::uuid[])
"""


def _renewals(hearing: Hearing, renewed: dict[UUID, datetime]) -> list[Statement]:
    if not renewed:
        return []
    attempt_ids, instants = list(renewed), list(renewed.values())
    task_ids = [hearing.attempts[attempt_id].task_id for attempt_id in attempt_ids]
    return [
        Statement(_RENEW_TASKS, (task_ids, instants, task_ids)),
        Statement(
            _RENEW_ATTEMPTS,
            (RENEWALS_REMEMBERED, hearing.clock, attempt_ids, instants, attempt_ids),
        ),
    ]


_MARK_LAPSED: Final = """
WITH lapsed AS (
  SELECT task_id FROM coordinator_task
  WHERE {scope} state = 'CLAIMED' AND claimable_at IS NULL AND lease_expires_at <= clock_timestamp()
  ORDER BY task_id LIMIT %s FOR UPDATE SKIP LOCKED)
UPDATE coordinator_task t SET claimable_at = t.lease_expires_at FROM lapsed l
WHERE t.task_id = l.task_id AND t.state = 'CLAIMED' AND t.claimable_at IS NULL
  AND t.lease_expires_at <= clock_timestamp()
RETURNING t.queue_id
"""


@in_transaction
def sweep_queue(queue_id: int, limit: int = SWEEP_BATCH) -> int:
    """Mark up to `limit` lapsed leases of one queue reclaimable; how many were."""
    _, marked = run_round(
        name_point("sweep"),
        Statement(_MARK_LAPSED.format(scope="queue_id = %s AND"), (queue_id, limit)),
    )
    return len(marked)


@in_transaction
def sweep(*, limit: int = SWEEP_BATCH) -> dict[int, int]:
    """Mark up to `limit` lapsed leases reclaimable, by queue id.

    Safe to run many times at once: rows that another one holds are skipped, and each row is
    judged again by the database's clock under its own lock, so that nothing is ever written
    from an old look. Revokes nothing: a renewal before a take-over still succeeds.
    """
    _, marked = run_round(name_point("sweep"), Statement(_MARK_LAPSED.format(scope=""), (limit,)))
    counts: dict[int, int] = {}
    for (queue_id,) in marked:
        counts[queue_id] = counts.get(queue_id, 0) + 1
    return counts
