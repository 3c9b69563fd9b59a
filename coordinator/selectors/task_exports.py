"""The tasks of a filter as the rows of a file (console design, 7.2)."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from coordinator.selectors.console_tasks import COLUMNS, TaskListRow, read_costs
from coordinator.selectors.task_filters import TaskFilter, pinned
from coordinator.selectors.task_walks import walk

#: A file ends after so many tasks, and says so.
MAX_EXPORTED: Final = 100_000
MAX_LOOKED_AT: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class TaskExportRow:
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
    cost_usd: Decimal


def export_tasks(
    wanted: TaskFilter, *, before: UUID | None = None
) -> Iterator[TaskExportRow | UUID]:
    """Every task, newest first. Where it had to end early the last item is the task to go on before."""
    found: list[tuple[Any, ...]] | UUID
    walked = walk(
        pinned(wanted), COLUMNS, most=MAX_EXPORTED, most_looked_at=MAX_LOOKED_AT, before=before
    )
    for found in walked:
        if isinstance(found, UUID):
            yield found
            return
        costs = read_costs([row[0] for row in found])
        for row in found:
            listed = TaskListRow(*row)
            yield TaskExportRow(**asdict(listed), cost_usd=costs.get(listed.task_id, Decimal()))
