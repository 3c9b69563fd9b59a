"""One effect, heard: its task and itself locked, the clock last, whoever asks (contract 4, 8)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from coordinator.actors import Actor, Worker
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import (
    AttemptRow,
    Call,
    Fence,
    IsCurrent,
    Point,
    TaskRow,
    Verdict,
    grants_are_void,
    judge,
)
from coordinator.gates import queue_gate_of_effect
from coordinator.models import Task
from coordinator.outcomes import Refusal
from coordinator.passes import present
from coordinator.rounds import LockStatement, Statement, name_point, run_round

from . import locking
from .effect_rows import Slot, lock_effect, slots_of
from .events import EventKind, Fact, record, refusal_fact, task_fact
from .identity import hold_of
from .locking import QueueRow

_LOCK_TASK: Final = LockStatement(
    lambda: (
        Task.objects.filter(
            RawSQL(
                "task_id = (SELECT task_id FROM coordinator_effectslot WHERE effect_id = %s)",
                [""],
                output_field=BooleanField(),
            )
        )
        .select_for_update(of=("self",))
        .values_list(*TaskRow._fields)
    )
)
_QUEUE: Final = """
SELECT t.queue_id FROM coordinator_task t JOIN coordinator_effectslot e ON e.task_id = t.task_id WHERE e.effect_id = %s
"""
_ATTEMPTS_OF: Final = """
SELECT attempt_id FROM coordinator_dispatch WHERE effect_id = %s
"""


@dataclass(slots=True)
class EffectHearing:
    """What was found under the locks, and the facts to be written about it."""

    point: Point
    actor: Actor
    task: TaskRow
    queue: QueueRow
    slot: Slot
    attempts: dict[UUID, AttemptRow]
    clock: datetime
    extra: list[list[tuple[Any, ...]]]
    facts: list[Fact] = field(default_factory=list)
    passed: list[IsCurrent] = field(default_factory=list)

    def judge(self, fence: Fence, *, credential_id: int) -> Verdict | None:
        """The one guard, on a call about this effect; None where the fence names another task or attempt."""
        attempt = self.attempts.get(fence.attempt_id)
        if (
            attempt is None
            or fence.task_id != self.task.task_id
            or attempt.task_id != self.task.task_id
        ):
            return None
        call = Call(self.point, fence, credential_id)
        epoch, hold = self.queue.scheduler_epoch, hold_of(self.queue)
        verdict = judge(call, task=self.task, attempt=attempt, epoch=epoch)
        if hold and self.point is Point.REDEEM and isinstance(verdict, IsCurrent):
            return grants_are_void(hold, self.task, epoch)
        if isinstance(verdict, IsCurrent):
            self.passed.append(verdict)
        return verdict

    def tell(self, kind: EventKind, **data: Any) -> None:
        effect = self.slot.effect
        told = task_fact(
            kind, self.task, changed=False, effect_id=effect.effect_id, slot=effect.slot, **data
        )
        self.facts.append(told)

    def refuse(self, refusal: Refusal) -> Refusal:
        """Record a refusal as a fact; the caller writes and returns it."""
        subject = f"{self.actor.label}:{self.slot.effect.effect_id}:{self.slot.effect.dispatches}"
        self.facts.append(refusal_fact(refusal, point=self.point, subject=subject, task=self.task))
        return refusal

    def write(self, *statements: Statement, actor: Actor | None = None) -> None:
        """Write them with the facts, which are the caller's doing unless `actor` is named."""
        who = actor or self.actor
        closing = [record(self.facts, actor=who, at=self.clock)] if self.facts else []
        pass_ = [present(self.passed)] if statements else []
        if statements or closing:
            run_round(*pass_, *statements, *closing)


def open_effect(
    effect_id: str,
    point: Point,
    *,
    actor: Actor,
    attempt_id: UUID | None = None,
    extra: tuple[Statement, ...] = (),
    act: str | None = None,
) -> EffectHearing | None:
    """Lock the effect's task and the effect; None where there is no such effect.

    Only a worker stands at an acceptance point; what a person or the system does is an act of
    theirs, and so is what `act` names (contract 14).
    """
    by_worker = isinstance(actor, Worker)
    rows = run_round(
        name_point(act or (point if by_worker else f"{point}_by_{actor.kind}")),
        queue_gate_of_effect(effect_id),
        _LOCK_TASK(effect_id),
        locking.read_queue_by(_QUEUE, effect_id),
        *lock_effect(effect_id),
        locking.read_attempts_by(_ATTEMPTS_OF, effect_id, attempt_id),
        *extra,
        CLOCK,
    )
    _, _, tasks, queues, effects, dispatches, attempts, *others, clock = rows
    if not tasks:
        return None
    (slot,) = slots_of(effects, dispatches)
    return EffectHearing(
        point=point,
        actor=actor,
        task=TaskRow._make(tasks[0]),
        queue=QueueRow._make(queues[0]),
        slot=slot,
        attempts=locking.attempts_of(attempts),
        clock=clock_of(clock),
        extra=others,
    )
