"""Queues and pools as they are read (contract 2, 12)."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from coordinator.models import Pool, Queue


@dataclass(frozen=True, slots=True)
class QueueRecord:
    name: str
    scheduler_epoch: int
    intake: str
    intake_share: int  # per cent let in while it is STOPPED: an incident's canary
    active_pool: str
    rollout_stage: str
    stage_since: datetime
    shadow_settle_seconds: int
    promotion_rounds: int
    default_ttl_seconds: int
    max_ttl_seconds: int
    max_lease_seconds: int
    max_attempts: int
    retry_backoff_seconds: int
    retry_backoff_max_seconds: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PoolRecord:
    name: str
    min_contract: str
    created_at: datetime


def all_queues() -> QuerySet[Queue]:
    return Queue.objects.all()


def queue_names() -> list[str]:
    return list(Queue.objects.order_by("name").values_list("name", flat=True))


def all_pools() -> QuerySet[Pool]:
    return Pool.objects.all()


def find_queue(*, name: str) -> QueueRecord | None:
    queue = Queue.objects.filter(name=name).first()
    return queue_record(queue) if queue else None


def queue_record(queue: Queue) -> QueueRecord:
    return QueueRecord(
        name=queue.name,
        scheduler_epoch=queue.scheduler_epoch,
        intake=queue.intake,
        intake_share=queue.intake_share,
        active_pool=queue.active_pool_id,
        rollout_stage=queue.rollout_stage,
        stage_since=queue.stage_since,
        shadow_settle_seconds=queue.shadow_settle_seconds,
        promotion_rounds=queue.promotion_rounds,
        default_ttl_seconds=queue.default_ttl_seconds,
        max_ttl_seconds=queue.max_ttl_seconds,
        max_lease_seconds=queue.max_lease_seconds,
        max_attempts=queue.max_attempts,
        retry_backoff_seconds=queue.retry_backoff_seconds,
        retry_backoff_max_seconds=queue.retry_backoff_max_seconds,
        created_at=queue.created_at,
    )


def pool_record(pool: Pool) -> PoolRecord:
    return PoolRecord(name=pool.name, min_contract=pool.min_contract, created_at=pool.created_at)
