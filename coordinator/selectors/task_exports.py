"""The tasks of a filter as the rows of a file (console design, 7.2)."""

from collections.abc import Iterator
from typing import Any, Final
from uuid import UUID

from coordinator.selectors.console_tasks import COLUMNS, TaskListRow, with_cost
from coordinator.selectors.task_filters import TaskFilter, pinned
from coordinator.selectors.task_walks import walk

#: A file ends after so many tasks, and says so.
MAX_EXPORTED: Final = 100_000
MAX_LOOKED_AT: Final = 2_000_000


def export_tasks(wanted: TaskFilter, *, before: UUID | None = None) -> Iterator[TaskListRow | UUID]:
    """Every task, newest first. Where it had to end early the last item is the task to go on before."""
    found: list[tuple[Any, ...]] | UUID
    walked = walk(
        pinned(wanted),
        COLUMNS,
        most=MAX_EXPORTED,
        most_looked_at=MAX_LOOKED_AT,
        before=before,
        prepare=with_cost,
    )
    for found in walked:
        if isinstance(found, UUID):
            yield found
        else:
            yield from (TaskListRow(*row) for row in found)
