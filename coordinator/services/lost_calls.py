"""What becomes of the open tasks of a restored database: each of their calls may be out (contract 12).

What was prepared, accepted, sent and settled after the restored moment is not in the data. So every effect that isn't
final is UNKNOWN, with one more dispatch that stands for the calls that were lost; and a task that declares effects
waits for a person, because a slot that was bound since can't be seen at all.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.canary import DRILL
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import TaskRow
from coordinator.gates import queue_gates_of_tasks
from coordinator.ids import new_ids
from coordinator.rounds import Statement, name_point, run_round
from coordinator.seals import EffectRow
from coordinator.states import EffectState, Guarantee, Replay, TaskState

from . import locking
from .approvals import void_approvals
from .effect_rows import lock_effects_of
from .events import EventKind, Fact, record, task_fact
from .transactions import in_transaction

#: So many tasks are held in one transaction.
BATCH: Final = 200
REASON: Final = "the database was restored"
#: How the lost dispatch is named where the request of an acceptance stands.
REQUEST: Final = "after_restore:"

_SETTLED_EFFECT: Final = (EffectState.COMMITTED, EffectState.VOID)
_ENDED_TASK: Final = (TaskState.CANCELLED, TaskState.FAILED)

#: A canary of the fence drill sends nothing, ever; the queue's next drill cancels what one has left.
_NEXT: Final = f"""
SELECT task_id, run_id FROM coordinator_task
WHERE state NOT IN ('COMMITTED', 'SUPERSEDED') AND kind <> '{DRILL}' AND (run_id, task_id) > (%s::int, %s::uuid)
ORDER BY run_id, task_id LIMIT %s
"""  # noqa: S608 (a constant of ours)
_HELD_BEFORE: Final = """
SELECT task_id FROM coordinator_restorehold WHERE restore_id = %s AND task_id = ANY(%s::uuid[])
"""
_HOLD: Final = """
INSERT INTO coordinator_restorehold (restore_id, task_id, held_at) SELECT %s, unnest(%s::uuid[]), %s::timestamptz
"""
_END_ATTEMPTS: Final = """
UPDATE coordinator_attempt SET state = 'EXPIRED', ended_at = %s, end_reason = 'RESTORE'
WHERE attempt_id = ANY(%s::uuid[]) AND state IN ('STARTED', 'RESULT_STAGED')
"""
_WAIT: Final = """
UPDATE coordinator_task SET state = 'AWAITING_RECONCILIATION', state_version = state_version + 1, attempt_id = NULL,
  owner = NULL, lease_expires_at = NULL, claimable_at = NULL, serial_held = serial_held AND replay = 'NON_REPLAYABLE'
WHERE task_id = ANY(%s::uuid[])
"""
_FREE: Final = """
UPDATE coordinator_task SET state = 'READY', state_version = state_version + 1, attempt_id = NULL, owner = NULL,
  lease_expires_at = NULL, serial_held = false, ready_at = c.clock, claimable_at = c.clock
FROM (SELECT %s::timestamptz) AS c(clock) WHERE task_id = ANY(%s::uuid[])
"""
#: A gated call may have been let through since, and nobody knows: so it counts as redeemed.
_LOSE: Final = """
INSERT INTO coordinator_dispatch
  (dispatch_id, effect_id, number, attempt_id, claim_generation, scheduler_epoch, request_id, accepted_at,
   call_deadline, outcome, redeemed_at, redeem_id)
SELECT l.dispatch_id, l.effect_id, l.number, a.attempt_id, a.claim_generation, a.scheduler_epoch, %s, c.clock,
       l.call_deadline, 'UNKNOWN', CASE WHEN l.gated THEN c.clock END, CASE WHEN l.gated THEN %s END
FROM (SELECT %s::timestamptz) AS c(clock),
     unnest(%s::uuid[], %s::text[], %s::int[], %s::uuid[], %s::timestamptz[], %s::bool[])
       AS l(dispatch_id, effect_id, number, task_id, call_deadline, gated)
CROSS JOIN LATERAL (SELECT attempt_id, claim_generation, scheduler_epoch FROM coordinator_attempt
                    WHERE task_id = l.task_id ORDER BY claim_generation DESC LIMIT 1) a
"""
_FORGET: Final = """
UPDATE coordinator_dispatch SET outcome = 'UNKNOWN' WHERE effect_id = ANY(%s::text[]) AND outcome IS NULL
"""
#: A key's validity counts from the first moment at which it may have been used.
_DOUBT: Final = """
UPDATE coordinator_effectslot e SET state = 'UNKNOWN', out_on_suspicion = true, dispatches = e.dispatches + 1,
  unknown_since = coalesce(e.unknown_since, c.clock),
  call_deadline = c.clock + make_interval(secs => e.call_timeout_seconds),
  accepted_at = coalesce(e.accepted_at, c.clock), first_accepted_at = coalesce(e.first_accepted_at, e.prepared_at),
  verdict = NULL, verdict_dispatches = NULL, probes = 0, probe_after = NULL
FROM (SELECT %s::timestamptz) AS c(clock) WHERE e.effect_id = ANY(%s::text[])
"""


def hold_next(*, restore_id: int, after: tuple[int, UUID], actor: Actor) -> tuple[int, UUID] | None:
    """Deal with the next BATCH of open tasks, in the order of their runs; where it ended, None after the last.

    Attempts end EXPIRED, approvals become VOID, effects UNKNOWN; tasks that declare effects are AWAITING_RECONCILIATION
    under a hold of this restore (CANCELLED and FAILED ones stay so, under the same hold), others that were CLAIMED are
    READY. A task that is held already is left alone: safe to repeat.
    """
    found = _next(after)
    if not found:
        return None
    _hold(restore_id, sorted(task_id for task_id, _ in found), actor)
    task_id, run_id = found[-1]
    return run_id, task_id


@in_transaction
def _next(after: tuple[int, UUID]) -> list[tuple[UUID, int]]:
    (rows,) = run_round(Statement(_NEXT, (*after, BATCH)))
    return [(task_id, run_id) for task_id, run_id in rows]


@in_transaction
def _hold(restore_id: int, task_ids: Sequence[UUID], actor: Actor) -> None:
    _, _, locked, before, clock_rows = run_round(
        name_point("restore"),
        queue_gates_of_tasks(task_ids),
        locking.lock_tasks(task_ids),
        Statement(_HELD_BEFORE, (restore_id, list(task_ids))),
        CLOCK,
    )
    clock, held = clock_of(clock_rows), {task_id for (task_id,) in before}
    done = (TaskState.COMMITTED, TaskState.SUPERSEDED)
    tasks = [
        task
        for task in map(TaskRow._make, locked)
        if task.task_id not in held and task.state not in done
    ]
    declaring = [task for task in tasks if task.replay != Replay.READ_ONLY]
    freed = [
        task
        for task in tasks
        if task.replay == Replay.READ_ONLY and task.state == TaskState.CLAIMED
    ]
    facts = void_approvals(declaring, clock=clock, reason=REASON)
    statements = [*_lose(declaring, clock, facts), *_wait(declaring, restore_id, clock, facts)]
    statements += _free(freed, clock, facts)
    if statements:
        run_round(*statements, record(facts, actor=actor, at=clock))


def _lose(tasks: Sequence[TaskRow], clock: datetime, facts: list[Fact]) -> list[Statement]:
    """One more dispatch for each effect that isn't final: it stands for the calls that can't be seen."""
    if not tasks:
        return []
    by_id = {task.task_id: task for task in tasks}
    rows, _ = run_round(*lock_effects_of(sorted(by_id)))
    effects = [row for row in map(EffectRow._make, rows) if row.state not in _SETTLED_EFFECT]
    if not effects:
        return []
    facts += [
        task_fact(
            EventKind.EFFECT_UNKNOWN,
            by_id[row.task_id],
            changed=False,
            effect_id=row.effect_id,
            slot=row.slot,
            was=row.state,
            dispatch_number=row.dispatches + 1,
            reason=REASON,
        )
        for row in effects
    ]
    ids = [row.effect_id for row in effects]
    lost = Statement(_LOSE, (REQUEST, REQUEST, clock, *_columns(effects, clock)))
    return [Statement(_FORGET, (ids,)), Statement(_DOUBT, (clock, ids)), lost]


def _columns(effects: Sequence[EffectRow], clock: datetime) -> list[list[Any]]:
    return [
        list(new_ids(len(effects))),
        [row.effect_id for row in effects],
        [row.dispatches + 1 for row in effects],
        [row.task_id for row in effects],
        [clock + timedelta(seconds=row.call_timeout_seconds) for row in effects],
        [row.guarantee == Guarantee.GATED for row in effects],
    ]


def _wait(
    tasks: Sequence[TaskRow], restore_id: int, clock: datetime, facts: list[Fact]
) -> list[Statement]:
    if not tasks:
        return []
    waiting = [task for task in tasks if task.state not in _ENDED_TASK]
    moved = [task for task in waiting if task.state != TaskState.AWAITING_RECONCILIATION]
    facts += [
        task_fact(
            EventKind.HELD_FOR_RECONCILIATION,
            task,
            changed=task in moved,
            attempt_id=task.attempt_id,
            reason=REASON,
            restore=restore_id,
        )
        for task in waiting
    ]
    return [
        Statement(_END_ATTEMPTS, (clock, [task.attempt_id for task in moved if task.attempt_id])),
        Statement(_WAIT, ([task.task_id for task in moved],)),
        Statement(_HOLD, (restore_id, [task.task_id for task in tasks], clock)),
    ]


def _free(tasks: Sequence[TaskRow], clock: datetime, facts: list[Fact]) -> list[Statement]:
    if not tasks:
        return []
    facts += [
        task_fact(
            EventKind.EXPIRED,
            task,
            attempt_id=task.attempt_id,
            owner=task.owner,
            claim_generation=task.claim_generation,
            reason="RESTORE",
        )
        for task in tasks
    ]
    return [
        Statement(_END_ATTEMPTS, (clock, [task.attempt_id for task in tasks])),
        Statement(_FREE, (clock, [task.task_id for task in tasks])),
    ]
