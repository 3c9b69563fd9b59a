"""Locking rounds: gates, task rows in id order, the queue, the attempts, and then the clock (contract 4)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db.models import BooleanField, QuerySet
from django.db.models.expressions import RawSQL

from coordinator.fence import AttemptRow, TaskRow
from coordinator.models import Task
from coordinator.rounds import LockStatement, Statement


class QueueRow(NamedTuple):
    """A queue as it stands after its gate was taken."""

    id: int
    name: str
    scheduler_epoch: int
    intake: str
    active_pool: str
    min_contract: str
    rollout_stage: str
    default_ttl_seconds: int
    max_ttl_seconds: int
    max_lease_seconds: int
    retry_backoff_seconds: int
    retry_backoff_max_seconds: int
    incident_id: UUID | None  # the open one (contract 12)
    #: Empty where this is the database that it says it is; else why intake is held; None where nobody has compared yet.
    hold: str | None
    intake_share: int  # per cent let in while the intake is STOPPED: a canary (contract 12)


#: One row and no file: what was found out at the server's start still stands (coordinator/services/identity.py).
_HOLD: Final = (
    "(SELECT CASE WHEN i.held_because IS NOT NULL THEN i.held_because"
    " WHEN i.server_started = pg_postmaster_start_time() AND i.database_oid = d.oid AND i.sealed_by = i.xmin::text"
    " THEN '' END FROM coordinator_installation i, pg_database d WHERE d.datname = current_database())"
)
_QUEUE_COLUMNS: Final = (
    "SELECT q.id, q.name, q.scheduler_epoch, q.intake, q.active_pool_id, p.min_contract, q.rollout_stage,"  # noqa: S608 (constants of ours)
    " q.default_ttl_seconds, q.max_ttl_seconds, q.max_lease_seconds, q.retry_backoff_seconds,"
    " q.retry_backoff_max_seconds, (SELECT i.incident_id FROM coordinator_incidentqueue i"
    f" WHERE i.queue_id = q.id AND i.is_open), {_HOLD}, q.intake_share"
    " FROM coordinator_queue q JOIN coordinator_pool p ON p.name = q.active_pool_id"
)
_OF_TASKS: Final = (
    " WHERE q.id IN (SELECT queue_id FROM coordinator_task WHERE task_id = ANY(%s::uuid[]))"
)
_ATTEMPTS: Final = f"SELECT {', '.join(AttemptRow._fields)} FROM coordinator_attempt WHERE attempt_id = ANY(%s::uuid[])"  # noqa: S608

_ATTEMPTS_BY: Final = (
    f"SELECT {', '.join(AttemptRow._fields)} FROM coordinator_attempt"  # noqa: S608 (constants of ours)
    " WHERE attempt_id IN ({}) OR attempt_id = %s::uuid"
)


def _tasks_where(condition: str, params: int) -> QuerySet[Task, Any]:
    chosen = RawSQL(condition, [[]] * params, output_field=BooleanField())  # noqa: S611 (a constant of ours)
    return (
        Task.objects.filter(chosen)
        .order_by("task_id")
        .select_for_update(of=("self",))
        .values_list(*TaskRow._fields)
    )


_LOCK_TASKS = LockStatement(lambda: _tasks_where("task_id = ANY(%s::uuid[])", 1))
#: OFFSET 0 keeps it a look for each parent: where the planner takes the dependencies for few, it would read them all.
_LOCK_TASKS_AND_CHILDREN = LockStatement(
    lambda: _tasks_where(
        "task_id = ANY(ARRAY(SELECT unnest(%s::uuid[]) UNION SELECT c.child_id FROM unnest(%s::uuid[]) AS p(id),"
        " LATERAL (SELECT child_id FROM coordinator_dependency WHERE parent_id = p.id OFFSET 0) c))",
        2,
    )
)


def lock_tasks(task_ids: Sequence[UUID]) -> Statement:
    return _LOCK_TASKS(list(task_ids))


def lock_tasks_and_children(task_ids: Sequence[UUID]) -> Statement:
    return _LOCK_TASKS_AND_CHILDREN(list(task_ids), list(task_ids))


def read_queue(queue_id: int) -> Statement:
    """After the gate, in a statement of its own: never by a join inside an UPDATE (contract 4)."""
    return Statement(_QUEUE_COLUMNS + " WHERE q.id = %s", (queue_id,))


def read_queues_where(condition: str, *params: Any) -> Statement:
    """The queues that a constant condition of ours finds, by name; after their gates."""
    return Statement(f"{_QUEUE_COLUMNS} WHERE {condition} ORDER BY q.name", params)


def read_hold() -> Statement:
    """What `QueueRow.hold` is, where no queue is looked at."""
    return Statement(f"SELECT {_HOLD}")


def read_queues_of_tasks(task_ids: Sequence[UUID]) -> Statement:
    return Statement(_QUEUE_COLUMNS + _OF_TASKS, (list(task_ids),))


def read_attempts(attempt_ids: Sequence[UUID]) -> Statement:
    return Statement(_ATTEMPTS, (list(attempt_ids),))


def read_queue_by(sub_select: str, *params: Any) -> Statement:
    """The queue whose id a constant sub-select of ours finds."""
    return Statement(f"{_QUEUE_COLUMNS} WHERE q.id = ({sub_select})", params)


def read_attempts_by(sub_select: str, *params: Any) -> Statement:
    """The attempts whose ids a constant sub-select of ours finds, and the one named last."""
    return Statement(_ATTEMPTS_BY.format(sub_select), params)


def tasks_of(rows: Sequence[tuple[Any, ...]]) -> dict[UUID, TaskRow]:
    return {row[0]: TaskRow._make(row) for row in rows}


def attempts_of(rows: Sequence[tuple[Any, ...]]) -> dict[UUID, AttemptRow]:
    """Django's connections hand JSON out as text; only an ended attempt has any (`end_answer`)."""
    return {
        row[0]: AttemptRow._make(row if row[-1] is None else (*row[:-1], orjson.loads(row[-1])))
        for row in rows
    }


def queues_of(rows: Sequence[tuple[Any, ...]]) -> dict[int, QueueRow]:
    return {row[0]: QueueRow._make(row) for row in rows}


def seconds_until(instant: datetime, clock: datetime) -> float:
    """Remaining seconds, never negative: durations travel, instants are informative."""
    return max(0.0, round((instant - clock).total_seconds(), 3))
