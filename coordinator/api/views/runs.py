"""Runs: submitted, read, and what was made of what in them (contract 6, 10, 11)."""

from typing import TYPE_CHECKING, Any

from pydantic import Field

from coordinator.access import Operation
from coordinator.actors import Operator, Worker
from coordinator.api.bodies.fields import LaneWord
from coordinator.api.bodies.runs import CancelRunBody, RunBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.masking import for_caller
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import require_own_queue, uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.lineage import Lineage, read_lineage
from coordinator.selectors.runs import (
    RunFilters,
    RunRecord,
    find_run,
    list_runs,
    progress_of,
    run_record,
)
from coordinator.services.cancels import CancelledRun, cancel_run
from coordinator.services.runs import Submitted, submit_run
from coordinator.shadow.lanes import lane_of
from coordinator.states import RunState

if TYPE_CHECKING:
    from coordinator.models import Run


class RunQuery(PageQuery):
    queue: LaneWord | None = None
    state: RunState | None = None
    name: str | None = Field(default=None, max_length=200)


class Runs(Endpoint):
    @operation(
        Operation.LIST_RUNS, "List runs, newest first", answer=Page[RunRecord], query=RunQuery
    )
    def get(self, call: Call[None]) -> Page[RunRecord]:
        wanted: RunQuery = call.query
        filters = RunFilters(wanted.queue, wanted.state, wanted.name, queues_of(call.caller))

        def told(run: Any) -> RunRecord:
            return for_caller(call.caller, run_record(run))

        return page_of(call.request, wanted, list_runs(filters), told, key="id")

    @operation(
        Operation.SUBMIT_RUN,
        "Submit a DAG of nodes: all of it or none",
        body=RunBody,
        answer=Submitted,
        status=201,
        keyed=True,
        refusals=(Outcome.IDEMPOTENCY_CONFLICT,),
    )
    def post(self, call: Call[RunBody]) -> Submitted | Refusal:
        body = call.body
        if isinstance(call.caller, Worker):
            require_own_queue(call.caller, body.queue)
        return submit_run(
            queue=body.queue,
            name=body.name,
            metadata=body.metadata,
            nodes=[node.spec(node.node_id, tuple(node.depends_on)) for node in body.nodes],
            actor=call.caller,
            request=call.request_key(),
        )


class OneRun(Endpoint):
    @operation(
        Operation.READ_RUN,
        "Read a run with its progress: nodes by the state of their newest task",
        answer=RunRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], run_id: str) -> RunRecord | Refusal:
        run = seen_run(call.caller, run_id)
        if run is None:
            return not_found("run")
        return for_caller(call.caller, run_record(run, progress=progress_of([run])[run.pk]))


class RunLineage(Endpoint):
    @operation(
        Operation.READ_LINEAGE,
        "Which commits each canonical commit of a run was made from",
        answer=Lineage,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], run_id: str) -> Lineage | Refusal:
        run = seen_run(call.caller, run_id)
        return read_lineage(run) if run else not_found("run")


class RunCancel(Endpoint):
    @operation(
        Operation.CANCEL_RUN,
        "Cancel all unfinished tasks of a run in one transaction",
        body=CancelRunBody,
        answer=CancelledRun,
        refusals=(Outcome.NOT_FOUND, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[CancelRunBody], run_id: str) -> CancelledRun | Refusal:
        return cancel_run(run_id=uuid_of(run_id, "run"), reason=call.body.reason, actor=call.caller)


def queues_of(caller: Worker | Operator) -> frozenset[str] | None:
    """The queues that a caller is limited to; None for people."""
    if not isinstance(caller, Worker):
        return None
    return caller.queues | {lane_of(queue) for queue in caller.queues}


def seen_run(caller: Worker | Operator, run_id: str) -> "Run | None":
    return find_run(uuid_of(run_id, "run"), queues=queues_of(caller))
