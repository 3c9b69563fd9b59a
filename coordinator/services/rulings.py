"""What operators are refused on a task, in the same words everywhere, and recorded (contract 10)."""

from datetime import datetime

from coordinator.actors import Actor
from coordinator.fence import TaskRow
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import run_round

from .events import record, refusal_fact
from .locking import QueueRow


def version_mismatch(task: TaskRow, expected: int) -> Refusal | None:
    """The task moved on since the caller looked (compare-and-set by its state version)."""
    if task.state_version == expected:
        return None
    return ruling(
        Outcome.STATE_VERSION_MISMATCH,
        f"The task is at state version {task.state_version}, not {expected}; look again.",
        task,
    )


def superseded(task: TaskRow) -> Refusal:
    return ruling(
        Outcome.STALE_INPUT,
        f"A newer revision of node `{task.node_id}` took this task's place; act on that one.",
        task,
    )


def ruling(outcome: Outcome, detail: str, task: TaskRow) -> Refusal:
    """A refusal that tells how the task stands. It is to be recorded by `refuse`."""
    told = {"task_state": task.state, "state_version": task.state_version}
    return Refusal(outcome, detail, evidence_recorded=True, extra=told)


def refuse(refusal: Refusal, *, point: str, task: TaskRow, actor: Actor, at: datetime) -> Refusal:
    """Record the refusal in the open transaction and return it; equal repeats are only counted."""
    subject = f"{actor.label}:{task.task_id}:{task.state_version}"
    run_round(
        record([refusal_fact(refusal, point=point, subject=subject, task=task)], actor=actor, at=at)
    )
    return refusal


def refuse_in_incident(queue: QueueRow, *, point: str, actor: Actor, at: datetime) -> Refusal:
    """What only the queue's open incident may change: its intake, and its active pool. Recorded, for its report too."""
    refusal = Refusal(
        Outcome.INCIDENT_OPEN,
        f"Queue `{queue.name}` has an open incident; its steps change this, nothing else does.",
        evidence_recorded=True,
        extra={"queue": queue.name, "incident_id": str(queue.incident_id)},
    )
    subject = f"{actor.label}:{queue.name}:{queue.incident_id}"
    told = str(queue.incident_id)
    fact = refusal_fact(refusal, point=point, subject=subject, task=None, incident_id=told)
    run_round(record([fact], actor=actor, at=at))
    return refusal
