"""Claiming, and waiting for something to claim (contract 7)."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from coordinator.access import Operation
from coordinator.api.bodies.attempts import ClaimBody, ClaimsBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import require_own_queue, uuid_of
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.claims import Claimed, claim_task, claim_tasks
from coordinator.services.grants import Claim
from coordinator.services.hints import MAX_WAIT_SECONDS, Hint, wait_for_work
from coordinator.services.together import CLAIMS

_GATE = (Outcome.FENCED, Outcome.INTAKE_STOPPED, Outcome.WRONG_POOL, Outcome.IDEMPOTENCY_CONFLICT)


class QueueClaims(Endpoint):
    @operation(
        Operation.CLAIM_TASKS,
        "Claim the next tasks of a queue; an empty list where there is nothing to do",
        body=ClaimsBody,
        answer=Claimed,
        keyed=True,
        refusals=_GATE,
        confirms=True,
    )
    def post(self, call: Call[ClaimsBody], queue: str) -> Claimed | Refusal:
        require_own_queue(call.worker, queue)
        body = call.body
        return claim_tasks(
            queue=queue,
            worker=call.worker,
            scheduler_epoch=body.scheduler_epoch,
            owner=body.owner,
            ttl_seconds=body.ttl_seconds,
            limit=body.limit,
            kinds=body.kinds,
            request=call.request_key(owner=body.owner),
            together=CLAIMS,
        )


class TaskClaims(Endpoint):
    @operation(
        Operation.CLAIM_TASK,
        "Claim one task as you saw it",
        body=ClaimBody,
        answer=Claim,
        status=201,
        keyed=True,
        refusals=(*_GATE, Outcome.NOT_CLAIMABLE, Outcome.STATE_VERSION_MISMATCH, Outcome.NOT_FOUND),
        confirms=True,
    )
    def post(self, call: Call[ClaimBody], task_id: str) -> Claim | Refusal:
        body = call.body
        return claim_task(
            task_id=uuid_of(task_id, "task"),
            expected_state_version=body.expected_state_version,
            scheduler_epoch=body.scheduler_epoch,
            owner=body.owner,
            ttl_seconds=body.ttl_seconds,
            worker=call.worker,
            request=call.request_key(owner=body.owner),
        )


#: Characters of an address.
LONGEST_KINDS: Final = 8_000


class HintQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    wait_seconds: Annotated[
        int, Field(ge=0, le=MAX_WAIT_SECONDS, description="How long to wait at most")
    ] = 0
    kinds: Annotated[
        str | None,
        Field(
            min_length=1,
            max_length=LONGEST_KINDS,
            description="Kinds, separated by commas: only work of theirs. Leave it out for a kind with a comma",
        ),
    ] = None

    @property
    def wanted(self) -> list[str] | None:
        return None if self.kinds is None else self.kinds.split(",")


class QueueHint(Endpoint):
    @operation(
        Operation.WAIT_FOR_WORK,
        "Wait until work may be claimable; only ever a hint",
        answer=Hint,
        query=HintQuery,
    )
    def get(self, call: Call[None], queue: str) -> Hint | Refusal:
        require_own_queue(call.worker, queue)
        query = call.query
        return wait_for_work(queue=queue, wait_seconds=query.wait_seconds, kinds=query.wanted)
