"""What was made of what: each canonical commit with its input and its parents' commits (contract 11)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from coordinator.models import CanonicalCommit, MemoryFact, Run
from coordinator.states import TaskState

MAX_COMMITS: Final = 20_000


@dataclass(frozen=True, slots=True)
class LineageMemory:
    namespace: str
    key: str
    version: int
    value_digest: str


@dataclass(frozen=True, slots=True)
class LineageCommit:
    """A canonical commit. `superseded`: a newer revision took its task's place, so nothing builds on it."""

    result_commit_id: UUID
    task_id: UUID
    node_id: str
    revision: int
    superseded: bool
    attempt_id: UUID
    claim_generation: int
    scheduler_epoch: int
    input_digest: str
    result_digest: str
    parents: list[dict[str, Any]]  # {node_id, result_commit_id, result_digest}
    memory: list[LineageMemory]
    committed_at: datetime


@dataclass(frozen=True, slots=True)
class Lineage:
    run_id: UUID
    commits: list[LineageCommit]


def read_lineage(run: Run) -> Lineage:
    """All canonical commits of a run in the order of their making; two queries."""
    memory: dict[UUID, list[LineageMemory]] = {}
    facts = MemoryFact.objects.filter(result_commit__task__run=run).order_by("id")
    for commit_id, namespace, key, version, digest in facts.values_list(
        "result_commit_id", "memory_key__namespace", "memory_key__key", "version", "value_digest"
    ):
        memory.setdefault(commit_id, []).append(LineageMemory(namespace, key, version, digest))
    commits = (
        CanonicalCommit.objects.filter(task__run=run)
        .select_related("task")
        .defer("result", "task__input")
        .order_by("committed_at", "result_commit_id")
    )
    return Lineage(
        run.run_id,
        [
            _commit(commit, memory.get(commit.result_commit_id, []))
            for commit in commits[:MAX_COMMITS]
        ],
    )


def _commit(commit: CanonicalCommit, memory: list[LineageMemory]) -> LineageCommit:
    task = commit.task
    return LineageCommit(
        result_commit_id=commit.result_commit_id,
        task_id=task.task_id,
        node_id=task.node_id,
        revision=task.revision,
        superseded=task.state == TaskState.SUPERSEDED,
        attempt_id=commit.attempt_id,
        claim_generation=commit.claim_generation,
        scheduler_epoch=commit.scheduler_epoch,
        input_digest=commit.input_digest,
        result_digest=commit.result_digest,
        parents=commit.parents,
        memory=memory,
        committed_at=commit.committed_at,
    )
