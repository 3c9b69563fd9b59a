"""The rows of a new run: each table by one statement, whatever the number of nodes (contract 6)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

import orjson

from coordinator.rounds import Statement

from .graphs import Plan


@dataclass(frozen=True, slots=True)
class Lane:
    """What a submission needs of its queue, read behind the gate."""

    queue_id: int
    max_attempts: int
    run_number: int
    clock: datetime


def write_scopes(plan: Plan, lane: Lane) -> list[Statement]:
    """In the order of their tokens: two submissions with the same keys wait for each other, never in a ring."""
    tokens = sorted({node.serial_token for node in plan.nodes if node.serial_token is not None})
    if not tokens:
        return []
    return [
        Statement(
            "INSERT INTO coordinator_serialscope (queue_id, token) SELECT %s, unnest(%s::text[])"
            " ON CONFLICT (queue_id, token) DO NOTHING",
            (lane.queue_id, tokens),
        )
    ]


def write_run(
    run_id: UUID, plan: Plan, lane: Lane, *, name: str, metadata: str, submitted_by: str
) -> Statement:
    return Statement(
        "INSERT INTO coordinator_run"
        " (id, run_id, queue_id, name, metadata, state, node_count, submitted_by, created_at)"
        " VALUES (%s, %s, %s, %s, %s, 'ACTIVE', %s, %s, %s)",
        (
            lane.run_number,
            run_id,
            lane.queue_id,
            name,
            metadata,
            len(plan.nodes),
            submitted_by,
            lane.clock,
        ),
    )


_INSERT_TASKS: Final = """
INSERT INTO coordinator_task
  (task_id, run_id, queue_id, node_id, kind, revision, state, priority, not_before, input, input_digest, replay,
   slots, serial_key, serial_scope_id, serial_held, state_version, scheduler_epoch, claim_generation,
   cancel_generation, claimable_at, attempts, spent_attempts, max_attempts, dependency_count,
   pending_dependencies, ready_at, created_at)
SELECT n.task_id, lane.run_id, lane.queue_id, n.node_id, n.kind, 1,
       CASE WHEN n.waits = 0 THEN 'READY' ELSE 'BLOCKED' END, n.priority, n.not_before, n.input, n.input_digest,
       n.replay, n.slots::jsonb, n.serial_key, scope.id, false, 1, 0, 0, 0,
       CASE WHEN n.waits = 0 THEN greatest(lane.clock, n.not_before) END, 0, 0, n.max_attempts, n.waits, n.waits,
       CASE WHEN n.waits = 0 THEN lane.clock END, lane.clock
FROM (SELECT %s::int AS run_id, %s::int AS queue_id, %s::timestamptz AS clock) lane
CROSS JOIN unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::timestamptz[], %s::text[], %s::text[],
                  %s::text[], %s::text[], %s::text[], %s::text[], %s::int[], %s::int[])
  AS n(task_id, node_id, kind, priority, not_before, input, input_digest, replay, slots, serial_key, token,
       max_attempts, waits)
LEFT JOIN coordinator_serialscope scope ON scope.queue_id = lane.queue_id AND scope.token = n.token
"""


def write_tasks(plan: Plan, lane: Lane) -> Statement:
    nodes = plan.nodes
    specs = [node.spec for node in nodes]
    return Statement(
        _INSERT_TASKS,
        (
            lane.run_number,
            lane.queue_id,
            lane.clock,
            [node.task_id for node in nodes],
            [spec.node_id for spec in specs],
            [spec.kind for spec in specs],
            [spec.priority for spec in specs],
            [spec.not_before for spec in specs],
            [node.input for node in nodes],
            [node.input_digest for node in nodes],
            [str(node.replay) for node in nodes],
            [orjson.dumps(dict(spec.slots)).decode() for spec in specs],
            [spec.serial_key for spec in specs],
            [node.serial_token for node in nodes],
            [spec.max_attempts or lane.max_attempts for spec in specs],
            [node.dependency_count for node in nodes],
        ),
    )


def write_edges(plan: Plan) -> Statement:
    return Statement(
        "INSERT INTO coordinator_dependency (parent_id, child_id) SELECT * FROM unnest(%s::uuid[], %s::uuid[])",
        ([parent for parent, _ in plan.edges], [child for _, child in plan.edges]),
    )
