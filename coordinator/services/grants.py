"""Grants: generation +1, a new attempt, the queue's epoch stamped; and what a take-over ends (contract 7)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor, Worker
from coordinator.fence import Fence, IsCurrent, TaskRow
from coordinator.ids import new_ids
from coordinator.passes import present
from coordinator.rounds import Statement, run_round
from coordinator.states import TaskState

from .asked_changes import COLUMN as ASKED
from .asked_changes import AskedChanges, asked_changes
from .effect_rows import EffectView, read_views, views_of
from .events import EventKind, Fact, record, task_fact
from .holds import Freed, HoldEnds, end_holds, free_tasks, redirected, waiting_fact
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
    effects: list[EffectView]
    changes_asked: AskedChanges | None


@dataclass(frozen=True, slots=True)
class Place:
    """Room for one grant: whose it will be, and whose call it was, where several callers' are met together."""

    owner: str
    asked_by: Actor | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    task: TaskRow
    attempt_id: UUID
    reclaim_seconds: float | None  # since the lapsed lease that it takes over
    place: Place


@dataclass(slots=True)
class Grants:
    """One claim's grants and take-overs, and the statements that write them."""

    queue: QueueRow
    clock: datetime
    worker: Worker
    lease_expires_at: datetime
    granted: list[Grant]
    freed: list[
        Freed
    ]  # not granted: used up, waiting for a person, or mates that held a serial key
    ends: HoldEnds
    passed: list[IsCurrent]

    @classmethod
    def of(
        cls,
        tasks: Sequence[TaskRow],
        mates: Sequence[TaskRow],
        queue: QueueRow,
        clock: datetime,
        *,
        worker: Worker,
        ttl: int | None,
        places: Sequence[Place],
        passed: list[IsCurrent],
    ) -> "Grants":
        """As many as there are places are granted, the first ones; each task that ends instead does so."""
        seconds = min(
            ttl or queue.default_ttl_seconds, queue.max_ttl_seconds, queue.max_lease_seconds
        )
        ends = end_holds([*tasks, *mates], clock)
        tasks = [task for task in tasks if not _key_is_kept(task, mates, ends)]
        kept = [task for task in tasks if is_exhausted(task) or task.task_id in ends.waiting]
        taken = [task for task in tasks if task not in kept][: len(places)]
        granted = [
            Grant(task, attempt_id, _late_by(task, clock), place)
            for task, attempt_id, place in zip(taken, new_ids(len(taken)), places, strict=False)
        ]
        return cls(
            queue=queue,
            clock=clock,
            worker=worker,
            lease_expires_at=clock + timedelta(seconds=seconds),
            granted=granted,
            freed=redirected([_freed(task) for task in [*mates, *kept]], ends),
            ends=ends,
            passed=passed,
        )

    @property
    def attempt_ids(self) -> list[UUID]:
        return [grant.attempt_id for grant in self.granted]

    def statements(self) -> list[Statement]:
        """The writing round: what ends first, then the grants, then the events."""
        taken = [grant for grant in self.granted if grant.reclaim_seconds is not None]
        lapsed = [
            *(grant.task for grant in taken),
            *(each.task for each in self.freed if each.task.state == TaskState.CLAIMED),
        ]
        statements = expire(lapsed, self.clock) + free_tasks(self.freed, self.ends, self.clock)
        if self.granted:
            statements += [self._claim_tasks(), self._insert_attempts()]
        facts = [*self.ends.facts, *self._facts(taken)]
        if not facts:
            return statements
        return [
            present(self.passed),
            *statements,
            record(facts, actor=self.worker, at=self.clock),
        ]

    def _claim_tasks(self) -> Statement:
        return Statement(
            _CLAIM_TASKS,
            (
                self.queue.scheduler_epoch,
                self.lease_expires_at,
                [grant.task.task_id for grant in self.granted],
                [grant.place.owner for grant in self.granted],
                self.attempt_ids,
                [int(grant.reclaim_seconds is not None) for grant in self.granted],
                [grant.task.task_id for grant in self.granted],
            ),
        )

    def _insert_attempts(self) -> Statement:
        return Statement(
            _INSERT_ATTEMPTS,
            (
                self.queue.scheduler_epoch,
                self.worker.id,
                self.worker.pool,
                self.clock,
                self.lease_expires_at,
                self.attempt_ids,
                [grant.place.owner for grant in self.granted],
                [grant.task.task_id for grant in self.granted],
                [grant.task.claim_generation + 1 for grant in self.granted],
                [grant.task.cancel_generation for grant in self.granted],
                [grant.reclaim_seconds for grant in self.granted],
            ),
        )

    def _facts(self, taken: Sequence[Grant]) -> list[Fact]:
        return [
            *(
                expired_fact(grant.task, changed=False, asked_by=grant.place.asked_by)
                for grant in taken
            ),
            *(self._freed_fact(each) for each in self.freed),
            *(self._claimed_fact(grant) for grant in self.granted),
        ]

    def _freed_fact(self, freed: Freed) -> Fact:
        match freed.state:
            case TaskState.AWAITING_RECONCILIATION:
                return waiting_fact(freed.task, self.ends)
            case TaskState.FAILED:
                return used_up_fact(freed.task)
            case _:
                return expired_fact(freed.task, changed=True)

    def _claimed_fact(self, grant: Grant) -> Fact:
        return task_fact(
            EventKind.CLAIMED,
            grant.task,
            asked_by=grant.place.asked_by,
            attempt_id=grant.attempt_id,
            owner=grant.place.owner,
            claim_generation=grant.task.claim_generation + 1,
            scheduler_epoch=self.queue.scheduler_epoch,
            lease_expires_at=self.lease_expires_at,
            reclaim_seconds=grant.reclaim_seconds,
        )

    def reading(self) -> "Reading":
        """What the grants are answered with, read in the round that writes them."""
        return Reading.of(
            self.attempt_ids,
            [grant.task.task_id for grant in self.granted],
            self.queue.scheduler_epoch,
            self.clock,
            with_parents=any(grant.task.dependency_count for grant in self.granted),
            with_effects=bool(self.ends.slots),
        )


def is_exhausted(task: TaskRow) -> bool:
    """Whether taking it over would be one attempt too many (`max_attempts`, contract 7)."""
    return task.state == TaskState.CLAIMED and task.spent_attempts + 1 >= task.max_attempts


def _key_is_kept(task: TaskRow, mates: Sequence[TaskRow], ends: HoldEnds) -> bool:
    """Whether a mate that is recycled keeps the task's key, since an effect of it may be out (contract 7).

    Nor does the task itself take the key for such an effect in the statement that frees the mate.
    """
    mate = next((each for each in mates if each.serial_scope_id == task.serial_scope_id), None)
    return mate is not None and (mate.task_id in ends.keeping or task.task_id in ends.waiting)


def _late_by(task: TaskRow, clock: datetime) -> float | None:
    if task.state != TaskState.CLAIMED or task.lease_expires_at is None:
        return None
    return max(0.0, (clock - task.lease_expires_at).total_seconds())


def expire(tasks: Sequence[TaskRow], clock: datetime) -> list[Statement]:
    """End the attempts that hold these lapsed tasks. EXPIRED: it has not come back (yet)."""
    return (
        [Statement(_EXPIRE_ATTEMPTS, (clock, [task.attempt_id for task in tasks]))] if tasks else []
    )


def _freed(task: TaskRow) -> Freed:
    """A task that is not granted: lapsed and READY again, or FAILED once its attempts are used up."""
    if task.state != TaskState.CLAIMED:
        return Freed(task, TaskState.READY, task.claimable_at)
    if is_exhausted(task):
        return Freed(task, TaskState.FAILED, spent=1)
    return Freed(task, TaskState.READY, task.lease_expires_at, spent=1)


def expired_fact(task: TaskRow, *, changed: bool, asked_by: Actor | None = None) -> Fact:
    return task_fact(
        EventKind.EXPIRED,
        task,
        changed=changed,
        asked_by=asked_by,
        attempt_id=task.attempt_id,
        owner=task.owner,
        claim_generation=task.claim_generation,
        lease_expires_at=task.lease_expires_at,
    )


def used_up_fact(task: TaskRow) -> Fact:
    return task_fact(
        EventKind.FAILED,
        task,
        attempt_id=task.attempt_id,
        reason="attempts used up",
        attempts=task.spent_attempts + 1,
        max_attempts=task.max_attempts,
    )


@dataclass(frozen=True, slots=True)
class Reading:
    """How claims are read back: the statements, and the claims that their rows make."""

    attempt_ids: list[UUID]
    epoch: int
    clock: datetime
    statements: list[Statement]
    with_parents: bool
    with_effects: bool

    @classmethod
    def of(
        cls,
        attempt_ids: Sequence[UUID],
        task_ids: Sequence[UUID],
        epoch: int,
        clock: datetime,
        *,
        with_parents: bool = True,
        with_effects: bool = True,
    ) -> "Reading":
        ids = list(task_ids)
        statements = [Statement(_READ_CLAIMS, (ids,))]
        statements += [Statement(_READ_PARENTS, (ids,))] if with_parents else []
        statements += read_views(ids) if with_effects else []
        return cls(list(attempt_ids), epoch, clock, statements, with_parents, with_effects)

    def claims(self, rounds: Sequence[list[tuple[Any, ...]]]) -> list[Claim]:
        """The claims of the attempts that are current, in the given order."""
        rows, *others = rounds
        results = _results_of(others.pop(0)) if self.with_parents else {}
        effects: dict[UUID, list[EffectView]] = defaultdict(list)
        if self.with_effects:
            for view in views_of(*others):
                effects[view.task_id].append(view)
        found = {
            row[0]: _claim(row, results.get(row[1], {}), effects.get(row[1], []), self.clock)
            for row in rows
            if row[-1] == TaskState.CLAIMED and row[2] == self.epoch
        }
        return [found[attempt_id] for attempt_id in self.attempt_ids if attempt_id in found]


def read_claims(attempt_ids: Sequence[UUID], epoch: int, clock: datetime) -> list[Claim]:
    """The claims of these attempts that are current now."""
    (rows,) = run_round(Statement(_TASKS_OF, (list(attempt_ids),)))
    reading = Reading.of(attempt_ids, [row[0] for row in rows], epoch, clock)
    return reading.claims(run_round(*reading.statements))


_TASKS_OF: Final = "SELECT task_id FROM coordinator_attempt WHERE attempt_id = ANY(%s::uuid[])"


def _results_of(rows: Sequence[tuple[Any, ...]]) -> dict[UUID, dict[str, Any]]:
    results: dict[UUID, dict[str, Any]] = defaultdict(dict)
    for child, node_id, commit_id, digest, result, blob in rows:
        results[child][node_id] = {
            "result_commit_id": commit_id,
            "result_digest": digest,
            "result": orjson.Fragment(result if result is not None else blob),
        }
    return results


def _claim(
    row: tuple[Any, ...], parents: dict[str, Any], effects: list[EffectView], clock: datetime
) -> Claim:
    attempt_id, task_id, epoch, generation, cancels, owner, version, expires, run_id, *rest = row
    node_id, kind, revision, number, input_text, input_digest, replay, slots, asked, _ = rest
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
        parents=parents,
        effects=effects,
        changes_asked=asked_changes(asked),
    )


_CLAIM_TASKS: Final = """
UPDATE coordinator_task t SET
  state = 'CLAIMED', state_version = t.state_version + 1, claim_generation = t.claim_generation + 1,
  scheduler_epoch = %s, owner = g.owner, lease_expires_at = %s, attempt_id = g.attempt_id, claimable_at = NULL,
  attempts = t.attempts + 1, spent_attempts = t.spent_attempts + g.spent, serial_held = t.serial_scope_id IS NOT NULL
FROM unnest(%s::uuid[], %s::text[], %s::uuid[], %s::int[]) AS g(task_id, owner, attempt_id, spent)
WHERE t.task_id = g.task_id AND t.task_id = ANY(%s::uuid[])
"""
_INSERT_ATTEMPTS: Final = """
INSERT INTO coordinator_attempt
  (attempt_id, task_id, claim_generation, cancel_generation, scheduler_epoch, owner, credential_id, pool, state,
   started_at, lease_expires_at, renewals, renewed_at, reclaim_seconds, input_tokens, output_tokens,
   compute_seconds, cost_usd)
SELECT g.attempt_id, g.task_id, g.claim_generation, g.cancel_generation, c.epoch, g.owner, c.credential_id, c.pool,
       'STARTED', c.clock, c.expires, 0, '{}', g.reclaim_seconds, 0, 0, 0, 0
FROM (SELECT %s::bigint, %s::int, %s::text, %s::timestamptz, %s::timestamptz)
       AS c(epoch, credential_id, pool, clock, expires),
     unnest(%s::uuid[], %s::text[], %s::uuid[], %s::bigint[], %s::bigint[], %s::float8[])
       AS g(attempt_id, owner, task_id, claim_generation, cancel_generation, reclaim_seconds)
"""
_EXPIRE_ATTEMPTS: Final = """
UPDATE coordinator_attempt SET state = 'EXPIRED', ended_at = %s, end_reason = 'LEASE_EXPIRED'
WHERE attempt_id = ANY(%s::uuid[]) AND state IN ('STARTED', 'RESULT_STAGED')
"""
#: By the primary key alone, whatever the statistics say: a planner that knows no CLAIMED task yet would begin with the
#: state, and one that knows few runs with those, and read all tasks of each.
_READ_CLAIMS: Final = f"""
SELECT t.attempt_id, t.task_id, t.scheduler_epoch, t.claim_generation, t.cancel_generation, t.owner, t.state_version,
       t.lease_expires_at, (SELECT r.run_id FROM coordinator_run r WHERE r.id = t.run_id), t.node_id, t.kind,
       t.revision, t.attempts, t.input, t.input_digest, t.replay, t.slots::text, {ASKED}, t.state
FROM coordinator_task t
WHERE t.task_id = ANY(%s::uuid[])
"""  # noqa: S608 (constants of ours)
_READ_PARENTS: Final = """
SELECT d.child_id, p.node_id, c.result_commit_id, c.result_digest, c.result,
       CASE WHEN b.id IS NOT NULL THEN
         jsonb_build_object('blob', b.name, 'attempt_id', b.attempt_id, 'size_bytes', b.size_bytes)::text END
FROM coordinator_dependency d
     JOIN coordinator_task p ON p.task_id = d.parent_id
     JOIN coordinator_canonicalcommit c ON c.task_id = p.task_id
     LEFT JOIN coordinator_blob b ON b.id = c.blob_id
WHERE d.child_id = ANY(%s::uuid[])
"""
