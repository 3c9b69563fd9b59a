"""Runs: submitted as a whole, and settled when nothing in them can move any more (contract 6)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor, ActorKind
from coordinator.canary import DRILL
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.ids import new_id
from coordinator.outcomes import FieldError, Refusal, invalid
from coordinator.rounds import Statement, name_point, run_round
from coordinator.shadow.lanes import is_rehearsal
from coordinator.states import RolloutStage, RunState

from . import answers, hints, rehearsals
from .answers import RequestKey
from .events import EventKind, Fact, record
from .graphs import MAX_ERRORS, Guaranteed, NodeSpec, Plan, make_plan
from .run_rows import Lane, write_edges, write_run, write_scopes, write_tasks
from .settlements import settle_active_runs, settle_runs
from .texts import MAX_METADATA_BYTES, canonical_text, check_text, is_storable
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


def submit_run(
    *,
    queue: str,
    name: str,
    metadata: Any,
    nodes: Sequence[NodeSpec],
    actor: Actor,
    request: RequestKey | None = None,
    may_rehearse: bool = True,
) -> Submitted | Refusal:
    """Store a DAG of nodes as a run, all of it or none (contract 6).

    Roots are READY at once (from `not_before` on), the others BLOCKED until their last parent
    commits. Takes the queue's gate shared; intake may be stopped. Refused with every fault at
    once, each with a JSON pointer: duplicate or unknown names, a cycle, limits (graphs.py), an
    unknown queue, unregistered downstreams, slots that do not fit `replay`. The same request
    again gets the first answer, `replayed`. A queue in SHADOW takes it as a rehearsal, which
    it stays for ever (contract 13); but for the canaries of a drill, which try the queue itself.
    """
    seen = _look(queue=queue, nodes=nodes, request=request)
    if isinstance(seen, Refusal | Submitted):
        return seen
    errors = list(seen.errors)
    errors.extend(check_text("/name", name, least=0))
    errors.extend(_reserved(nodes, actor))
    told, _ = canonical_text("/metadata", metadata, MAX_METADATA_BYTES, errors)
    plan = make_plan(nodes, seen.downstreams)
    if isinstance(plan, list) or errors:
        return invalid(*errors, *(plan if isinstance(plan, list) else ()))
    answer, queue_id = _store(
        queue=queue,
        name=name,
        metadata=told,
        plan=plan,
        actor=actor,
        request=request,
        may_rehearse=may_rehearse,
    )
    if answer is None:
        return submit_run(
            queue=rehearsals.ensure_lane(queue=queue),
            name=name,
            metadata=metadata,
            nodes=nodes,
            actor=actor,
            request=request,
        )
    if queue_id is not None:
        hints.notify(queue_id)
    return answer


def _reserved(nodes: Sequence[NodeSpec], actor: Actor) -> list[FieldError]:
    """No worker is offered a canary: a task of that kind by anybody else would wait for ever."""
    if actor.kind is ActorKind.SYSTEM:
        return []
    told = f"`{DRILL}` is the fence drill's own; choose another kind."
    taken = [at for at, node in enumerate(nodes) if node.kind == DRILL]
    return [FieldError(f"/nodes/{at}/kind", told) for at in taken[:MAX_ERRORS]]


@dataclass(frozen=True, slots=True)
class _Seen:
    errors: list[FieldError]
    downstreams: dict[str, Guaranteed]


@in_transaction
def _look(
    *, queue: str, nodes: Sequence[NodeSpec], request: RequestKey | None
) -> _Seen | Submitted | Refusal:
    """What planning needs to know, read first: a plan of 10,000 nodes is not made while a gate is held."""
    wanted = {name for node in nodes for name in node.slots.values() if is_storable(name)}
    queues, registry, found = run_round(
        Statement(_QUEUE, (queue if is_storable(queue) else "",)),
        Statement(_REGISTRY, (sorted(wanted),)),
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
    *,
    queue: str,
    name: str,
    metadata: str,
    plan: Plan,
    actor: Actor,
    request: RequestKey | None,
    may_rehearse: bool,
) -> tuple[Submitted | Refusal | None, int | None]:
    """The answer, and the queue's id where this call has stored a run; no answer where it is to be rehearsed."""
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
    queue_id, max_attempts, run_number, stage = lanes[0]
    if stage == RolloutStage.SHADOW and may_rehearse and not is_rehearsal(queue):
        return None, None
    lane = Lane(queue_id, max_attempts, run_number, clock_of(clock))
    answer = Submitted(
        run_id=new_id(),
        state=RunState.ACTIVE,
        tasks=[SubmittedTask(node.spec.node_id, node.task_id, node.state) for node in plan.nodes],
    )
    run_round(
        *write_scopes(plan, lane),
        write_run(
            answer.run_id, plan, lane, name=name, metadata=metadata, submitted_by=actor.label
        ),
        write_tasks(plan, lane),
        write_edges(plan),
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
    "SELECT id, max_attempts, nextval(pg_get_serial_sequence('coordinator_run', 'id'))::int, rollout_stage"
    " FROM coordinator_queue WHERE name = %s"
)
_QUEUE: Final = "SELECT 1 FROM coordinator_queue WHERE name = %s"
_NOTHING: Final = Statement("SELECT 1 WHERE false")
_REGISTRY: Final = (
    "SELECT name, guarantee, refuses_late FROM coordinator_downstream WHERE name = ANY(%s::text[])"
)


def _submitted(task: SubmittedTask, lane: Lane) -> Fact:
    return Fact(
        EventKind.SUBMITTED,
        queue_id=lane.queue_id,
        run_id=lane.run_number,
        task_id=task.task_id,
        state_version=1,
        data={"state": task.state},
    )
