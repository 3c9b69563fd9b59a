"""Serial keys: at most one holder a key, live or lapsed (contract 7)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL

from coordinator.fence import TaskRow
from coordinator.gates import try_serial_scopes
from coordinator.models import Task
from coordinator.rounds import LockStatement, Statement, run_round
from coordinator.states import TaskState

_HOLDERS: Final = LockStatement(
    lambda: (
        Task.objects.filter(
            Q(serial_held=True),
            RawSQL("serial_scope_id = ANY(%s::int[])", [[]], output_field=BooleanField()),
        )
        .order_by("task_id")
        .select_for_update(skip_locked=True, of=("self",))
        .values_list(*TaskRow._fields)
    )
)
_HELD: Final = """
SELECT serial_scope_id, task_id FROM coordinator_task WHERE serial_held AND serial_scope_id = ANY(%s::int[])
"""


def free_scopes(tasks: Sequence[TaskRow], clock: datetime) -> tuple[list[TaskRow], list[TaskRow]]:
    """The tasks that may be granted, and the lapsed mates that must be recycled first.

    Of several candidates with one key the first is kept. The key's advisory lock is tried,
    never waited for, so that one busy key never aborts a batch; then the holder is looked
    for in a later statement: a live one keeps the key, a lapsed one is taken SKIP LOCKED.
    """
    scopes: dict[int, TaskRow] = {}
    for task in tasks:
        if task.serial_scope_id is not None:
            scopes.setdefault(task.serial_scope_id, task)
    if not scopes:
        return list(tasks), []
    tried, holders, held = run_round(
        try_serial_scopes(list(scopes)),
        _HOLDERS(sorted(scopes)),
        Statement(_HELD, (sorted(scopes),)),
    )
    got = {scope_id for scope_id, locked in tried if locked}
    lapsed: dict[int, TaskRow] = {}
    for holder in map(TaskRow._make, holders):
        if holder.serial_scope_id is not None and _has_lapsed(holder, clock):
            lapsed[holder.serial_scope_id] = holder
    # A READY task that has kept its key, for an effect that its next worker can settle, is its own holder.
    busy = {scope_id for scope_id, holder_id in held if holder_id != scopes[scope_id].task_id}
    busy -= set(lapsed)
    granted = {
        scope_id: task
        for scope_id, task in scopes.items()
        if scope_id in got and scope_id not in busy
    }
    kept = [
        task
        for task in tasks
        if task.serial_scope_id is None or granted.get(task.serial_scope_id) is task
    ]
    mates = [
        holder
        for scope_id, holder in lapsed.items()
        if scope_id in granted and holder.task_id != granted[scope_id].task_id
    ]
    return kept, mates


def _has_lapsed(holder: TaskRow, clock: datetime) -> bool:
    return (
        holder.state == TaskState.CLAIMED
        and holder.lease_expires_at is not None
        and holder.lease_expires_at <= clock
    )
