"""Queues, pools and downstreams (contract 12)."""

from typing import Any

from coordinator.access import Operation, sees_queue
from coordinator.actors import Worker
from coordinator.api.bodies.administration import (
    DownstreamBody,
    DownstreamChangeBody,
    IntakeBody,
    PolicyBody,
    PoolBody,
    QueueBody,
)
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.downstreams import DownstreamRecord, all_downstreams, downstream_record
from coordinator.selectors.queues import (
    PoolRecord,
    QueueRecord,
    all_pools,
    all_queues,
    find_queue,
    pool_record,
    queue_record,
)
from coordinator.services.downstreams import change_downstream, register_downstream
from coordinator.services.epochs import IntakeSet, set_intake
from coordinator.services.queues import change_policy, create_pool, create_queue


class Queues(Endpoint):
    @operation(
        Operation.LIST_QUEUES,
        "List the queues that you may see",
        answer=Page[QueueRecord],
        query=PageQuery,
    )
    def get(self, call: Call[None]) -> Page[QueueRecord]:
        rows = all_queues()
        if isinstance(call.caller, Worker):
            rows = rows.filter(name__in=sorted(call.caller.queues))
        return page_of(call.request, call.query, rows, queue_record, key="name", newest_first=False)

    @operation(
        Operation.CREATE_QUEUE, "Create a queue", body=QueueBody, answer=QueueRecord, status=201
    )
    def post(self, call: Call[QueueBody]) -> QueueRecord | Refusal:
        return create_queue(actor=call.caller, **call.body.model_dump())


class OneQueue(Endpoint):
    @operation(
        Operation.READ_QUEUE, "Read a queue with its epoch, intake and policy", answer=QueueRecord
    )
    def get(self, call: Call[None], queue: str) -> QueueRecord | Refusal:
        found = find_queue(name=queue) if sees_queue(call.caller, queue) else None
        return found or not_found("queue")

    @operation(
        Operation.CHANGE_POLICY,
        "Change a queue's policy, never its epoch",
        body=PolicyBody,
        answer=QueueRecord,
        refusals=(Outcome.INCIDENT_OPEN,),
    )
    def patch(self, call: Call[PolicyBody], queue: str) -> QueueRecord | Refusal:
        return change_policy(name=queue, changes=_given(call.body), actor=call.caller)


class QueueIntake(Endpoint):
    @operation(
        Operation.SET_INTAKE,
        "Stop or open a queue's intake; a stopped one refuses claims only",
        body=IntakeBody,
        answer=IntakeSet,
        refusals=(Outcome.NOT_FOUND, Outcome.INCIDENT_OPEN, Outcome.INTAKE_STOPPED),
    )
    def post(self, call: Call[IntakeBody], queue: str) -> IntakeSet | Refusal:
        return set_intake(
            queue=queue, intake=call.body.intake, reason=call.body.reason, actor=call.caller
        )


class Pools(Endpoint):
    @operation(Operation.LIST_POOLS, "List the pools", answer=Page[PoolRecord], query=PageQuery)
    def get(self, call: Call[None]) -> Page[PoolRecord]:
        return page_of(
            call.request, call.query, all_pools(), pool_record, key="name", newest_first=False
        )

    @operation(Operation.CREATE_POOL, "Create a pool", body=PoolBody, answer=PoolRecord, status=201)
    def post(self, call: Call[PoolBody]) -> PoolRecord | Refusal:
        return create_pool(
            name=call.body.name, min_contract=call.body.min_contract, actor=call.caller
        )


class Downstreams(Endpoint):
    @operation(
        Operation.LIST_DOWNSTREAMS,
        "List the registered downstreams",
        answer=Page[DownstreamRecord],
        query=PageQuery,
    )
    def get(self, call: Call[None]) -> Page[DownstreamRecord]:
        return page_of(
            call.request,
            call.query,
            all_downstreams(),
            downstream_record,
            key="name",
            newest_first=False,
        )

    @operation(
        Operation.REGISTER_DOWNSTREAM,
        "Register a downstream with what it guarantees",
        body=DownstreamBody,
        answer=DownstreamRecord,
        status=201,
    )
    def post(self, call: Call[DownstreamBody]) -> DownstreamRecord | Refusal:
        return register_downstream(actor=call.caller, **call.body.model_dump())


class OneDownstream(Endpoint):
    @operation(
        Operation.CHANGE_DOWNSTREAM,
        "Change what is said of a downstream; bound effects keep what they have",
        body=DownstreamChangeBody,
        answer=DownstreamRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def patch(
        self, call: Call[DownstreamChangeBody], downstream: str
    ) -> DownstreamRecord | Refusal:
        return change_downstream(name=downstream, changes=_given(call.body), actor=call.caller)


def _given(body: PolicyBody | DownstreamChangeBody) -> dict[str, Any]:
    return {name: getattr(body, name) for name in body.model_fields_set}
