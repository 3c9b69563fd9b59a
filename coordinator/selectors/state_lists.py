"""Tasks of one state in the order of their ids, by an index of states: behind however many that have finished since.

Equality would tell PostgreSQL's planner that the order is that of the primary key alone. It then may walk back through
all that has finished, to the oldest tasks that wait: it takes states to be spread evenly over all ids. So a state is
asked for as a range, in an order that begins with it. The two indexes of states differ in their directions, so that
the order names the one: that of all queues (`task_by_state`), or a queue's own (`task_set_aside`).
"""

from django.db.models import QuerySet

from coordinator.models import Task
from coordinator.states import SET_ASIDE_TASK, TaskState


def has_index(state: str | None) -> bool:
    """Whether an index of states leads to it. Most tasks have committed, and those need none."""
    return state not in (None, TaskState.COMMITTED)


def in_state(rows: QuerySet[Task], state: str) -> QuerySet[Task]:
    return rows.filter(state__gte=state, state__lte=state)


def order_in_state(state: str, *, of_queue: bool, newest_first: bool) -> tuple[str, str]:
    """What to order tasks of this one state by. `of_queue`: they are of one queue, named by its id."""
    if of_queue and state in SET_ASIDE_TASK:
        return ("-state", "-task_id") if newest_first else ("state", "task_id")
    return ("state", "-task_id") if newest_first else ("-state", "task_id")
