"""Runs: submitted as a whole, and settled when nothing in them can move any more (contract 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from uuid_utils.compat import uuid7

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.outcomes import FieldError, Refusal, invalid
from coordinator.rounds import Statement, name_point, run_round
from coordinator.states import RunState

from . import answers, hints
from .answers import RequestKey
from .events import EventKind, Fact, record
from .graphs import Guaranteed, NodeSpec, Plan, make_plan
from .settlements import settle_active_runs, settle_runs
from .texts import MAX_METADATA_BYTES, canonical_text, check_text
from .transactions import in_transaction

__all__ = [
    "NodeSpec",
    "Submitted",
    "SubmittedTask",
    "settle_active_runs",
    "settle_runs",
    "submit_run",
]


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    node_id: str
    task_id: UUID
    state: str


@dataclass(frozen=True, slots=True)
class Submitted:
    run_id: UUID
    state: str
    tasks: list[SubmittedTask]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class _Lane:
    """What a submission needs of its queue, read behind the gate."""

    queue_id: int
    max_attempts: int
    run_number: int
    clock: datetime


def submit_run(
    *,
    queue: str,
    name: str,
    metadata: Any,
    nodes: Sequence[NodeSpec],
    actor: Actor,
    request: RequestKey | None = None,
) -> Submitted | Refusal:
    """Store a DAG of nodes as a run, all of it or none (contract 6).

    Roots are READY at once (from `not_before` on), the others BLOCKED until their last parent
    commits. Takes the queue's gate shared; intake may be stopped. Refused with every fault at
    once, each with a JSON pointer: duplicate or unknown names, a cycle, limits (graphs.py), an
    unknown queue, unregistered downstreams, slots that do not fit `replay`. The same request
    again gets the first answer, `replayed`.
    """
    seen = _look(queue=queue, nodes=nodes, request=request)
    if isinstance(seen, Refusal | Submitted):
        return seen
    errors = list(seen.errors)
    errors.extend(check_text("/name", name, least=0))
    told, _ = canonical_text("/metadata", metadata, MAX_METADATA_BYTES, errors)
    plan = make_plan(nodes, seen.downstreams)
    if isinstance(plan, list) or errors:
        return invalid(*errors, *(plan if isinstance(plan, list) else ()))
    answer, queue_id = _store(
        queue=queue, name=name, metadata=told, plan=plan, actor=actor, request=request
    )
    if queue_id is not None:
        hints.notify(queue_id)
    return answer


@dataclass(frozen=True, slots=True)
class _Seen:
    errors: list[FieldError]
    downstreams: dict[str, Guaranteed]


@in_transaction
def _look(
    *, queue: str, nodes: Sequence[NodeSpec], request: RequestKey | None
) -> _Seen | Submitted | Refusal:
    """What planning needs to know, read first: a plan of 10,000 nodes is not made while a gate is held."""
    wanted = sorted({downstream for node in nodes for downstream in node.slots.values()})
    queues, registry, found = run_round(
        Statement("SELECT 1 FROM coordinator_queue WHERE name = %s", (queue,)),
        Statement(_REGISTRY, (wanted,)),
        answers.look_up(request) if request else _NOTHING,
    )
    before = _answered(request, found)
    if before is not None:
        return before
    unknown = FieldError("/queue", f"There is no queue `{queue}`; create it first.")
    return _Seen(
        [] if queues else [unknown], {row[0]: Guaranteed(row[1], row[2]) for row in registry}
    )


@in_transaction
def _store(
    *, queue: str, name: str, metadata: str, plan: Plan, actor: Actor, request: RequestKey | None
) -> tuple[Submitted | Refusal, int | None]:
    """The answer, and the queue's id where this call has stored a run."""
    _, _, found, lanes, clock = run_round(
        name_point("submit"),
        Statement(_GATE, (queue,)),
        answers.look_up(request) if request else _NOTHING,
        Statement(_LANE, (queue,)),
        CLOCK,
    )
    before = _answered(request, found)
    if before is not None:
        return before, None
    queue_id, max_attempts, run_number = lanes[0]
    lane = _Lane(queue_id, max_attempts, run_number, clock_of(clock))
    answer = Submitted(
        run_id=uuid7(),
        state=RunState.ACTIVE,
        tasks=[SubmittedTask(node.spec.node_id, node.task_id, node.state) for node in plan.nodes],
    )
    run_round(
        *_write_scopes(plan, lane),
        _write_run(answer, name=name, metadata=metadata, lane=lane, actor=actor),
        _write_tasks(plan, lane),
        _write_edges(plan),
        record([_submitted(node, lane) for node in answer.tasks], actor=actor, at=lane.clock),
        *([answers.store(request, orjson.dumps(answer).decode())] if request else []),
    )
    return answer, queue_id


def _answered(
    request: RequestKey | None, found: Sequence[tuple[Any, ...]]
) -> Submitted | Refusal | None:
    before = answers.stored_answer(request, found) if request else None
    return _replay(before) if isinstance(before, str) else before


def _replay(stored: str) -> Submitted:
    told = orjson.loads(stored)
    tasks = [
        SubmittedTask(task["node_id"], UUID(task["task_id"]), task["state"])
        for task in told["tasks"]
    ]
    return replace(Submitted(UUID(told["run_id"]), told["state"], tasks), replayed=True)


_GATE: Final = f"SELECT pg_advisory_xact_lock_shared({int(GateClass.QUEUE)}, id) FROM coordinator_queue WHERE name = %s"  # noqa: S608
#: After the gate, in a statement of its own. The run's number is taken here, so that all
#: writes fit into one round.
_LANE: Final = (
    "SELECT id, max_attempts, nextval(pg_get_serial_sequence('coordinator_run', 'id'))::int"
    " FROM coordinator_queue WHERE name = %s"
)
_NOTHING: Final = Statement("SELECT 1 WHERE false")
_REGISTRY: Final = (
    "SELECT name, guarantee, refuses_late FROM coordinator_downstream WHERE name = ANY(%s::text[])"
)


def _write_scopes(plan: Plan, lane: _Lane) -> list[Statement]:
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


def _write_run(
    answer: Submitted, *, name: str, metadata: str, lane: _Lane, actor: Actor
) -> Statement:
    return Statement(
        "INSERT INTO coordinator_run"
        " (id, run_id, queue_id, name, metadata, state, node_count, submitted_by, created_at)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
        (
            lane.run_number,
            answer.run_id,
            lane.queue_id,
            name,
            metadata,
            answer.state,
            len(answer.tasks),
            actor.label,
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


def _write_tasks(plan: Plan, lane: _Lane) -> Statement:
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


def _write_edges(plan: Plan) -> Statement:
    return Statement(
        "INSERT INTO coordinator_dependency (parent_id, child_id) SELECT * FROM unnest(%s::uuid[], %s::uuid[])",
        ([parent for parent, _ in plan.edges], [child for _, child in plan.edges]),
    )


def _submitted(task: SubmittedTask, lane: _Lane) -> Fact:
    return Fact(
        EventKind.SUBMITTED,
        queue_id=lane.queue_id,
        run_id=lane.run_number,
        task_id=task.task_id,
        state_version=1,
        data={"state": task.state},
    )
