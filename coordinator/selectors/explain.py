"""Why a task is not running, and what would change that (contract 6). Never locks, never writes."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db.models import Exists

from coordinator.models import Approval, Attempt, EffectSlot, Event, RestoreHold, Task
from coordinator.states import MAY_BE_OUT, ApprovalState, TaskState

from .obstacles import capable_credentials, is_due, obstacles
from .reasons import Reason, ServerClock, instant, task_link

#: So many of the nodes that a task waits for are named; the rest are counted.
MAX_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Explanation:
    """`claimable`: a worker could have it now. `reasons` may then still tell something worth knowing."""

    claimable: bool
    reasons: list[Reason] = field(default_factory=list)


def explain_task(task_id: UUID, *, queues: Collection[str] | None = None) -> Explanation | None:
    """Everything that holds a task back, each with its code; None for a task that is not the caller's to see.

    At most three queries, whatever the task waits for. Judged by the database's clock.
    """
    tasks = (
        Task.objects.filter(task_id=task_id)
        .select_related("queue", "run")
        .defer("input", "run__metadata")
    )
    if queues is not None:
        tasks = tasks.filter(queue__name__in=list(queues))
    task = tasks.annotate(clock=ServerClock(), capable=Exists(capable_credentials())).first()
    if task is None:
        return None
    reasons = [*_by_state(task), *obstacles(task)]
    return Explanation(
        is_due(task) and not any(reason.code in _BARS for reason in reasons), reasons
    )


#: What keeps a due task from being granted. A lapsed lease, or one that is used up, is told but bars nothing.
_BARS: Final = frozenset(
    {"INTAKE_STOPPED", "NO_CAPABLE_POOL", "STAGE_FORBIDS", "SERIAL_BUSY", "NOT_BEFORE", "LEASED"}
)


def _by_state(task: Any) -> Iterator[Reason]:
    match task.state:
        case TaskState.BLOCKED:
            yield from _blocked_by(task)
        case TaskState.READY:
            if task.claimable_at > task.clock:
                yield Reason(
                    "NOT_BEFORE", f"It may be claimed from {instant(task.claimable_at)} on."
                )
        case TaskState.CLAIMED:
            yield from _lease(task)
        case TaskState.AWAITING_APPROVAL:
            yield from _approvals(task)
        case TaskState.AWAITING_RECONCILIATION:
            yield from _unsettled(task)
        case _:
            yield from _finished(task)


def _blocked_by(task: Any) -> Iterator[Reason]:
    """Each parent without a canonical commit, by name, with what it takes."""
    parents = Task.objects.filter(edges_out__child=task).exclude(state=TaskState.COMMITTED)
    rows = parents.order_by("node_id").values_list("task_id", "node_id", "state")
    named = list(rows[: MAX_NAMED + 1])
    for parent_id, node_id, state in named[:MAX_NAMED]:
        yield Reason(
            "BLOCKED_BY", f"It waits for node `{node_id}`, {_WAITS[state]}.", task_link(parent_id)
        )
    if len(named) > MAX_NAMED:
        more = task.pending_dependencies - MAX_NAMED
        yield Reason(
            "BLOCKED_BY", f"It waits for {more} more nodes.", f"/api/v1/runs/{task.run.run_id}"
        )


_WAITS: Final[dict[str, str]] = {
    TaskState.BLOCKED: "which is BLOCKED itself",
    TaskState.READY: "which is READY for a worker",
    TaskState.CLAIMED: "which a worker holds",
    TaskState.AWAITING_APPROVAL: "which waits for a person's approval",
    TaskState.AWAITING_RECONCILIATION: "which waits for an effect to be settled",
    TaskState.CANCELLED: "which was CANCELLED: reopen it",
    TaskState.FAILED: "which FAILED: reopen or revise it",
}


def _approvals(task: Any) -> Iterator[Reason]:
    pending = Approval.objects.filter(effect__task=task, state=ApprovalState.PENDING)
    rows = pending.order_by("expires_at").values_list("approval_id", "effect__slot", "expires_at")
    for approval_id, slot, expires_at in rows[:MAX_NAMED]:
        told = f"A person must approve or reject the payload of `{slot}` by {instant(expires_at)}."
        yield Reason("AWAITING_APPROVAL", told, f"/api/v1/approvals/{approval_id}")


def _unsettled(task: Any) -> Iterator[Reason]:
    if RestoreHold.objects.filter(task=task, released_at=None).exists():
        told = "The database was restored: an effect of it may have happened that can't be seen. A person must say so."
        yield Reason("RESTORE_HOLD", told, task_link(task.task_id))
    out = EffectSlot.objects.filter(task=task, state__in=sorted(MAY_BE_OUT)).order_by("effect_id")
    for effect_id, slot, downstream in out.values_list("effect_id", "slot", "downstream")[
        :MAX_NAMED
    ]:
        told = f"`{slot}` may have reached `{downstream}`: a look-up or a person must find out."
        yield Reason("AWAITING_RECONCILIATION", told, f"/api/v1/effects/{effect_id}")


def _lease(task: Any) -> Iterator[Reason]:
    until = instant(task.lease_expires_at)
    attempt = f"/api/v1/tasks/{task.task_id}/attempts"
    if task.lease_expires_at > task.clock:
        yield Reason(
            "LEASED", f"`{task.owner}` holds it until {until}, and longer if it renews.", attempt
        )
        return
    yield Reason(
        "LEASE_LAPSED",
        f"The lease of `{task.owner}` ran out at {until}; it may be taken over.",
        attempt,
    )
    if task.spent_attempts + 1 >= task.max_attempts:
        yield Reason(
            "ATTEMPTS_USED_UP",
            f"That was attempt {task.spent_attempts + 1} of {task.max_attempts}: the next claim ends it as FAILED.",
            attempt,
        )


def _finished(task: Any) -> Iterator[Reason]:
    match task.state:
        case TaskState.COMMITTED:
            yield Reason(
                "COMMITTED",
                "It has its canonical commit.",
                f"/api/v1/tasks/{task.task_id}/candidates",
            )
        case TaskState.CANCELLED:
            yield Reason(
                "CANCELLED",
                "It was cancelled; an operator may reopen it.",
                f"{task_link(task.task_id)}/events",
            )
        case TaskState.SUPERSEDED:
            newer = Task.objects.filter(supersedes=task).values_list("task_id", "revision").first()
            told = (
                f"Revision {newer[1]} took its place."
                if newer
                else "A newer revision took its place."
            )
            yield Reason("SUPERSEDED", told, task_link(newer[0]) if newer else None)
        case _:
            yield from _failed(task)


def _failed(task: Any) -> Iterator[Reason]:
    """What its last attempt reported, or why the coordinator or a person failed it."""
    link = f"{task_link(task.task_id)}/attempts"
    last = Attempt.objects.filter(task_id=task.task_id).order_by("-claim_generation").first()
    event = Event.objects.filter(task_id=task.task_id, kind="FAILED").order_by("-id").first()
    told = (
        f"It failed: {event.data['reason']}."
        if event and event.data.get("reason")
        else "It failed."
    )
    if last is not None and last.error:
        told = f"Its last attempt failed with {_error(last.error)}."
    yield Reason("FAILED", f"{told} Reopen or revise it.", link)
    if task.spent_attempts >= task.max_attempts:
        yield Reason("ATTEMPTS_USED_UP", f"All {task.max_attempts} attempts are used up.", link)


def _error(error: dict[str, Any]) -> str:
    return f"{error.get('type', 'an error')}: {error.get('message', '')}".rstrip(".: ")


__all__ = ["MAX_NAMED", "Explanation", "Reason", "explain_task"]
