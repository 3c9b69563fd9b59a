"""Ends of an attempt by its worker, other than a commit: failing and releasing (contract 7)."""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Worker
from coordinator.fence import Call, Fence, IsRepeat, Point, TaskRow
from coordinator.outcomes import Refusal
from coordinator.rounds import Statement
from coordinator.states import AttemptState, TaskState

from . import hints, settlements
from .events import EventKind, task_fact
from .hearings import Hearing, call_digest, open_hearing
from .holds import Freed, end_holds, free_tasks, redirected, waiting_fact
from .locking import QueueRow
from .transactions import in_transaction
from .usage import Usage


@dataclass(frozen=True, slots=True)
class RetryScheduled:
    not_before: datetime
    replayed: bool = False
    outcome: str = "RETRY_SCHEDULED"


@dataclass(frozen=True, slots=True)
class Failed:
    replayed: bool = False
    outcome: str = "FAILED"


@dataclass(frozen=True, slots=True)
class Released:
    replayed: bool = False
    outcome: str = "RELEASED"


def fail_attempt(
    *,
    attempt_id: UUID,
    fence: Fence,
    error: Mapping[str, Any],
    retryable: bool,
    worker: Worker,
    retry_after_seconds: float | None = None,
    usage: Usage | None = None,
) -> RetryScheduled | Failed | Refusal:
    """End the attempt FAILED. The task is READY again after a backoff, or FAILED for a person to decide.

    The backoff doubles with each spent attempt, with jitter, up to the queue's maximum;
    `retry_after_seconds` asks for another delay within the same maximum.
    """
    digest = call_digest(Point.FAIL, [dict(error), retryable, retry_after_seconds])
    answer, task = _fail(
        attempt_id=attempt_id,
        fence=fence,
        error=dict(error),
        retryable=retryable,
        retry_after_seconds=retry_after_seconds,
        usage=usage,
        worker=worker,
        digest=digest,
    )
    if isinstance(answer, Failed) and task is not None:
        settlements.settle_runs([task.run_id])
    return answer


@in_transaction
def _fail(
    *,
    attempt_id: UUID,
    fence: Fence,
    error: dict[str, Any],
    retryable: bool,
    retry_after_seconds: float | None,
    usage: Usage | None,
    worker: Worker,
    digest: str,
) -> tuple[RetryScheduled | Failed | Refusal, TaskRow | None]:
    hearing = open_hearing(Point.FAIL, [(attempt_id, fence)], worker=worker)
    verdict = hearing.judge(
        Call(Point.FAIL, fence, worker.id, digest), attempt_id, queue=None, usage=usage
    )
    if isinstance(verdict, Refusal):
        hearing.write()
        return verdict, None
    if isinstance(verdict, IsRepeat):
        return _again(verdict.answer), None
    task = hearing.tasks[fence.task_id]
    answer, due = _what_next(hearing, task, retryable, retry_after_seconds)
    told = {"error_type": error.get("type"), "retryable": retryable, "not_before": due}
    kind = EventKind.FAILED if due is None else EventKind.RETRY_SCHEDULED
    _end(hearing, task, kind, digest, answer, due=due, error=error, spent=1, told=told)
    return answer, task


def _what_next(
    hearing: Hearing, task: TaskRow, retryable: bool, asked: float | None
) -> tuple[RetryScheduled | Failed, datetime | None]:
    """Another attempt after a backoff, or none: not retryable, or the attempts are used up."""
    if not retryable or task.spent_attempts + 1 >= task.max_attempts:
        return Failed(), None
    delay = _delay_seconds(hearing.queues[task.queue_id], task.spent_attempts, asked)
    due = hearing.clock + timedelta(seconds=delay)
    return RetryScheduled(due), due


def _delay_seconds(queue: QueueRow, spent: int, asked: float | None) -> float:
    longest = float(queue.retry_backoff_max_seconds)
    if asked is not None:
        return min(max(asked, 0.0), longest)
    doubled = min(longest, queue.retry_backoff_seconds * 2.0 ** min(spent, 30))
    return doubled * random.uniform(0.75, 1.0)  # noqa: S311 (jitter, so that failed work doesn't return in step)


def release_attempt(
    *, attempt_id: UUID, fence: Fence, worker: Worker, usage: Usage | None = None
) -> Released | Refusal:
    """Give the task back: READY at once, and not counted against `max_attempts`."""
    answer, task = _release(attempt_id, fence, usage, worker)
    if isinstance(answer, Released) and task is not None:
        hints.notify(task.queue_id)
    return answer


@in_transaction
def _release(
    attempt_id: UUID, fence: Fence, usage: Usage | None, worker: Worker
) -> tuple[Released | Refusal, TaskRow | None]:
    digest = call_digest(Point.RELEASE, None)
    hearing = open_hearing(Point.RELEASE, [(attempt_id, fence)], worker=worker)
    verdict = hearing.judge(
        Call(Point.RELEASE, fence, worker.id, digest), attempt_id, queue=None, usage=usage
    )
    if isinstance(verdict, Refusal):
        hearing.write()
        return verdict, None
    if isinstance(verdict, IsRepeat):
        return Released(replayed=True), None
    task = hearing.tasks[fence.task_id]
    answer = Released()
    _end(hearing, task, EventKind.RELEASED, digest, answer, due=hearing.clock)
    return answer, task


def _again(answer: dict[str, Any]) -> RetryScheduled | Failed:
    if "not_before" in answer:
        return RetryScheduled(datetime.fromisoformat(answer["not_before"]), replayed=True)
    return Failed(replayed=True)


_END_ATTEMPT: Final = """
UPDATE coordinator_attempt SET state = %s, ended_at = %s, end_reason = %s, error = %s::jsonb, end_call = %s,
  end_answer = %s::jsonb
WHERE attempt_id = %s
"""


def end_attempt(
    *, attempt_id: UUID, state: str, digest: str, answer: Any, clock: datetime, error: Any = None
) -> Statement:
    """End an attempt with the call that ended it and its answer: a repeat gets it again (contract 3)."""
    told = orjson.dumps(error).decode() if error is not None else None
    return Statement(
        _END_ATTEMPT, (state, clock, state, told, digest, orjson.dumps(answer).decode(), attempt_id)
    )


def _end(
    hearing: Hearing,
    task: TaskRow,
    kind: EventKind,
    digest: str,
    answer: RetryScheduled | Failed | Released,
    *,
    due: datetime | None,
    error: dict[str, Any] | None = None,
    spent: int = 0,
    told: dict[str, Any] | None = None,
) -> None:
    """End the hold: READY at `due`, or FAILED where there is none; held where an effect may be out (contract 7)."""
    assert task.attempt_id is not None, "a current call's task has an attempt"
    state = TaskState.READY if due is not None else TaskState.FAILED
    ends = end_holds([task], hearing.clock)
    (freed,) = redirected([Freed(task, state, due, spent)], ends)
    waits = freed.state == TaskState.AWAITING_RECONCILIATION
    fact = (
        waiting_fact(task, ends)
        if waits
        else task_fact(kind, task, attempt_id=task.attempt_id, **(told or {}))
    )
    hearing.facts += [*ends.facts, fact]
    attempt_state = AttemptState.RELEASED if kind is EventKind.RELEASED else AttemptState.FAILED
    hearing.write_and_close(
        end_attempt(
            attempt_id=task.attempt_id,
            state=attempt_state,
            digest=digest,
            answer=asdict(answer),
            clock=hearing.clock,
            error=error,
        ),
        *free_tasks([freed], ends, hearing.clock),
    )
