"""Runs as they are read: rows, progress, and the DAG as it stands (contract 2, 6)."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson
from django.db import connection
from django.db.models import QuerySet

from coordinator.canary import SUBMITTED_BY
from coordinator.models import Dependency, Run, Task
from coordinator.seen import RunSeen
from coordinator.states import TaskState

from .tasks import queue_number

#: Counting stops here, for each run; a run has at most 10,000 nodes.
MAX_COUNTED: Final = 10_000


@dataclass(frozen=True, slots=True)
class RunFilters:
    queue: str | None = None
    state: str | None = None
    name: str | None = None
    queues: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    run_id: UUID
    queue: str
    name: str
    state: str
    metadata: orjson.Fragment
    node_count: int
    submitted_by: str
    created_at: datetime
    finished_at: datetime | None
    progress: dict[str, int] | None = None  # nodes by the state of their newest task


@dataclass(frozen=True, slots=True)
class GraphNode:
    node_id: str
    task_id: UUID
    kind: str
    state: str
    revision: int
    attempts: int
    owner: str | None
    lease_expires_at: datetime | None
    pending_dependencies: int


@dataclass(frozen=True, slots=True)
class GraphEdge:
    parent: str
    child: str


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: list[GraphNode] = field(default_factory=list)
    edges: list[GraphEdge] = field(default_factory=list)


def list_runs(filters: RunFilters) -> QuerySet[Run]:
    """Newest first; page by `id__lt`."""
    runs = Run.objects.select_related("queue")
    wanted = {
        "queue_id": queue_number(filters.queue),
        "state": filters.state,
        "name": filters.name,
    }
    runs = runs.filter(**{column: value for column, value in wanted.items() if value is not None})
    if filters.name is None:
        runs = runs.exclude(
            submitted_by=SUBMITTED_BY
        )  # canary runs; who asks for the name sees them
    if filters.queues is not None:
        runs = runs.filter(queue__name__in=list(filters.queues))
    return runs.order_by("-id")


def find_run(run_id: UUID, *, queues: Collection[str] | None = None) -> Run | None:
    runs = Run.objects.select_related("queue")
    if queues is not None:
        runs = runs.filter(queue__name__in=list(queues))
    return runs.filter(run_id=run_id).first()


def run_record(run: Run, *, progress: dict[str, int] | None = None) -> RunRecord:
    return RunRecord(
        run_id=run.run_id,
        queue=run.queue.name,
        name=run.name,
        state=run.state,
        metadata=orjson.Fragment(run.metadata),
        node_count=run.node_count,
        submitted_by=run.submitted_by,
        created_at=run.created_at,
        finished_at=run.finished_at,
        progress=progress,
    )


_PROGRESS: Final = """
SELECT r.id, t.state, count(*) FROM unnest(%s::int[]) AS r(id)
CROSS JOIN LATERAL (
  SELECT state FROM coordinator_task WHERE run_id = r.id AND state <> 'SUPERSEDED' LIMIT %s) t
GROUP BY r.id, t.state
"""


def progress_of(runs: Sequence[Run]) -> dict[int, dict[str, int]]:
    """For each run, its nodes by the state of their newest task. One query for a whole page."""
    counts: dict[int, dict[str, int]] = {run.pk: {} for run in runs}
    with connection.cursor() as cursor:
        cursor.execute(_PROGRESS, [list(counts), MAX_COUNTED])
        for run_number, state, count in cursor.fetchall():
            counts[run_number][state] = count
    return counts


_SEEN: Final = """
SELECT count(*) FILTER (WHERE state = 'CANCELLED'), count(*) FILTER (WHERE revision > 1),
  count(*) FILTER (WHERE state = 'FAILED')
FROM coordinator_task WHERE run_id = %s
"""


def see_run(number: int, state: str) -> RunSeen:
    """What a decision about a run, whose state is known, is bound to. Looks at each of its tasks."""
    with connection.cursor() as cursor:
        cursor.execute(_SEEN, [number])
        return RunSeen(state, *cursor.fetchone())


def read_graph(run: Run) -> Graph:
    """The nodes of a run as they stand and the edges between them, in submitted order; two queries."""
    tasks = Task.objects.filter(run=run).exclude(state=TaskState.SUPERSEDED)
    columns = [
        "node_id",
        "task_id",
        "kind",
        "state",
        "revision",
        "attempts",
        "owner",
        "lease_expires_at",
        "pending_dependencies",
    ]
    nodes = [
        GraphNode(*row) for row in tasks.order_by("task_id").values_list(*columns)[:MAX_COUNTED]
    ]
    names = {node.task_id: node.node_id for node in nodes}
    edges = Dependency.objects.filter(child__run=run).order_by("parent_id", "child_id")
    return Graph(
        nodes,
        [
            GraphEdge(names[parent], names[child])
            for parent, child in edges.values_list("parent_id", "child_id")
            if parent in names and child in names
        ],
    )
