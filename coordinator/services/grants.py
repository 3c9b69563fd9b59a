"""Grants: generation +1, a new attempt, the queue's epoch stamped; and what a take-over ends (contract 7)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from coordinator.actors import Worker
from coordinator.fence import Fence, TaskRow
from coordinator.rounds import Statement, run_round
from coordinator.states import TaskState

from .events import EventKind, Fact, record, task_fact
from .locking import QueueRow, seconds_until


@dataclass(frozen=True, slots=True)
class Claim:
    """What a claim answers with (contract 7). `lease_seconds` is what remains."""

    fence: Fence
    owner: str
    state_version: int
    lease_expires_at: datetime
    lease_seconds: float
    run_id: UUID
    node_id: str
    kind: str
    revision: int
    attempt_number: int
    input: orjson.Fragment
    input_digest: str
    replay: str
    slots: dict[str, str]
    parents: dict[str, Any]
    effects: list[Any]


@dataclass(frozen=True, slots=True)
class Grant:
    task: TaskRow
    attempt_id: UUID
    reclaim_seconds: float | None  # since the lapsed lease that it takes over


@dataclass(slots=True)
class Grants:
    """One claim's grants, take-overs and exhausted tasks, and the statements that write them."""

    queue: QueueRow
    clock: datetime
    worker: Worker
    owner: str
    lease_expires_at: datetime
    granted: list[Grant]
    exhausted: list[TaskRow]  # lapsed once too often: FAILED, a person decides
    mates: list[TaskRow]  # lapsed holders of a serial key that a granted task needs
    _read: list[list[tuple[Any, ...]]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        tasks: Sequence[TaskRow],
        mates: Sequence[TaskRow],
        queue: QueueRow,
        clock: datetime,
        *,
        worker: Worker,
        owner: str,
        ttl: int | None,
    ) -> "Grants":
        seconds = min(
            ttl or queue.default_ttl_seconds, queue.max_ttl_seconds, queue.max_lease_seconds
        )
        granted = [
            Grant(task, uuid7(), _late_by(task, clock)) for task in tasks if not is_exhausted(task)
        ]
        return cls(
            queue=queue,
            clock=clock,
            worker=worker,
            owner=owner,
            lease_expires_at=clock + timedelta(seconds=seconds),
            granted=granted,
            exhausted=[task for task in tasks if is_exhausted(task)],
            mates=list(mates),
        )

    @property
    def attempt_ids(self) -> list[UUID]:
        return [grant.attempt_id for grant in self.granted]

    def statements(self) -> list[Statement]:
        """The writing round: what ends first, then the grants, then the events."""
        lapsed = [grant.task for grant in self.granted if grant.reclaim_seconds is not None]
        statements = recycle([*self.mates, *self.exhausted], self.clock) + expire(
            lapsed, self.clock
        )
        if self.granted:
            statements += [self._claim_tasks(), self._insert_attempts()]
        facts = self._facts(lapsed)
        return (
            [*statements, record(facts, actor=self.worker, at=self.clock)] if facts else statements
        )

    def _claim_tasks(self) -> Statement:
        return Statement(
            _CLAIM_TASKS,
            (
                self.queue.scheduler_epoch,
                self.owner,
                self.lease_expires_at,
                [grant.task.task_id for grant in self.granted],
                self.attempt_ids,
                [int(grant.reclaim_seconds is not None) for grant in self.granted],
            ),
        )

    def _insert_attempts(self) -> Statement:
        return Statement(
            _INSERT_ATTEMPTS,
            (
                self.queue.scheduler_epoch,
                self.owner,
                self.worker.id,
                self.worker.pool,
                self.clock,
                self.lease_expires_at,
                self.attempt_ids,
                [grant.task.task_id for grant in self.granted],
                [grant.task.claim_generation + 1 for grant in self.granted],
                [grant.task.cancel_generation for grant in self.granted],
                [grant.reclaim_seconds for grant in self.granted],
            ),
        )

    def _facts(self, lapsed: Sequence[TaskRow]) -> list[Fact]:
        facts = [expired_fact(task, changed=False) for task in lapsed]
        facts += [recycled_fact(task) for task in [*self.mates, *self.exhausted]]
        return facts + [self._claimed_fact(grant) for grant in self.granted]

    def _claimed_fact(self, grant: Grant) -> Fact:
        return task_fact(
            EventKind.CLAIMED,
            grant.task,
            attempt_id=grant.attempt_id,
            owner=self.owner,
            claim_generation=grant.task.claim_generation + 1,
            scheduler_epoch=self.queue.scheduler_epoch,
            lease_expires_at=self.lease_expires_at,
            reclaim_seconds=grant.reclaim_seconds,
        )

    def claims(self) -> list[Claim]:
        return (
            read_claims(self.attempt_ids, self.queue.scheduler_epoch, self.clock)
            if self.granted
            else []
        )


def is_exhausted(task: TaskRow) -> bool:
    """Whether taking it over would be one attempt too many (`max_attempts`, contract 7)."""
    return task.state == TaskState.CLAIMED and task.spent_attempts + 1 >= task.max_attempts


def _late_by(task: TaskRow, clock: datetime) -> float | None:
    if task.state != TaskState.CLAIMED or task.lease_expires_at is None:
        return None
    return max(0.0, (clock - task.lease_expires_at).total_seconds())


def expire(tasks: Sequence[TaskRow], clock: datetime) -> list[Statement]:
    """End the attempts that hold these lapsed tasks. EXPIRED: it has not come back (yet)."""
    return (
        [Statement(_EXPIRE_ATTEMPTS, (clock, [task.attempt_id for task in tasks]))] if tasks else []
    )


def recycle(tasks: Sequence[TaskRow], clock: datetime) -> list[Statement]:
    """End lapsed holds without a new grant: READY again, or FAILED once the attempts are used up."""
    if not tasks:
        return []
    failed = [is_exhausted(task) for task in tasks]
    return [
        *expire(tasks, clock),
        Statement(_RECYCLE_TASKS, (clock, [task.task_id for task in tasks], failed)),
    ]


def expired_fact(task: TaskRow, *, changed: bool) -> Fact:
    return task_fact(
        EventKind.EXPIRED,
        task,
        changed=changed,
        attempt_id=task.attempt_id,
        owner=task.owner,
        claim_generation=task.claim_generation,
        lease_expires_at=task.lease_expires_at,
    )


def recycled_fact(task: TaskRow) -> Fact:
    if not is_exhausted(task):
        return expired_fact(task, changed=True)
    return task_fact(
        EventKind.FAILED,
        task,
        attempt_id=task.attempt_id,
        reason="attempts used up",
        attempts=task.spent_attempts + 1,
        max_attempts=task.max_attempts,
    )


def read_claims(attempt_ids: Sequence[UUID], epoch: int, clock: datetime) -> list[Claim]:
    """The claims of these attempts that are current now, in the given order; one round trip."""
    rows, parents = run_round(
        Statement(_READ_CLAIMS, (list(attempt_ids), epoch)),
        Statement(_READ_PARENTS, (list(attempt_ids),)),
    )
    results: dict[UUID, dict[str, Any]] = defaultdict(dict)
    for child, node_id, commit_id, digest, result, blob in parents:
        results[child][node_id] = {
            "result_commit_id": commit_id,
            "result_digest": digest,
            "result": orjson.Fragment(result if result is not None else blob),
        }
    found = {row[0]: _claim(row, results, clock) for row in rows}
    return [found[attempt_id] for attempt_id in attempt_ids if attempt_id in found]


def _claim(row: tuple[Any, ...], parents: dict[UUID, dict[str, Any]], clock: datetime) -> Claim:
    attempt_id, task_id, epoch, generation, cancels, owner, version, expires, run_id, *rest = row
    node_id, kind, revision, number, input_text, input_digest, replay, slots = rest
    return Claim(
        fence=Fence(task_id, attempt_id, epoch, generation, cancels),
        owner=owner,
        state_version=version,
        lease_expires_at=expires,
        lease_seconds=seconds_until(expires, clock),
        run_id=run_id,
        node_id=node_id,
        kind=kind,
        revision=revision,
        attempt_number=number,
        input=orjson.Fragment(input_text),
        input_digest=input_digest,
        replay=replay,
        slots=orjson.loads(slots),
        parents=parents.get(task_id, {}),
        effects=[],
    )


_CLAIM_TASKS: Final = """
UPDATE coordinator_task t SET
  state = 'CLAIMED', state_version = t.state_version + 1, claim_generation = t.claim_generation + 1,
  scheduler_epoch = %s, owner = %s, lease_expires_at = %s, attempt_id = g.attempt_id, claimable_at = NULL,
  attempts = t.attempts + 1, spent_attempts = t.spent_attempts + g.spent, serial_held = t.serial_scope_id IS NOT NULL
FROM unnest(%s::uuid[], %s::uuid[], %s::int[]) AS g(task_id, attempt_id, spent)
WHERE t.task_id = g.task_id
"""
_INSERT_ATTEMPTS: Final = """
INSERT INTO coordinator_attempt
  (attempt_id, task_id, claim_generation, cancel_generation, scheduler_epoch, owner, credential_id, pool, state,
   started_at, lease_expires_at, renewals, renewed_at, reclaim_seconds, input_tokens, output_tokens,
   compute_seconds, cost_usd)
SELECT g.attempt_id, g.task_id, g.claim_generation, g.cancel_generation, c.epoch, c.owner, c.credential_id, c.pool,
       'STARTED', c.clock, c.expires, 0, '{}', g.reclaim_seconds, 0, 0, 0, 0
FROM (SELECT %s::bigint, %s::text, %s::int, %s::text, %s::timestamptz, %s::timestamptz)
       AS c(epoch, owner, credential_id, pool, clock, expires),
     unnest(%s::uuid[], %s::uuid[], %s::bigint[], %s::bigint[], %s::float8[])
       AS g(attempt_id, task_id, claim_generation, cancel_generation, reclaim_seconds)
"""
_EXPIRE_ATTEMPTS: Final = """
UPDATE coordinator_attempt SET state = 'EXPIRED', ended_at = %s, end_reason = 'LEASE_EXPIRED'
WHERE attempt_id = ANY(%s::uuid[]) AND state IN ('STARTED', 'RESULT_STAGED')
"""
_RECYCLE_TASKS: Final = """
UPDATE coordinator_task t SET
  state = CASE WHEN r.failed THEN 'FAILED' ELSE 'READY' END, state_version = t.state_version + 1,
  attempt_id = NULL, owner = NULL, lease_expires_at = NULL, serial_held = false,
  spent_attempts = t.spent_attempts + 1, ready_at = CASE WHEN r.failed THEN t.ready_at ELSE c.clock END,
  claimable_at = CASE WHEN r.failed THEN NULL ELSE t.lease_expires_at END
FROM (SELECT %s::timestamptz) AS c(clock), unnest(%s::uuid[], %s::bool[]) AS r(task_id, failed)
WHERE t.task_id = r.task_id
"""
_READ_CLAIMS: Final = """
SELECT t.attempt_id, t.task_id, t.scheduler_epoch, t.claim_generation, t.cancel_generation, t.owner, t.state_version,
       t.lease_expires_at, r.run_id, t.node_id, t.kind, t.revision, t.attempts, t.input, t.input_digest, t.replay,
       t.slots::text
FROM coordinator_attempt a JOIN coordinator_task t ON t.task_id = a.task_id AND t.attempt_id = a.attempt_id
     JOIN coordinator_run r ON r.id = t.run_id
WHERE a.attempt_id = ANY(%s::uuid[]) AND t.state = 'CLAIMED' AND t.scheduler_epoch = %s
"""
_READ_PARENTS: Final = """
SELECT d.child_id, p.node_id, c.result_commit_id, c.result_digest, c.result,
       CASE WHEN b.id IS NOT NULL THEN
         jsonb_build_object('blob', b.name, 'attempt_id', b.attempt_id, 'size_bytes', b.size_bytes)::text END
FROM coordinator_attempt a
     JOIN coordinator_dependency d ON d.child_id = a.task_id
     JOIN coordinator_task p ON p.task_id = d.parent_id
     JOIN coordinator_canonicalcommit c ON c.task_id = p.task_id
     LEFT JOIN coordinator_blob b ON b.id = c.blob_id
WHERE a.attempt_id = ANY(%s::uuid[])
"""
