"""What the overview tells: what waits for a person, each queue in numbers, the last commits and fences."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection

from coordinator.canary import DRILL
from coordinator.models import CanonicalCommit, Event, Queue
from coordinator.outcomes import Outcome, Reason
from coordinator.selectors.console_counts import capped_counts
from coordinator.states import TaskState

#: The live counts look at no more unfinished tasks of a state than this, the oldest; beyond it they are "at least".
OPEN_TASKS_CAP: Final = 10_000
REFUSALS_LOOKED_AT: Final = 400
SHOWN: Final = 8
#: A task that lost its lease or failed so often is worth a look before its attempts are used up.
OFTEN: Final = 3
ALARM_AGE: Final = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class QueueNow:
    """A queue with its policy and its unfinished tasks. `capped`: the counts are "at least"."""

    name: str
    scheduler_epoch: int
    intake: str
    intake_share: int  # per cent that a canary lets in while the intake is STOPPED
    active_pool: str
    rollout_stage: str
    default_ttl_seconds: int
    max_ttl_seconds: int
    max_attempts: int
    states: dict[str, int] = field(default_factory=dict)
    lapsed: int = 0
    claimable: int = 0
    oldest_claimable_at: datetime | None = None
    exhausted: int = 0
    failed: int = 0
    often: int = 0
    capped: bool = False


@dataclass(frozen=True, slots=True)
class RecentCommit:
    task_id: UUID
    node_id: str
    run_id: UUID
    run_name: str
    claim_generation: int
    committed_at: datetime
    owner: str


@dataclass(frozen=True, slots=True)
class RecentRefusal:
    """The newest of equal refusals; `repeats` is how often the same came again."""

    task_id: UUID | None
    node_id: str | None
    attempt_id: UUID | None
    actor: str
    at: datetime
    point: str
    outcome: str
    reason: str
    repeats: int


@dataclass(frozen=True, slots=True)
class Refusals:
    fences: tuple[RecentRefusal, ...]
    ahead: tuple[RecentRefusal, ...]


#: A state as a range, in the order of the index of states: the planner would look for what is unfinished from the
#: table's beginning, where the oldest tasks are, that have finished long since.
_OPEN_TASKS: Final = """
SELECT queue_id, state, count(*),
       count(*) FILTER (WHERE state = 'CLAIMED' AND lease_expires_at <= clock_timestamp()),
       count(*) FILTER (WHERE state = 'READY' AND claimable_at <= clock_timestamp()),
       min(claimable_at) FILTER (WHERE state = 'READY' AND claimable_at <= clock_timestamp()),
       count(*) FILTER (WHERE spent_attempts >= max_attempts),
       count(*) FILTER (WHERE spent_attempts >= %s AND state IN ('READY', 'CLAIMED'))
FROM unnest(%s::text[]) AS s(open_state) CROSS JOIN LATERAL (
  SELECT queue_id, state, lease_expires_at, claimable_at, spent_attempts, max_attempts FROM coordinator_task t
  WHERE t.state >= s.open_state AND t.state <= s.open_state AND t.state <> 'COMMITTED'
  ORDER BY t.state DESC, t.task_id LIMIT %s
) AS open
GROUP BY queue_id, state
"""


_OPEN_STATES: Final = sorted(
    set(TaskState) - {TaskState.COMMITTED, TaskState.SUPERSEDED, TaskState.CANCELLED}
)


def read_queues_now() -> tuple[QueueNow, ...]:
    """Every queue by name, with its live counts, in two round trips."""
    with connection.cursor() as cursor:
        cursor.execute(_OPEN_TASKS, (OFTEN, _OPEN_STATES, OPEN_TASKS_CAP))
        rows = cursor.fetchall()
    of_state: Counter[str] = Counter()
    for _, state, count, *_ in rows:
        of_state[state] += count
    capped = max(of_state.values(), default=0) >= OPEN_TASKS_CAP
    by_queue: dict[int, list[tuple[Any, ...]]] = {}
    for queue_id, *counts in rows:
        by_queue.setdefault(queue_id, []).append(tuple(counts))
    return tuple(
        _queue_now(queue, by_queue.get(queue.id, []), capped=capped)
        for queue in Queue.objects.order_by("name")
    )


def _queue_now(queue: Queue, rows: Sequence[tuple[Any, ...]], *, capped: bool) -> QueueNow:
    states = {state: count for state, count, *_ in rows}
    ready_since = [row[4] for row in rows if row[4] is not None]
    exhausted = sum(row[5] for row in rows if row[0] == "FAILED")
    return QueueNow(
        name=queue.name,
        scheduler_epoch=queue.scheduler_epoch,
        intake=queue.intake,
        intake_share=queue.intake_share,
        active_pool=queue.active_pool_id,
        rollout_stage=queue.rollout_stage,
        default_ttl_seconds=queue.default_ttl_seconds,
        max_ttl_seconds=queue.max_ttl_seconds,
        max_attempts=queue.max_attempts,
        states=states,
        lapsed=sum(row[2] for row in rows),
        claimable=sum(row[3] for row in rows),
        oldest_claimable_at=min(ready_since, default=None),
        exhausted=exhausted,
        failed=states.get("FAILED", 0) - exhausted,
        often=sum(row[6] for row in rows),
        capped=capped,
    )


def read_last_commits() -> tuple[RecentCommit, ...]:
    """The newest canonical commits; their ids are ordered by time."""
    commits = CanonicalCommit.objects.exclude(task__kind=DRILL).order_by("-result_commit_id")
    rows = commits.values_list(
        "task_id",
        "task__node_id",
        "task__run__run_id",
        "task__run__name",
        "claim_generation",
        "committed_at",
        "attempt__owner",
    )
    return tuple(RecentCommit(*row) for row in rows[:SHOWN])


def count_commits_since(moment: datetime) -> int:
    """Capped. A version 7 UUID starts with its time, so the key itself answers."""
    first = UUID(int=int(moment.timestamp() * 1000) << 80)
    return capped_counts({"n": CanonicalCommit.objects.filter(result_commit_id__gte=first)})["n"]


def read_refusals(now: datetime) -> Refusals:
    """The last fenced calls, and those of the last day whose fence was ahead of the database."""
    rows = (
        Event.objects.filter(refusal_key__isnull=False)
        .exclude(actor__startswith=f"worker:{DRILL}#")
        .order_by("-id")
        .values_list(
            "kind",
            "task_id",
            "task__node_id",
            "attempt_id",
            "actor",
            "at",
            "last_at",
            "repeats",
            "data",
        )[:REFUSALS_LOOKED_AT]
    )
    refused = [_refusal(row) for row in rows if row[0] == "REFUSED"]
    return Refusals(
        fences=tuple(each for each in refused if each.outcome == Outcome.FENCED)[:SHOWN],
        ahead=tuple(
            each for each in refused if each.reason == Reason.AHEAD and each.at > now - ALARM_AGE
        ),
    )


def _refusal(row: tuple[Any, ...]) -> RecentRefusal:
    _, task_id, node_id, attempt_id, actor, at, last_at, repeats, data = row
    return RecentRefusal(
        task_id=task_id,
        node_id=node_id,
        attempt_id=attempt_id,
        actor=actor,
        at=last_at or at,
        point=str(data.get("point", "")),
        outcome=str(data.get("outcome", "")),
        reason=str(data.get("reason") or ""),
        repeats=repeats,
    )
