"""All the tasks of a filter, batch by batch from the newest on: for files, and for sets that are frozen."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from coordinator.models import Task
from coordinator.selectors.task_filters import (
    STRETCH,
    TaskFilter,
    end_of_stretch,
    in_order,
    tasks_matching,
)

BATCH: Final = 2_000


def walk(
    wanted: TaskFilter,
    columns: Sequence[str],
    *,
    most: int,
    most_looked_at: int,
    before: UUID | None = None,
    prepare: Callable[[QuerySet[Task]], QuerySet[Any]] = lambda rows: rows,
) -> Iterator[list[tuple[Any, ...]] | UUID]:
    """Batches of rows of a `pinned` filter, each by a statement of its own; `columns` begin with `task_id`.

    `prepare` adds to a batch's rows what `columns` names beside the tasks' own.

    Where it ends early, having told `most` rows or sifted `most_looked_at`, the last item is the task
    before which to go on. What is submitted meanwhile is newer than where the walk began, and not in it.
    """
    told = looked_at = 0
    while told < most and looked_at < most_looked_at:
        end = end_of_stretch(wanted, before=before)
        rows = tasks_matching(wanted)
        rows = rows.filter(task_id__lt=before) if before else rows
        rows = rows.filter(task_id__gte=end) if end else rows
        limit = min(BATCH, most - told)
        found = list(in_order(prepare(rows), wanted).values_list(*columns)[:limit])
        told += len(found)
        yield found
        if len(found) == limit:
            before = found[-1][0]
        elif end is None:
            return
        else:
            before, looked_at = end, looked_at + STRETCH
    if before:
        yield before
