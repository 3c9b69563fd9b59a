"""What the coordinator tells, as frozen records. Their words are the contract's (sections 2, 6, 7, 11, 12)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

#: A JSON value. Which one is between whoever submits a task and the handler of its kind.
Json: TypeAlias = Any


@dataclass(frozen=True, kw_only=True, slots=True)
class Fence:
    """The counters that a grant carries; sent back unchanged with every call of that attempt (contract 3)."""

    task_id: str
    attempt_id: str
    scheduler_epoch: int
    claim_generation: int
    cancel_generation: int

    def as_json(self) -> dict[str, Json]:
        """As it travels."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True, slots=True)
class Parent:
    """The canonical result of a node that this one depends on. Where a blob holds it, `result` says which."""

    result_commit_id: str
    result_digest: str
    result: Json = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """One outside effect that the task declares, as it stands (contract 8)."""

    slot: str
    state: str
    downstream: str
    effect_id: str | None = None
    payload: Json = None
    payload_digest: str | None = None
    condition: Json = None
    guarantee: str | None = None
    receipt: Json = None
    etag: str | None = None
    may_be_out: bool = False
    dispatches: Json = 0
    #: The rest is told where effects are read, not with a claim.
    dispatch_count: int | None = None
    unknown_since: datetime | None = None
    duplicate_suspected: bool = False
    task_id: str | None = None
    run_id: str | None = None
    node_id: str | None = None
    queue: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedChanges:
    """A person said no to what this node was about to send, and what it is to do otherwise (contract 9)."""

    approval_id: str
    effect_id: str
    slot: str
    downstream: str
    payload: Json
    payload_digest: str
    comment: str
    asked_by: str
    at: datetime


@dataclass(frozen=True, kw_only=True)
class Grant:
    """A claim as it was answered; the worker's `Claim` is made from it (contract 7)."""

    fence: Fence
    owner: str
    run_id: str
    node_id: str
    kind: str
    input: Json
    input_digest: str
    attempt_number: int
    lease_seconds: float
    lease_expires_at: datetime | None = None
    state_version: int = 0
    revision: int = 1
    replay: str = "READ_ONLY"
    parents: Mapping[str, Parent] = field(default_factory=dict)
    effects: tuple[Effect, ...] = ()
    changes_asked: AskedChanges | None = None


@dataclass(frozen=True, kw_only=True)
class SubmittedTask:
    """One node of a new run."""

    node_id: str
    task_id: str
    state: str


@dataclass(frozen=True, kw_only=True)
class SubmittedRun:
    """The receipt of a submission. `tries` is how often it had to be sent."""

    run_id: str
    state: str
    tasks: tuple[SubmittedTask, ...]
    tries: int

    def task(self, node_id: str) -> SubmittedTask:
        """The task of a node; KeyError where the run has no such node."""
        for task in self.tasks:
            if task.node_id == node_id:
                return task
        raise KeyError(node_id)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A DAG of nodes submitted at once: ACTIVE, COMMITTED, CANCELLED or FAILED."""

    run_id: str
    queue: str
    state: str
    created_at: datetime
    name: str = ""
    metadata: Json = None
    node_count: int | None = None
    submitted_by: str | None = None
    finished_at: datetime | None = None
    #: Nodes by the state of their newest task, where the run was read singly.
    progress: Mapping[str, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Task:
    """One node at one revision. `etag` is the state version as a strong ETag, where it was read singly."""

    task_id: str
    run_id: str
    node_id: str
    kind: str
    queue: str
    state: str
    state_version: int
    revision: int = 1
    supersedes: str | None = None
    priority: int = 0
    not_before: datetime | None = None
    input: Json = None
    input_digest: str | None = None
    replay: str = "READ_ONLY"
    serial_key: str | None = None
    scheduler_epoch: int = 0
    claim_generation: int = 0
    cancel_generation: int = 0
    attempt_id: str | None = None
    owner: str | None = None
    lease_expires_at: datetime | None = None
    attempts: int = 0
    max_attempts: int | None = None
    pending_dependencies: int = 0
    ready_at: datetime | None = None
    result_commit_id: str | None = None
    slots: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Usage:
    """What an attempt has used up so far."""

    input_tokens: int = 0
    output_tokens: int = 0
    compute_seconds: Json = 0
    cost_usd: Json = 0


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """One grant of a task to one worker, and how it ended."""

    attempt_id: str
    claim_generation: int
    scheduler_epoch: int
    cancel_generation: int
    owner: str
    state: str
    started_at: datetime
    task_id: str | None = None
    worker: str | None = None
    pool: str | None = None
    lease_expires_at: datetime | None = None
    renewals: int = 0
    ended_at: datetime | None = None
    end_reason: str | None = None
    error: Json = None
    #: From the lapse of the lease that this grant took over to the grant.
    reclaim_seconds: float | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, kw_only=True)
class Reason:
    """One reason why a task is not running."""

    code: str
    detail: str
    link: str | None = None


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a task is where it is; `claimable` when a worker could have it now."""

    claimable: bool
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Cancellation:
    """The receipt of a cancel. `effects` are those that may be out: cancelling un-sends nothing (contract 10)."""

    outcome: str
    tries: int
    cancel_generation: int | None = None
    effects: tuple[Json, ...] = ()
    body: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Revised:
    """The new task in the place of a superseded one. `effects` of the old one have already happened (contract 10)."""

    task_id: str
    run_id: str
    node_id: str
    revision: int
    supersedes: str
    state: str
    state_version: int
    tries: int
    effects: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A task with a fresh allowance of attempts: READY, or BLOCKED where a parent is not committed."""

    task_id: str
    state: str
    state_version: int
    effects: tuple[Json, ...] = ()


@dataclass(frozen=True, kw_only=True)
class HoldReleased:
    """A task that a restore held goes on from `state`; one that has ended stays so, and may be reopened."""

    task_id: str
    state: str
    state_version: int
    replayed: bool = False


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One key of shared memory at its newest version."""

    namespace: str
    key: str
    version: int
    value: Json = None
    value_digest: str | None = None
    result_commit_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A result that some attempt staged or committed; at most one of a task is canonical."""

    attempt_id: str
    result_digest: str
    result: Json = None
    #: `{name, digest, size_bytes, content_type}` where bytes are the result.
    blob: Mapping[str, Json] | None = None
    canonical: bool = False
    canonical_candidate: bool = False
    owner: str | None = None
    claim_generation: int | None = None
    attempt_state: str | None = None
    result_commit_id: str | None = None


@dataclass(frozen=True, kw_only=True)
class Queue:
    """A lane of tasks with one scheduler, its epoch and its lease policy."""

    name: str
    scheduler_epoch: int
    intake: str
    active_pool: str
    rollout_stage: str = "CONDITIONAL_WRITES"
    default_ttl_seconds: float | None = None
    max_ttl_seconds: float | None = None
    max_lease_seconds: float | None = None
    max_attempts: int | None = None
    retry_backoff_seconds: float | None = None
    retry_backoff_max_seconds: float | None = None
