"""Runs as the console lists them: keyset pages, with progress."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Count

from coordinator.canary import SUBMITTED_BY
from coordinator.models import Run, Task
from coordinator.selectors.console_counts import capped_counts
from coordinator.selectors.tasks import queue_number
from coordinator.states import SETTLED_TASK, RunState, TaskState

PAGE_SIZE: Final = 30


@dataclass(frozen=True, slots=True)
class RunListRow:
    id: int
    run_id: UUID
    name: str
    state: str
    queue: str
    node_count: int
    submitted_by: str
    created_at: datetime
    finished_at: datetime | None
    #: Newest tasks by state; COMMITTED is what the unsettled ones leave.
    states: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunPage:
    rows: tuple[RunListRow, ...]
    newer: bool
    older: bool
    new: int = 0


_COLUMNS: Final = (
    "id",
    "run_id",
    "name",
    "state",
    "queue__name",
    "node_count",
    "submitted_by",
    "created_at",
    "finished_at",
)


def list_runs(
    *,
    state: RunState | None = None,
    queue: str = "",
    before: int | None = None,
    after: int | None = None,
    held: Sequence[int] = (),
) -> RunPage:
    """A page of runs, newest first. `held` are the ids that a page shows already: it keeps exactly those."""
    matching = Run.objects.exclude(submitted_by=SUBMITTED_BY)
    if state:
        matching = matching.filter(state=state)
    if queue:
        matching = matching.filter(queue=queue_number(queue))
    rows: Any = matching.values_list(*_COLUMNS)
    if held:
        shown: Any = Run.objects.filter(id__in=held[:PAGE_SIZE]).values_list(*_COLUMNS)
        new = capped_counts({"new": matching.filter(id__gt=max(held))})["new"]
        return RunPage(_with_states(list(shown.order_by("-id"))), newer=False, older=False, new=new)
    if after is not None:
        found = list(rows.filter(id__gt=after).order_by("id")[: PAGE_SIZE + 1])
        return RunPage(
            _with_states(found[:PAGE_SIZE][::-1]), newer=len(found) > PAGE_SIZE, older=True
        )
    if before is not None:
        rows = rows.filter(id__lt=before)
    found = list(rows.order_by("-id")[: PAGE_SIZE + 1])
    return RunPage(
        _with_states(found[:PAGE_SIZE]), newer=before is not None, older=len(found) > PAGE_SIZE
    )


def _with_states(rows: Sequence[tuple[Any, ...]]) -> tuple[RunListRow, ...]:
    """Counts only what is not settled: that index is small, whatever has been finished."""
    runs = [row[0] for row in rows if row[3] != RunState.COMMITTED]
    open_tasks: dict[int, dict[str, int]] = {}
    if runs:
        counted = (
            Task.objects.filter(run_id__in=runs)
            .exclude(state__in=sorted(SETTLED_TASK))
            .values_list("run_id", "state")
            .annotate(count=Count("*"))
            .order_by()
        )
        for run, state, count in counted:
            open_tasks.setdefault(run, {})[state] = count
    listed = [RunListRow(*row) for row in rows]
    return tuple(
        replace(run, states=_all_states(run.node_count, open_tasks.get(run.id, {})))
        for run in listed
    )


def _all_states(nodes: int, unsettled: dict[str, int]) -> dict[str, int]:
    committed = nodes - sum(unsettled.values())
    return {str(TaskState.COMMITTED): committed, **unsettled} if committed > 0 else unsettled
