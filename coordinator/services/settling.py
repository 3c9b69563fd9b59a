"""Tasks that wait for reconciliation go on once nothing of theirs waits for a person any more (contract 7)."""

from datetime import datetime
from typing import Final

from coordinator.actors import Actor
from coordinator.fence import TaskRow
from coordinator.rounds import Statement, run_round
from coordinator.seals import EffectRow, waits_for_a_person
from coordinator.states import TaskState

from .effect_rows import lock_effects_of
from .events import EventKind, record, task_fact
from .restore_holds import is_held

_GO_ON: Final = """
UPDATE coordinator_task SET state = 'READY', state_version = state_version + 1, ready_at = %s, claimable_at = %s,
  serial_held = serial_held AND %s
WHERE task_id = %s AND state = 'AWAITING_RECONCILIATION'
"""
_LET_GO: Final = (
    "UPDATE coordinator_task SET serial_held = false WHERE task_id = %s AND serial_held"
)


def settle_waiting(task: TaskRow, *, clock: datetime, actor: Actor) -> bool:
    """Move a locked task on after one of its effects was settled; whether it became READY.

    Moves only AWAITING_RECONCILIATION, never a CANCELLED, FAILED or SUPERSEDED task, nor one that a restore holds. A
    serial key that was kept for an effect is given back once nothing may be out.
    """
    rows, _ = run_round(*lock_effects_of([task.task_id]))
    effects = [EffectRow._make(row) for row in rows]
    may_be_out = any(effect.may_be_out for effect in effects)
    waits = task.state == TaskState.AWAITING_RECONCILIATION
    if waits and not waits_for_a_person(effects, clock) and not is_held(task):
        keeps = task.serial_scope_id is not None and may_be_out
        run_round(
            Statement(_GO_ON, (clock, clock, keeps, task.task_id)),
            record([task_fact(EventKind.SETTLED, task)], actor=actor, at=clock),
        )
        return True
    if task.state != TaskState.CLAIMED and task.serial_scope_id is not None and not may_be_out:
        run_round(Statement(_LET_GO, (task.task_id,)))
    return False
