"""Rehearsals: what is submitted to a queue in SHADOW runs beside it and sends nothing (contract 13).

The lane is a queue of its own whose stage is SHADOW for ever. It goes through the same tables,
gates and services as everything else, so that what is recorded is as durable as the real thing;
and it shares no task, lease, serial key or lock with the live queue.
"""

from typing import Any, Final

from django.db import IntegrityError, transaction

from coordinator.actors import Actor
from coordinator.models import Queue
from coordinator.rounds import name_point, run_round
from coordinator.shadow.lanes import lane_of, queue_of
from coordinator.states import RolloutStage

from . import epochs
from .transactions import in_transaction

#: What a rehearsal takes over from its queue: who works there, and for how long.
_COPIED: Final = (
    "active_pool_id",
    "default_ttl_seconds",
    "max_ttl_seconds",
    "max_lease_seconds",
    "max_attempts",
    "retry_backoff_seconds",
    "retry_backoff_max_seconds",
)


@in_transaction
def ensure_lane(*, queue: str) -> str:
    """The name of the queue's rehearsal lane; made unless it is there, and brought into line with the queue."""
    live = Queue.objects.get(name=queue)
    wanted: dict[str, Any] = {field: getattr(live, field) for field in _COPIED}
    run_round(name_point("administer"))
    name = lane_of(queue)
    found = Queue.lanes.filter(name=name).first()
    if found is None:
        try:
            with transaction.atomic():
                Queue.lanes.create(name=name, rollout_stage=RolloutStage.SHADOW, **wanted)
        except IntegrityError:
            pass  # somebody else has just made it
    elif any(getattr(found, field) != value for field, value in wanted.items()):
        Queue.lanes.filter(pk=found.pk).update(**wanted)
    return name


def find_lane(*, queue: str) -> tuple[str, int] | None:
    """The lane's name and epoch, in line with its queue; None where nothing was ever rehearsed."""
    if not Queue.lanes.filter(name=lane_of(queue)).exists():
        return None
    name = ensure_lane(queue=queue)
    return name, Queue.lanes.values_list("scheduler_epoch", flat=True).get(name=name)


def is_open(lane: str) -> bool:
    """Whether the lane's queue is in SHADOW: only then is anything of it handed out."""
    return Queue.objects.filter(name=queue_of(lane), rollout_stage=RolloutStage.SHADOW).exists()


def end_rehearsals(*, queue: str, reason: str, actor: Actor) -> None:
    """Fence whatever is held in the lane: the queue enters or leaves SHADOW. Changes nothing without a lane."""
    found = Queue.lanes.filter(name=lane_of(queue)).first()
    if found is not None:
        epochs.bump_epoch(
            queue=found.name, expected_epoch=found.scheduler_epoch, reason=reason, actor=actor
        )
