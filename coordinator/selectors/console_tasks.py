"""The task list of the console: filters, keyset pages, capped counts (console design, 7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from coordinator.canary import DRILL
from coordinator.clock import read_clock
from coordinator.models import Task
from coordinator.selectors.console_counts import capped_counts, in_time
from coordinator.states import TaskState

PAGE_SIZE: Final = 50


@dataclass(frozen=True, slots=True)
class TaskFilter:
    """What a person asked for; empty means any. `ids` is a range of task ids, from a prefix."""

    state: TaskState | None = None
    queue: str = ""
    kind: str = ""
    owner: str = ""
    node: str = ""
    run_id: UUID | None = None
    ids: tuple[UUID, UUID] | None = None
    text: str = ""
    attempts_over: int | None = None
    older_than: timedelta | None = None
    younger_than: timedelta | None = None


@dataclass(frozen=True, slots=True)
class TaskListRow:
    task_id: UUID
    node_id: str
    kind: str
    revision: int
    state: str
    owner: str | None
    claim_generation: int
    spent_attempts: int
    max_attempts: int
    attempts: int
    lease_expires_at: datetime | None
    not_before: datetime | None
    created_at: datetime
    committed_at: datetime | None
    queue: str
    run_id: UUID
    run_name: str


@dataclass(frozen=True, slots=True)
class TaskPage:
    rows: tuple[TaskListRow, ...]
    newer: bool
    older: bool


_COLUMNS: Final = (
    "task_id",
    "node_id",
    "kind",
    "revision",
    "state",
    "owner",
    "claim_generation",
    "spent_attempts",
    "max_attempts",
    "attempts",
    "lease_expires_at",
    "not_before",
    "created_at",
    "result_commit__committed_at",
    "queue__name",
    "run__run_id",
    "run__name",
)


def tasks_matching(wanted: TaskFilter, *, any_state: bool = False) -> QuerySet[Task]:
    """The tasks that a filter asks for, in no order. `any_state` leaves the state out."""
    rows = Task.objects.all()
    exact = {
        "queue__name": wanted.queue,
        "kind": wanted.kind,
        "owner": wanted.owner,
        "run__run_id": wanted.run_id,
    }
    rows = rows.filter(**{name: value for name, value in exact.items() if value})
    if not (wanted.kind or wanted.run_id or wanted.ids):
        rows = rows.exclude(kind=DRILL)  # canaries are no work; who asks for the kind sees them
    if wanted.state and not any_state:
        rows = rows.filter(state=wanted.state)
    if wanted.node:
        rows = rows.filter(node_id__startswith=wanted.node)
    if wanted.ids:
        rows = rows.filter(task_id__range=wanted.ids)
    if wanted.text:
        rows = rows.filter(node_id__icontains=wanted.text)
    if wanted.attempts_over is not None:
        rows = rows.filter(attempts__gt=wanted.attempts_over)
    if wanted.older_than is not None:
        rows = rows.filter(task_id__lt=_first_id_since(wanted.older_than))
    if wanted.younger_than is not None:
        rows = rows.filter(task_id__gte=_first_id_since(wanted.younger_than))
    return rows


def _first_id_since(age: timedelta) -> UUID:
    """A task's id begins with the time of its submission, so that the key itself tells its age."""
    milliseconds = int((read_clock() - age).timestamp() * 1000)
    return UUID(int=max(0, milliseconds) << 80)


def list_tasks(
    wanted: TaskFilter,
    *,
    before: UUID | None = None,
    after: UUID | None = None,
    size: int = PAGE_SIZE,
) -> TaskPage | None:
    """A page of tasks, newest first: those older than `before`, or the next ones newer than `after`.

    None where the filter leads through more rows than the database looks at in time.
    """
    rows: Any = tasks_matching(wanted).values_list(*_COLUMNS)
    if after:
        forward = rows.filter(task_id__gt=after).order_by("task_id")[: size + 1]
        found = in_time(lambda: list(forward))
        if found is None:
            return None
        return TaskPage(_typed(found[:size][::-1]), newer=len(found) > size, older=True)
    if before:
        rows = rows.filter(task_id__lt=before)
    backward = rows.order_by("-task_id")[: size + 1]
    found = in_time(lambda: list(backward))
    if found is None:
        return None
    return TaskPage(_typed(found[:size]), newer=before is not None, older=len(found) > size)


def read_held_tasks(task_ids: Sequence[UUID]) -> tuple[TaskListRow, ...]:
    """The rows that a page shows already, as they stand now and in the same order."""
    rows: Any = Task.objects.filter(task_id__in=task_ids[:PAGE_SIZE]).values_list(*_COLUMNS)
    return _typed(list(rows.order_by("-task_id")))


def count_tasks(wanted: TaskFilter, *, newer_than: UUID | None = None) -> dict[str, int]:
    """Capped counts by state, of all that match (`total`), and of those newer than an id (`new`).

    Without a run SUPERSEDED is not counted: no index holds it, and nobody waits for it. Empty
    where the database can't count in time.
    """
    base = tasks_matching(wanted, any_state=True)
    narrow = bool(wanted.run_id or wanted.ids)
    states = [state for state in TaskState if narrow or state is not TaskState.SUPERSEDED]
    queries = {str(state): base.filter(state=state) for state in states}
    queries["total"] = tasks_matching(wanted)
    if newer_than:
        queries["new"] = tasks_matching(wanted).filter(task_id__gt=newer_than)
    return in_time(lambda: capped_counts(queries)) or {}


def _typed(rows: Sequence[tuple[Any, ...]]) -> tuple[TaskListRow, ...]:
    return tuple(TaskListRow(*row) for row in rows)
