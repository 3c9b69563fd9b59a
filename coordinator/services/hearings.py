"""Calls of attempts, heard together: locked, judged in order, refusals recorded (contract 3).

Renew, stage, commit, fail and release all come through here, single or in batches: a single
call is a batch of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Final
from uuid import UUID

import orjson
from django.db import transaction

from coordinator import digests
from coordinator.actors import Actor, Worker
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import (
    AttemptRow,
    Call,
    Fence,
    IsCurrent,
    IsRepeat,
    Point,
    TaskRow,
    Verdict,
    grants_are_void,
    judge,
)
from coordinator.gates import queue_gates_of_tasks, run_gates_of_tasks
from coordinator.outcomes import FieldError, Outcome, Reason, Refusal, invalid, not_found
from coordinator.passes import present
from coordinator.rounds import Statement, close_with_round, name_point, run_round
from coordinator.shadow.lanes import queue_of
from coordinator.states import AttemptState

from . import locking
from .confirming import run_round_for
from .events import EventKind, Fact, record, refusal_fact, task_fact
from .identity import confirm_if_ahead, held, hold_of
from .locking import QueueRow
from .usage import Usage, raise_usage


@dataclass(slots=True)
class Hearing:
    """What the locking round found, and what is to be written about it."""

    point: Point
    worker: Worker
    tasks: dict[UUID, TaskRow]
    attempts: dict[UUID, AttemptRow]
    queues: dict[int, QueueRow]
    clock: datetime
    extra: list[list[tuple[Any, ...]]]
    facts: list[Fact] = field(default_factory=list)
    passed: list[IsCurrent] = field(default_factory=list)
    heard: list[UUID] = field(default_factory=list)
    fenced: list[UUID] = field(default_factory=list)
    usage: dict[UUID, Usage] = field(default_factory=dict)

    def judge(
        self, call: Call, attempt_id: UUID, *, queue: str | None, usage: Usage | None
    ) -> Verdict:
        """The verdict on one call; a refusal is noted as a fact, with the usage that it reports."""
        verdict = self._judge(call, attempt_id, queue)
        task, attempt = self.tasks.get(call.fence.task_id), self.attempts.get(attempt_id)
        if isinstance(verdict, Refusal) and verdict.outcome is Outcome.FORBIDDEN:
            self._note(verdict, attempt_id, task, subject=f"{self.worker.label}:{attempt_id}")
            return verdict
        if isinstance(verdict, IsCurrent):
            self.passed.append(verdict)
        elif task is not None and attempt is not None:
            self.heard.append(task.task_id)
        # A repeat changes nothing: what it reports was reported by the call that it repeats.
        is_repeat = isinstance(verdict, IsRepeat)
        if attempt is not None and usage is not None and task is not None and not is_repeat:
            self.usage[attempt_id] = usage
        if isinstance(verdict, Refusal) and task is not None and attempt is not None:
            self.refuse(verdict, call.fence, task, attempt)
        return verdict

    def _judge(self, call: Call, attempt_id: UUID, queue: str | None) -> Verdict:
        attempt = self.attempts.get(attempt_id)
        task = self.tasks.get(call.fence.task_id)
        if attempt is None or task is None:
            return not_found("attempt" if attempt is None else "task")
        if call.fence.attempt_id != attempt_id or attempt.task_id != task.task_id:
            return invalid(
                FieldError("/fence/attempt_id", "It is not the attempt that the address names.")
            )
        row = self.queues[task.queue_id]
        if queue is not None and queue_of(row.name) != queue:
            return not_found(f"attempt in queue `{queue}`")
        hold = hold_of(row)
        verdict = judge(call, task=task, attempt=attempt, epoch=row.scheduler_epoch)
        if hold and isinstance(verdict, IsCurrent):
            return _while_held(call.point, hold, task, row) or verdict
        return verdict

    def refuse(self, refusal: Refusal, fence: Fence, task: TaskRow, attempt: AttemptRow) -> Refusal:
        """Note a refusal: an event (equal repeats only count), and the attempt's mark."""
        self._note(
            refusal,
            attempt.attempt_id,
            task,
            subject=str(attempt.attempt_id),
            fence=_counters(fence),
        )
        if refusal.outcome is Outcome.FENCED and attempt.state == AttemptState.EXPIRED:
            self.fenced.append(attempt.attempt_id)
        if refusal.reason is Reason.AHEAD:
            row = self.queues[task.queue_id]
            transaction.on_commit(partial(confirm_if_ahead, row.name, row.scheduler_epoch))
            self.facts.append(_alarm(self.point, fence, task))
        return refusal

    def _note(
        self, refusal: Refusal, attempt_id: UUID, task: TaskRow | None, *, subject: str, **data: Any
    ) -> None:
        self.facts.append(
            refusal_fact(
                refusal, point=self.point, subject=subject, task=task, attempt_id=attempt_id, **data
            )
        )

    def attribute(self, begin: int, by: Actor | None) -> None:
        """Say of the facts from `begin` on whose call they tell of, where it was another one's than the batch's."""
        if by is not None:
            self.facts[begin:] = [replace(fact, asked_by=by) for fact in self.facts[begin:]]

    def write(self, *statements: Statement) -> None:
        """The writing round: the guard's passes, the verb's own statements, then marks, usage and events."""
        written = self._written(statements)
        if written:
            run_round(*written)

    def write_and_close(
        self, *statements: Statement, look: Statement | None = None
    ) -> list[tuple[Any, ...]]:
        """The same as the transaction's last round: its COMMIT travels along, and a look at what came of it."""
        written = self._written(statements)
        if not written:
            return []
        looks = [look] if look else []
        rows = close_with_round(*written, afterwards=looks)
        return rows[-1] if looks else []

    def _written(self, statements: Sequence[Statement]) -> list[Statement]:
        marks = [Statement(_MARK_FENCED, (self.fenced,))] if self.fenced else []
        if self.usage:
            marks.append(raise_usage(self.usage))
        told = [record(self.facts, actor=self.worker, at=self.clock)] if self.facts else []
        passes = [present(self.passed, self.heard)] if statements or marks else []
        return [*passes, *statements, *marks, *told]


#: Only an EXPIRED attempt becomes FENCED; the other ends are final (contract 3).
_MARK_FENCED: Final = """
UPDATE coordinator_attempt SET state = 'FENCED' WHERE attempt_id = ANY(%s::uuid[]) AND state = 'EXPIRED'
"""


def _while_held(point: Point, hold: str, task: TaskRow, row: QueueRow) -> Refusal | None:
    """What no grant of a database in doubt may do: send, or end a task. Its epoch is as good as over (contract 12)."""
    match point:
        case Point.ACCEPT | Point.PREPARE:
            return held(hold)
        case Point.COMMIT:
            return grants_are_void(hold, task, row.scheduler_epoch)
        case _:
            return None


def _counters(fence: Fence) -> dict[str, int]:
    return {
        "scheduler_epoch": fence.scheduler_epoch,
        "claim_generation": fence.claim_generation,
        "cancel_generation": fence.cancel_generation,
    }


def _alarm(point: Point, fence: Fence, task: TaskRow) -> Fact:
    alarm = task_fact(EventKind.ALARM, task, changed=False, attempt_id=fence.attempt_id)
    told = {"alarm": "FENCE_AHEAD", "point": point, "fence": _counters(fence)}
    return Fact(
        alarm.kind,
        queue_id=alarm.queue_id,
        run_id=alarm.run_id,
        task_id=alarm.task_id,
        attempt_id=alarm.attempt_id,
        state_version=alarm.state_version,
        data=told,
        refusal_key=f"alarm:{fence.attempt_id}:{point}",
    )


def open_hearing(
    point: Point,
    calls: Sequence[tuple[UUID, Fence]],
    *,
    worker: Worker,
    with_children: bool = False,
    extra: Sequence[Statement] = (),
) -> Hearing:
    """Lock what the calls concern and read it, the clock last: one round trip.

    Takes each queue's gate shared; with `with_children` also each run's gate, and the rows
    of the tasks' children. `extra` statements run with the locks held, before the clock.
    """
    task_ids = sorted({fence.task_id for _, fence in calls})
    attempt_ids = [attempt_id for attempt_id, _ in calls]
    lock = locking.lock_tasks_and_children if with_children else locking.lock_tasks
    gates = [queue_gates_of_tasks(task_ids)] + (
        [run_gates_of_tasks(task_ids)] if with_children else []
    )
    rounds = run_round_for(
        worker,
        name_point(point, by_id=True),
        *gates,
        lock(task_ids),
        locking.read_queues_of_tasks(task_ids),
        locking.read_attempts(attempt_ids),
        *extra,
        CLOCK,
    )
    tasks, queues, attempts, *others, clock = rounds[1 + len(gates) :]
    return Hearing(
        point=point,
        worker=worker,
        tasks=locking.tasks_of(tasks),
        attempts=locking.attempts_of(attempts),
        queues=locking.queues_of(queues),
        clock=clock_of(clock),
        extra=others,
    )


def call_digest(point: Point, body: Any) -> str:
    """Names a call exactly, so that a repeat of the very call is known (contract 3)."""
    return digests.sha256(f"{point}\n".encode() + orjson.dumps(body, option=orjson.OPT_SORT_KEYS))
