"""The task list of the console: keyset pages, capped counts (console design, 7.2)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from django.db import connection
from django.db.models import OuterRef, QuerySet, Subquery, Sum

from coordinator.models import Attempt, Task
from coordinator.selectors.console_counts import COUNT_CAP, capped_counts, in_time
from coordinator.selectors.task_filters import (
    TaskFilter,
    end_of_stretch,
    in_order,
    pinned,
    sifted_sql,
    tasks_matching,
)
from coordinator.states import TaskState

PAGE_SIZE: Final = 50
_LAST_ID: Final = UUID(int=(1 << 128) - 1)


@dataclass(frozen=True, slots=True)
class TaskListRow:
    task_id: UUID
    node_id: str
    kind: str
    revision: int
    state: str
    owner: str | None
    scheduler_epoch: int
    claim_generation: int
    spent_attempts: int
    max_attempts: int
    attempts: int
    lease_expires_at: datetime | None
    not_before: datetime | None
    created_at: datetime
    ready_at: datetime | None
    committed_at: datetime | None
    queue: str
    run_id: UUID
    run_name: str
    cost_usd: Decimal | None  # of its attempts; None where it has had none

    @property
    def took(self) -> timedelta | None:
        """From ready to its canonical commit."""
        if self.ready_at is None or self.committed_at is None:
            return None
        return self.committed_at - self.ready_at

    @property
    def waits_until(self) -> datetime | None:
        """Before when nobody may claim it, if it is open for claims or will be."""
        return self.not_before if self.state in (TaskState.READY, TaskState.BLOCKED) else None


@dataclass(frozen=True, slots=True)
class TaskPage:
    """`newer` and `older` go on from here, where there is more. `stopped`: it looked no further than this task."""

    rows: tuple[TaskListRow, ...]
    newer: UUID | None = None
    older: UUID | None = None
    stopped: UUID | None = None


COLUMNS: Final = (
    "task_id",
    "node_id",
    "kind",
    "revision",
    "state",
    "owner",
    "scheduler_epoch",
    "claim_generation",
    "spent_attempts",
    "max_attempts",
    "attempts",
    "lease_expires_at",
    "not_before",
    "created_at",
    "ready_at",
    "result_commit__committed_at",
    "queue__name",
    "run__run_id",
    "run__name",
    "cost_usd",
)


def list_tasks(
    wanted: TaskFilter,
    *,
    before: UUID | None = None,
    after: UUID | None = None,
    size: int = PAGE_SIZE,
) -> TaskPage | None:
    """A page of tasks, newest first: those older than `before`, or the next ones newer than `after`.

    A filter without an index is looked for in a bounded stretch (`stopped`). None where the database
    doesn't get through even that in time.
    """
    wanted = pinned(wanted)
    read = _forward if after else _backward
    return in_time(lambda: read(wanted, after or before, size))


def _backward(wanted: TaskFilter, before: UUID | None, size: int) -> TaskPage:
    end = end_of_stretch(wanted, before=before)
    rows = tasks_matching(wanted)
    rows = rows.filter(task_id__lt=before) if before else rows
    rows = rows.filter(task_id__gte=end) if end else rows
    found = _typed(in_order(rows, wanted), size + 1)
    newer = before and (found[0].task_id if found else _just_before(before))
    if len(found) > size:
        return TaskPage(found[:size], newer, found[size - 1].task_id)
    return TaskPage(found, newer, end, end)


def _forward(wanted: TaskFilter, after: UUID | None, size: int) -> TaskPage:
    assert after is not None, "a page goes forward from a task"
    end = end_of_stretch(wanted, after=after)
    rows = tasks_matching(wanted).filter(task_id__gt=after)
    rows = rows.filter(task_id__lte=end) if end else rows
    found = _typed(in_order(rows, wanted, newest_first=False), size + 1)
    page = found[:size][::-1]
    older = page[-1].task_id if page else _just_after(after)
    if len(found) > size:
        return TaskPage(page, page[0].task_id, older)
    return TaskPage(page, end, older, end)


def _just_before(task_id: UUID) -> UUID:
    return UUID(int=max(0, task_id.int - 1))


def _just_after(task_id: UUID) -> UUID:
    return UUID(int=min(_LAST_ID.int, task_id.int + 1))


def read_held_tasks(task_ids: Sequence[UUID]) -> tuple[TaskListRow, ...]:
    """The rows that a page shows already, as they stand now and in the same order."""
    rows = Task.objects.filter(task_id__in=task_ids[:PAGE_SIZE])
    return _typed(rows.order_by("-task_id"), PAGE_SIZE)


def count_tasks(wanted: TaskFilter, *, newer_than: UUID | None = None) -> dict[str, int]:
    """Capped counts by state, of all that match (`total`), and of those newer than an id (`new`).

    A filter without an index is counted within its newest stretch. Empty where the database can't count in time.
    """
    wanted = pinned(wanted)
    count = _count_in_stretch if wanted.is_sifted else _count_indexed
    return in_time(lambda: count(wanted, newer_than)) or {}


def _count_indexed(wanted: TaskFilter, newer_than: UUID | None) -> dict[str, int]:
    """The newest ones are counted, in an order that an index has: what a count reads is bounded with it."""
    queries: dict[str, QuerySet[Task]] = {}
    for state in TaskState:
        of_state = replace(wanted, state=state)
        queries[str(state)] = in_order(tasks_matching(of_state), of_state)
    if not wanted.state:
        queries["total"] = in_order(tasks_matching(wanted), wanted)
    if newer_than:
        newer = tasks_matching(wanted).filter(task_id__gt=newer_than)
        queries["new"] = in_order(newer, wanted)
    counts = capped_counts(queries)
    return counts | ({"total": counts[str(wanted.state)]} if wanted.state else {})


def _count_in_stretch(wanted: TaskFilter, newer_than: UUID | None) -> dict[str, int]:
    """By one walk through the stretch; the state that is asked for has a stretch of its own, by its index."""
    walks = [sifted_sql(wanted, any_state=True)]
    if wanted.state:
        walks.append(sifted_sql(wanted))
    found: dict[str, tuple[int, int]] = {str(wanted.state): (0, 0)} if wanted.state else {}
    with connection.cursor() as cursor:
        cursor.execute(
            " UNION ALL ".join(
                _BY_STATE.format(place, sql) for place, (sql, _) in enumerate(walks)
            ),
            [param for _, params in walks for param in (newer_than or _LAST_ID, *params)],
        )
        for place, state, count, new in sorted(cursor.fetchall()):
            if place == 0 or state == wanted.state:
                found[state] = count, new
    asked = [found[str(wanted.state)]] if wanted.state else list(found.values())
    counts = {str(state): count for state, (count, _) in found.items()}
    counts |= {"total": sum(n for n, _ in asked), "new": sum(new for _, new in asked)}
    return {name: min(count, COUNT_CAP + 1) for name, count in counts.items()}


_BY_STATE: Final = "SELECT {}, state, count(*), count(*) FILTER (WHERE task_id > %s) FROM ({}) AS found GROUP BY state"


def _typed(rows: QuerySet[Task], size: int) -> tuple[TaskListRow, ...]:
    found: Any = with_cost(rows).values_list(*COLUMNS)[:size]
    return tuple(TaskListRow(*row) for row in found)


def with_cost(rows: QuerySet[Task]) -> QuerySet[Any]:
    """For pages and batches: each row adds up its own few attempts."""
    own = Attempt.objects.filter(task=OuterRef("pk")).order_by().values("task")
    return rows.annotate(cost_usd=Subquery(own.annotate(sum=Sum("cost_usd")).values("sum")))
