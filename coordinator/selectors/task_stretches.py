"""How far one page of the API's list of tasks looks (docs/adr/0019).

Kind, owner and node have no index, and neither have the queues that a worker may see. What they ask for is sifted out
of a bounded stretch at a time: beside millions of others a page may hold few or none, and its `next` goes on behind.
"""

from dataclasses import replace
from uuid import UUID

from coordinator.selectors import task_filters
from coordinator.selectors.tasks import TaskFilters, list_tasks, order_tasks


def is_sifted(filters: TaskFilters) -> bool:
    """Whether it may lead through many tasks that it doesn't ask for. A run has a most of its own."""
    if filters.run_id is not None:
        return False
    other_queues = filters.queues is not None and filters.queue is None
    return other_queues or any((filters.kind, filters.owner, filters.node_id))


def end_of_page(filters: TaskFilters, *, start: UUID | None, newest_first: bool) -> UUID | None:
    """The last task that a page looks at which begins behind `start`; None where it looks at all that there are."""
    if not is_sifted(filters):
        return None
    every = replace(filters, kind=None, owner=None, node_id=None, queues=None)
    rows = list_tasks(every)
    if start is not None:
        rows = rows.filter(task_id__lt=start) if newest_first else rows.filter(task_id__gt=start)
    rows = rows.order_by(*order_tasks(every, newest_first=newest_first))
    last = task_filters.STRETCH - 1
    found: UUID | None = rows.values_list("task_id", flat=True)[last : last + 1].first()
    return found
