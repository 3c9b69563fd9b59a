"""What keeps a queue's workers from a task that is due: its queue, its pool, its serial key (contract 6, 7, 12)."""

from collections.abc import Iterator
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, F, Func, OuterRef, Q, Value
from django.db.models.functions import Replace

from coordinator.intake_shares import is_let_in
from coordinator.models import Credential, Queue, Task
from coordinator.shadow.lanes import SUFFIX, is_rehearsal, queue_of
from coordinator.states import Intake, Replay, RolloutStage, TaskState

from .reasons import Reason, ServerClock, task_link


def capable_credentials() -> Any:
    return Credential.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=ServerClock()),
        pool=OuterRef("queue__active_pool"),
        queues__contains=Func(
            Replace(OuterRef("queue__name"), Value(SUFFIX), Value("")),
            function="ARRAY",
            template="%(function)s[%(expressions)s]",
        ),
        scopes__contains=["work"],
        revoked_at=None,
    )


def is_due(task: Any) -> bool:
    return task.state in (TaskState.READY, TaskState.CLAIMED)


def obstacles(task: Any) -> Iterator[Reason]:
    """What keeps workers of its queue from claiming it, as far as it could be claimed at all."""
    if not is_due(task):
        return
    queue = task.queue
    link = f"/api/v1/queues/{queue.name}"
    if queue.intake == Intake.STOPPED and not is_let_in(task.task_id, queue.intake_share):
        stopped = f"Intake of queue `{queue.name}` is stopped."
        if queue.intake_share:
            stopped = f"Intake of queue `{queue.name}` lets {queue.intake_share} % of the tasks in; not this one yet."
        yield Reason("INTAKE_STOPPED", stopped, link)
    if not task.capable:
        told = f"No credential of pool `{queue.active_pool_id}`, the active one, may work in queue `{queue.name}`."
        yield Reason("NO_CAPABLE_POOL", told, link)
    if queue.rollout_stage == RolloutStage.SHADOW and not _is_open_rehearsal(queue):
        yield Reason("STAGE_FORBIDS", "The queue is in SHADOW: the legacy system decides.", link)
    if queue.rollout_stage == RolloutStage.IDEMPOTENT_READS and task.replay != Replay.READ_ONLY:
        yield Reason(
            "STAGE_FORBIDS", f"The queue only offers READ_ONLY tasks; this is {task.replay}.", link
        )
    if task.serial_scope_id is not None and not task.serial_held:
        yield from _serial_holder(task)


def _serial_holder(task: Any) -> Iterator[Reason]:
    held = Task.objects.filter(serial_scope_id=task.serial_scope_id, serial_held=True).exclude(
        pk=task.pk
    )
    lapsed = Q(state=TaskState.CLAIMED, lease_expires_at__lte=ServerClock())
    holder = (
        held.annotate(lapsed=ExpressionWrapper(lapsed, output_field=BooleanField()))
        .annotate(token=F("serial_scope__token"))
        .values_list("task_id", "node_id", "lapsed", "token")
        .first()
    )
    if holder is None:
        return
    task_id, node_id, is_lapsed, token = holder
    if is_lapsed:
        yield Reason(
            "SERIAL_LAPSED",
            f"Node `{node_id}` had `{token}`; its lease ran out.",
            task_link(task_id),
        )
    else:
        yield Reason(
            "SERIAL_BUSY", f"Node `{node_id}` has `{token}`; one at a time.", task_link(task_id)
        )


def _is_open_rehearsal(queue: Queue) -> bool:
    """A rehearsal is handed out while the queue that it belongs to is in SHADOW."""
    return (
        is_rehearsal(queue.name)
        and Queue.objects.filter(
            name=queue_of(queue.name), rollout_stage=RolloutStage.SHADOW
        ).exists()
    )
