"""The list of tasks as a page shows it: its rows, its counts, and what a poll of it asks for."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from django.http import HttpRequest, QueryDict

from console.filters import Wanted, as_uuid, wanted_tasks
from coordinator.selectors import console_tasks
from coordinator.selectors.console_tasks import TaskListRow
from coordinator.selectors.task_filters import submitted_at
from coordinator.states import TaskState


@dataclass(frozen=True, slots=True)
class TaskListing:
    """`too_slow`: the filter leads through too many rows. `counts` is empty where counting took too long.

    `stopped` is the task at which the page stopped looking.
    """

    wanted: Wanted
    rows: tuple[TaskListRow, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)
    newer: UUID | None = None
    older: UUID | None = None
    stopped: UUID | None = None
    too_slow: bool = False

    @property
    def states(self) -> list[tuple[TaskState, int | None]]:
        """The states that have tasks, and the one that is asked for."""
        asked = self.wanted.tasks.state
        return [
            (state, self.counts.get(state))
            for state in TaskState
            if self.counts.get(state) or state == asked
        ]

    @property
    def strayed(self) -> int:
        """How many of the rows have left the filter since they were loaded."""
        asked = self.wanted.tasks.state
        return sum(1 for row in self.rows if asked and row.state != asked)

    @property
    def poll(self) -> dict[str, str]:
        """A poll asks for the very rows that stand there, so that none moves under the pointer."""
        return {"held": ",".join(row.task_id.hex for row in self.rows)} if self.rows else {}

    @property
    def looked_back_to(self) -> datetime | None:
        return submitted_at(self.stopped) if self.stopped else None


def wanted_of(query: QueryDict) -> Wanted:
    """The filter of an address. A form sends each chosen column by itself, an address all in one."""
    fields = query.dict()
    fields["cols"] = ",".join(map(str, query.getlist("cols")))
    return wanted_tasks(fields)


def read_listing(request: HttpRequest) -> TaskListing:
    """Nothing is listed for a filter that is not understood: more than was meant would be worse than none."""
    wanted = wanted_of(request.GET)
    if not wanted.is_understood:
        return TaskListing(wanted)
    held = [found for found in map(as_uuid, request.GET.get("held", "").split(",")) if found]
    if held:
        rows = console_tasks.read_held_tasks(held)
        newest = rows[0].task_id if rows else None
        return TaskListing(wanted, rows, console_tasks.count_tasks(wanted.tasks, newer_than=newest))
    before, after = as_uuid(request.GET.get("before")), as_uuid(request.GET.get("after"))
    page = console_tasks.list_tasks(wanted.tasks, before=before, after=after)
    if page is None:
        return TaskListing(wanted, too_slow=True)
    counts = console_tasks.count_tasks(wanted.tasks)
    return TaskListing(wanted, page.rows, counts, page.newer, page.older, page.stopped)
