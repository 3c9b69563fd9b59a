"""Gates and the lock order (contract 4).

Always: queue gate → run gate → tasks and the children to be changed, in one id-ordered
statement → serial scopes → effects (by id) → memory (namespace, key) → inserts.

Gates are advisory locks in the two-integer form (class, row id): no hash collisions, no
row that share-lockers would fight over. The epoch is read in a statement *after* the gate.
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, Final
from uuid import UUID

from coordinator.rounds import Statement


class GateClass(IntEnum):
    QUEUE = 1
    RUN = 2
    SERIAL_SCOPE = 3
    REQUEST = 4  # by the hash of an Idempotency-Key: a collision only waits
    DOWNSTREAM = 5
    ROLL_UP = 6  # one at a time counts
    AUDIT_CHAIN = 7  # one at a time seals
    SHADOW = 16  # by queue: the shadow's own, which no live call ever takes


def queue_gate(queue_id: int, *, exclusive: bool = False) -> Statement:
    """Every operation holds its queue's gate shared; a bump, stop, open or policy change alone."""
    return _gate(GateClass.QUEUE, queue_id, exclusive=exclusive)


def shadow_gate(queue_id: int) -> Statement:
    """One writer of a queue's shadow at a time; nothing of the live queue waits for it (contract 13)."""
    return _gate(GateClass.SHADOW, queue_id, exclusive=True)


def queue_gates_of(condition: str, *params: Any) -> Statement:
    """The gates of the queues that a constant condition of ours finds, alone, in id order; answers with their ids.

    What changes an incident's row holds the gates of all its queues, so that this row needs no
    place of its own in the lock order.
    """
    return Statement(_GATES_OF_QUEUES.format(condition=condition), (int(GateClass.QUEUE), *params))


_GATES_OF_QUEUES: Final = (
    "SELECT id, pg_advisory_xact_lock(%s::int, id) FROM ("
    "SELECT id FROM coordinator_queue WHERE {condition} ORDER BY id) gates"
)


def run_gate(run_id: int, *, exclusive: bool = False) -> Statement:
    """Commit holds it shared; revise, reopen and run-cancel alone."""
    return _gate(GateClass.RUN, run_id, exclusive=exclusive)


def _gate(gate: GateClass, row_id: int, *, exclusive: bool) -> Statement:
    return Statement(f"SELECT {_function(exclusive=exclusive)}({int(gate)}, %s::int)", (row_id,))


def _function(*, exclusive: bool) -> str:
    return "pg_advisory_xact_lock" if exclusive else "pg_advisory_xact_lock_shared"


# A task never changes its queue or run, so that they may be looked up before any lock.
_GATES_OF_TASKS: Final = (
    "SELECT {function}(%s::int, id) FROM ("
    "SELECT DISTINCT {column} AS id FROM coordinator_task WHERE task_id = ANY(%s::uuid[]) ORDER BY 1) gates"
)


def queue_gates_of_tasks(task_ids: Sequence[UUID]) -> Statement:
    sql = _GATES_OF_TASKS.format(function=_function(exclusive=False), column="queue_id")
    return Statement(sql, (int(GateClass.QUEUE), list(task_ids)))


def run_gates_of_tasks(task_ids: Sequence[UUID], *, exclusive: bool = False) -> Statement:
    sql = _GATES_OF_TASKS.format(function=_function(exclusive=exclusive), column="run_id")
    return Statement(sql, (int(GateClass.RUN), list(task_ids)))


def try_serial_scopes(scope_ids: Sequence[int]) -> Statement:
    """Try each scope's lock: one busy key never aborts a batch (contract 7)."""
    return Statement(
        "SELECT id, pg_try_advisory_xact_lock(%s::int, id) FROM (SELECT unnest(%s::int[]) AS id ORDER BY 1) scopes",
        (int(GateClass.SERIAL_SCOPE), sorted(scope_ids)),
    )


def try_downstream_of(effect_id: str) -> Statement:
    """Try the downstream's lock for an effect of a NON_REPLAYABLE task: two at once there, one is told SERIAL_BUSY."""
    return Statement(
        "SELECT pg_try_advisory_xact_lock(%s::int, d.id) FROM coordinator_effectslot e"
        " JOIN coordinator_downstream d ON d.name = e.downstream WHERE e.effect_id = %s AND e.is_exclusive",
        (int(GateClass.DOWNSTREAM), effect_id),
    )


def queue_gate_of_effect(effect_id: str) -> Statement:
    """The gate of the effect's queue, shared. An effect never changes its task, nor that its queue."""
    return Statement(
        "SELECT pg_advisory_xact_lock_shared(%s::int, t.queue_id) FROM coordinator_effectslot e"
        " JOIN coordinator_task t ON t.task_id = e.task_id WHERE e.effect_id = %s",
        (int(GateClass.QUEUE), effect_id),
    )
