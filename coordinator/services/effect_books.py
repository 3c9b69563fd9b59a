"""Effects at the end of a task: what keeps it from ending, and what becomes of the rest (contract 8.6)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from coordinator.fence import TaskRow
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import Statement, run_round
from coordinator.seals import EffectRow
from coordinator.states import EffectState, Replay

from .effect_rows import lock_effects_of
from .events import EventKind, Fact, task_fact


@dataclass(slots=True)
class EffectBook:
    """The effects of some locked tasks. Reads nothing where no task declares one."""

    effects: dict[UUID, list[EffectRow]] = field(default_factory=dict)

    @classmethod
    def of(cls, tasks: Iterable[TaskRow]) -> "EffectBook":
        # Whoever changes an effect holds its task's row, so that this later round can't deadlock.
        declared = sorted({task.task_id for task in tasks if task.replay != Replay.READ_ONLY})
        book = cls()
        if declared:
            rows, _ = run_round(*lock_effects_of(declared))
            for row in map(EffectRow._make, rows):
                book.effects.setdefault(row.task_id, []).append(row)
        return book

    def out(self, task: TaskRow) -> list[EffectRow]:
        return [row for row in self.effects.get(task.task_id, ()) if row.may_be_out]

    def reconcile_first(self, task: TaskRow) -> Refusal | None:
        """RECONCILE_FIRST while one of the task's effects may be out; the attempt stays current."""
        out = self.out(task)
        return reconcile_first(out) if out else None

    def void(self, tasks: Sequence[TaskRow], clock: datetime, facts: list[Fact]) -> list[Statement]:
        """PREPARED becomes VOID only when its task is COMMITTED or SUPERSEDED."""
        chosen = [
            (task, row)
            for task in tasks
            for row in self.effects.get(task.task_id, ())
            if row.state == EffectState.PREPARED
        ]
        if not chosen:
            return []
        facts += [
            task_fact(EventKind.EFFECT_VOID, task, effect_id=row.effect_id, slot=row.slot)
            for task, row in chosen
        ]
        return [Statement(_VOID, (clock, [row.effect_id for _, row in chosen]))]

    def happened(self, task: TaskRow) -> list[EffectRow]:
        return [
            row for row in self.effects.get(task.task_id, ()) if row.state == EffectState.COMMITTED
        ]


_VOID: Final = (
    "UPDATE coordinator_effectslot SET state = 'VOID', settled_at = %s"
    " WHERE effect_id = ANY(%s::text[]) AND state = 'PREPARED'"
)


@dataclass(frozen=True, slots=True)
class OutEffect:
    """An effect in a refusal or a receipt: enough to find it."""

    effect_id: str
    slot: str
    downstream: str
    state: str


def brief(row: EffectRow) -> OutEffect:
    return OutEffect(row.effect_id, row.slot, row.downstream, row.state)


def reconcile_first(out: Sequence[EffectRow]) -> Refusal:
    names = ", ".join(f"`{row.slot}` ({row.state})" for row in out)
    return Refusal(
        Outcome.RECONCILE_FIRST,
        f"An effect may be out: {names}. Find out what came of it and reconcile it first.",
        evidence_recorded=True,
        extra={"effects": [brief(row) for row in out]},
    )
