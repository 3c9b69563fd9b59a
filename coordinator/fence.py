"""The fence that a grant carries and the one guard that judges it (contract 3).

Pure: records in, verdict out. Nothing else in the code base compares counters.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from coordinator.outcomes import Current, Outcome, Reason, Refusal, Retry
from coordinator.states import AttemptState, TaskState


class Point(StrEnum):
    """The acceptance points. A write names its point to the database (contract 3, 14, 16)."""

    CLAIM = "claim"
    RENEW = "renew"
    STAGE = "stage"
    PREPARE = "prepare"
    ACCEPT = "accept"
    REDEEM = "redeem"
    REPORT = "report"
    RECONCILE = "reconcile"
    COMMIT = "commit"
    FAIL = "fail"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class Fence:
    """What a claim answers with and every later call of that attempt sends back unchanged."""

    task_id: UUID
    attempt_id: UUID
    scheduler_epoch: int
    claim_generation: int
    cancel_generation: int


class TaskRow(NamedTuple):
    """A task as it stands under its row lock: what the guard and the services look at."""

    task_id: UUID
    run_id: int
    queue_id: int
    node_id: str
    kind: str
    revision: int
    state: str
    not_before: datetime | None
    input_digest: str
    replay: str
    serial_scope_id: int | None
    state_version: int
    scheduler_epoch: int
    claim_generation: int
    cancel_generation: int
    attempt_id: UUID | None
    owner: str | None
    lease_expires_at: datetime | None
    claimable_at: datetime | None
    attempts: int
    spent_attempts: int
    max_attempts: int
    dependency_count: int
    pending_dependencies: int
    result_commit_id: UUID | None


class AttemptRow(NamedTuple):
    """An attempt as it stands while its task's row lock is held."""

    attempt_id: UUID
    task_id: UUID
    claim_generation: int
    scheduler_epoch: int
    cancel_generation: int
    owner: str
    credential_id: int
    state: str
    started_at: datetime
    lease_expires_at: datetime
    end_call: str | None
    end_answer: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Call:
    """A call to judge. `digest` names it exactly (verb and body), so that a repeat is known."""

    point: Point
    fence: Fence
    credential_id: int
    digest: str = ""
    input_digest: str | None = None  # only commit sends one


@dataclass(frozen=True, slots=True)
class IsCurrent:
    """The caller holds the task: what it asks for may be written.

    Made by the functions of this module alone. The writing round shows it to the database,
    which counts what is written without one (contract 14, passes.py).
    """

    task_id: UUID


@dataclass(frozen=True, slots=True)
class IsRepeat:
    """The very call that ended this attempt: its stored answer is due again."""

    answer: dict[str, Any]


_FINISHED: Final = frozenset({TaskState.COMMITTED, TaskState.CANCELLED, TaskState.SUPERSEDED})

Verdict: TypeAlias = IsCurrent | IsRepeat | Refusal


def judge(call: Call, *, task: TaskRow, attempt: AttemptRow, epoch: int) -> Verdict:
    """Decide whether a call of an attempt is current; the first mismatch decides (contract 3).

    `task` and `attempt` must have been read under the task's row lock, `epoch` in a
    statement after the queue's gate was taken. Changes nothing.
    """
    fence = call.fence
    if attempt.credential_id != call.credential_id:
        return Refusal(
            Outcome.FORBIDDEN,
            "This attempt was granted to another credential; use the one that claimed it.",
        )
    if call.digest and attempt.end_call == call.digest and attempt.end_answer is not None:
        return IsRepeat(attempt.end_answer)
    if task.state == TaskState.SUPERSEDED:
        return _refuse(task, epoch, Outcome.STALE_INPUT, "A newer revision took this task's place.")
    if call.input_digest is not None and call.input_digest != task.input_digest:
        return _refuse(
            task,
            epoch,
            Outcome.STALE_INPUT,
            "`input_digest` is not the digest of this task's input.",
        )
    if fence.cancel_generation > task.cancel_generation:
        return _fenced(task, epoch, Reason.AHEAD, "cancel generation")
    if fence.cancel_generation != task.cancel_generation or task.state == TaskState.CANCELLED:
        return _refuse(task, epoch, Outcome.CANCELLED, "The task was cancelled.")
    if call.point is Point.COMMIT and attempt.state == AttemptState.COMMITTED:
        return _refuse(
            task,
            epoch,
            Outcome.ALREADY_COMMITTED,
            "This attempt has committed another result or other memory.",
        )
    mismatch = judge_epoch(fence.scheduler_epoch, epoch=epoch)
    if mismatch is not None:
        return _fenced(task, epoch, mismatch, "scheduler epoch")
    if fence.claim_generation > task.claim_generation:
        return _fenced(task, epoch, Reason.AHEAD, "claim generation")
    if (
        fence.attempt_id != task.attempt_id
        or fence.claim_generation != task.claim_generation
        or task.state != TaskState.CLAIMED
    ):
        return _fenced(task, epoch, Reason.STALE_GENERATION, "claim")
    return IsCurrent(task.task_id)


def judge_epoch(told: int, *, epoch: int) -> Reason | None:
    """Why a caller of this epoch is refused; None where it is the queue's, read under its gate."""
    if told == epoch:
        return None
    return Reason.AHEAD if told > epoch else Reason.STALE_EPOCH


def judge_grant(
    task: TaskRow, *, scheduler_epoch: int, epoch: int, clock: datetime
) -> IsCurrent | None:
    """A claim's guard: its epoch is the queue's and nobody holds the task (contract 3, 7).

    The row was locked by this very claim. That a grant takes the next generation is refused
    otherwise by the database (trigger `task_grant_takes_generation`). None: hands off.
    """
    lapsed = (
        task.state == TaskState.CLAIMED
        and task.lease_expires_at is not None
        and task.lease_expires_at <= clock
    )
    free = task.state == TaskState.READY or lapsed
    if judge_epoch(scheduler_epoch, epoch=epoch) is not None or not free:
        return None
    return IsCurrent(task.task_id)


def grants_are_void(why: str, task: TaskRow, epoch: int) -> Refusal:
    """A grant of a database that may have been restored: its epoch will be raised past it (contract 12)."""
    return Refusal(
        Outcome.FENCED,
        f"Every earlier grant is void. {why}",
        reason=Reason.STALE_EPOCH,
        evidence_recorded=True,
        current=current_counters(task, epoch),
        extra={"task_state": task.state},
    )


def current_counters(task: TaskRow, epoch: int) -> Current:
    return Current(epoch, task.claim_generation, task.cancel_generation, task.state_version)


def _refuse(task: TaskRow, epoch: int, outcome: Outcome, detail: str) -> Refusal:
    return Refusal(
        outcome,
        detail,
        evidence_recorded=True,
        current=current_counters(task, epoch),
        extra={"task_state": task.state},
    )


def _fenced(task: TaskRow, epoch: int, reason: Reason, counter: str) -> Refusal:
    told = (
        "is ahead of what the database knows" if reason is Reason.AHEAD else "is no longer current"
    )
    return Refusal(
        Outcome.FENCED,
        f"This attempt's {counter} {told}; nothing was written.",
        reason=reason,
        retry_as=Retry.NEVER
        if task.state in _FINISHED or reason is Reason.AHEAD
        else Retry.RECLAIM,
        evidence_recorded=True,
        current=current_counters(task, epoch),
        extra={"task_state": task.state},
    )
