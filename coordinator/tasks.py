"""What runs in the background: each a thin call of a service, short, and safe to run twice at once."""

from celery import shared_task

from coordinator.services import hints, leases, settlements


@shared_task(name="coordinator.tasks.sweep", ignore_result=True)
def sweep() -> int:
    """Mark lapsed leases reclaimable and tell waiting workers. Each second (contract 7)."""
    marked = leases.sweep()
    for queue_id in marked:
        hints.notify(queue_id)
    return sum(marked.values())


@shared_task(name="coordinator.tasks.settle_runs", ignore_result=True)
def settle_runs() -> int:
    """Settle runs whose last commit's process died before it could."""
    return settlements.settle_active_runs()
