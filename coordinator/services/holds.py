"""The end of a hold: what becomes of a task and its effects once its attempt has ended (contract 7, 8).

Take-over, release, fail, park, cancel and the epoch bump all come through here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.fence import TaskRow
from coordinator.rounds import Statement, run_round
from coordinator.seals import (
    DispatchRow,
    EffectRow,
    after_hold,
    closes_with_hold,
    waits_for_a_person,
)
from coordinator.states import EffectState, Replay, TaskState

from .effect_rows import Slot, lock_effects_of, slots_of
from .events import EventKind, Fact, task_fact


@dataclass(slots=True)
class HoldEnds:
    """The effects of tasks whose holds end, as they will stand, and the statements that write it."""

    slots: dict[UUID, list[Slot]] = field(default_factory=dict)
    waiting: set[UUID] = field(
        default_factory=set
    )  # something may be out that no worker can settle
    keeping: set[UUID] = field(
        default_factory=set
    )  # NON_REPLAYABLE, and something may be out: they keep their key
    statements: list[Statement] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)

    def out(self, task_id: UUID) -> list[EffectRow]:
        """The task's effects that may be out."""
        return [slot.effect for slot in self.slots.get(task_id, ()) if slot.effect.may_be_out]


def end_holds(tasks: Sequence[TaskRow], clock: datetime) -> HoldEnds:
    """Judge the effects of tasks whose attempts end now (or have ended); their rows are locked.

    One round trip, and none where no task declares an effect.
    """
    declared = {task.task_id: task for task in tasks if task.replay != Replay.READ_ONLY}
    ends = HoldEnds()
    if not declared:
        return ends
    effects, dispatches = run_round(*lock_effects_of(sorted(declared)))
    changed: list[EffectRow] = []
    closed: list[DispatchRow] = []
    for slot in slots_of(effects, dispatches):
        task = declared[slot.effect.task_id]
        state = after_hold(slot.effect, slot.dispatches)
        closed += [
            dispatch for dispatch in slot.dispatches if closes_with_hold(slot.effect, dispatch)
        ]
        if state != slot.effect.state:
            changed.append(slot.effect._replace(state=state))
            ends.facts.append(_fact(task, slot.effect, state))
        after = Slot(slot.effect._replace(state=state), slot.dispatches)
        ends.slots.setdefault(task.task_id, []).append(after)
    for task_id, slots in ends.slots.items():
        rows = [slot.effect for slot in slots]
        if waits_for_a_person(rows, clock):
            ends.waiting.add(task_id)
        if declared[task_id].replay == Replay.NON_REPLAYABLE and any(
            row.may_be_out for row in rows
        ):
            ends.keeping.add(task_id)
    ends.statements = _writes(changed, closed, clock)
    return ends


def _fact(task: TaskRow, effect: EffectRow, state: EffectState) -> Fact:
    kind = EventKind.EFFECT_CLOSED if state == EffectState.PREPARED else EventKind.EFFECT_UNKNOWN
    return task_fact(
        kind,
        task,
        changed=False,
        attempt_id=task.attempt_id,
        effect_id=effect.effect_id,
        slot=effect.slot,
    )


_CHANGE_EFFECTS: Final = """
UPDATE coordinator_effectslot e SET state = n.state,
  unknown_since = CASE WHEN n.state = 'UNKNOWN' THEN coalesce(e.unknown_since, c.clock) END
FROM (SELECT %s::timestamptz) AS c(clock), unnest(%s::text[], %s::text[]) AS n(effect_id, state)
WHERE e.effect_id = n.effect_id
"""
_FORGET_CALLS: Final = """
UPDATE coordinator_dispatch d SET outcome = 'UNKNOWN' FROM coordinator_effectslot e
WHERE e.effect_id = ANY(%s::text[]) AND d.effect_id = e.effect_id AND d.number = e.dispatches AND d.outcome IS NULL
"""
_CLOSE_DISPATCHES: Final = """
UPDATE coordinator_dispatch SET closed_at = %s WHERE dispatch_id = ANY(%s::uuid[]) AND closed_at IS NULL
"""


def close_dispatches(dispatches: Sequence[DispatchRow], clock: datetime) -> list[Statement]:
    ids = [dispatch.dispatch_id for dispatch in dispatches]
    return [Statement(_CLOSE_DISPATCHES, (clock, ids))] if ids else []


def change_effects(changed: Sequence[EffectRow], clock: datetime) -> list[Statement]:
    """Write the new states; `unknown_since` goes with UNKNOWN."""
    if not changed:
        return []
    return [
        Statement(
            _CHANGE_EFFECTS,
            (clock, [row.effect_id for row in changed], [row.state for row in changed]),
        )
    ]


def _writes(
    changed: Sequence[EffectRow], closed: Sequence[DispatchRow], clock: datetime
) -> list[Statement]:
    unknown = [row.effect_id for row in changed if row.state == EffectState.UNKNOWN]
    forget = [Statement(_FORGET_CALLS, (unknown,))] if unknown else []
    return [*close_dispatches(closed, clock), *change_effects(changed, clock), *forget]


@dataclass(frozen=True, slots=True)
class Freed:
    """A task whose hold ends: READY at `due`, or FAILED, AWAITING_… without one."""

    task: TaskRow
    state: TaskState
    due: datetime | None = None
    spent: int = 0  # 1 where the attempt ended EXPIRED or FAILED (counts against max_attempts)


def redirected(freed: Sequence[Freed], ends: HoldEnds) -> list[Freed]:
    """Where a task would become READY or FAILED while something waits for a person, it waits too (contract 7)."""
    return [
        Freed(each.task, TaskState.AWAITING_RECONCILIATION, None, each.spent)
        if each.task.task_id in ends.waiting and each.state in (TaskState.READY, TaskState.FAILED)
        else each
        for each in freed
    ]


#: A key is kept, not taken: who gave it up while a person decided may find a mate with it. A READY task is freed by a
#: claim alone, which holds the key's lock and has seen that nobody has it.
_FREE_TASKS: Final = """
UPDATE coordinator_task t SET
  state = f.state, state_version = t.state_version + 1, attempt_id = NULL, owner = NULL, lease_expires_at = NULL,
  serial_held = f.keeps AND (t.serial_held OR t.state = 'READY'),
  spent_attempts = t.spent_attempts + f.spent, claimable_at = f.due,
  ready_at = CASE WHEN f.state = 'READY' THEN c.clock ELSE t.ready_at END,
  not_before = CASE WHEN f.due > c.clock THEN f.due ELSE t.not_before END
FROM (SELECT %s::timestamptz) AS c(clock),
     unnest(%s::uuid[], %s::text[], %s::timestamptz[], %s::int[], %s::bool[]) AS f(task_id, state, due, spent, keeps)
WHERE t.task_id = f.task_id AND t.task_id = ANY(%s::uuid[])
"""


def free_tasks(freed: Sequence[Freed], ends: HoldEnds, clock: datetime) -> list[Statement]:
    """The effects' statements, then the tasks': nobody holds them any more."""
    if not freed:
        return list(ends.statements)
    keeping = ends.keeping
    return [
        *ends.statements,
        Statement(
            _FREE_TASKS,
            (
                clock,
                [each.task.task_id for each in freed],
                [str(each.state) for each in freed],
                [each.due for each in freed],
                [each.spent for each in freed],
                [
                    each.task.serial_scope_id is not None and each.task.task_id in keeping
                    for each in freed
                ],
                [each.task.task_id for each in freed],
            ),
        ),
    ]


def waiting_fact(task: TaskRow, ends: HoldEnds) -> Fact:
    """Why a task waits for a person now: which effects may be out."""
    slots = [effect.slot for effect in ends.out(task.task_id)]
    return task_fact(
        EventKind.HELD_FOR_RECONCILIATION, task, attempt_id=task.attempt_id, slots=slots
    )
