"""Approvals: read the exact payload, approve or reject it (contract 9)."""

from typing import Any
from uuid import UUID

from coordinator.access import Operation, sees_payloads
from coordinator.api.bodies.effects import ApproveBody, AskForChangesBody, PassBody, RejectBody
from coordinator.api.bodies.fields import LaneWord, Name, Word
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.masking import for_caller, places_for
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.approvals import (
    ApprovalFilters,
    ApprovalRecord,
    approval_record,
    find_approval,
    list_approvals,
)
from coordinator.selectors.downstreams import secret_pointers
from coordinator.services.approval_changes import ChangesAsked, ask_for_changes
from coordinator.services.approval_passes import Passed, pass_approval
from coordinator.services.approvals import Decided, approve, reject
from coordinator.states import ApprovalState

_REFUSALS = (
    Outcome.NOT_FOUND,
    Outcome.FORBIDDEN,
    Outcome.PAYLOAD_CONFLICT,
    Outcome.ALREADY_SETTLED,
    Outcome.STATE_VERSION_MISMATCH,
)


class ApprovalQuery(PageQuery):
    state: ApprovalState | None = None
    assigned_to: Name | None = None
    queue: LaneWord | None = None
    downstream: Word | None = None
    task_id: UUID | None = None


class Approvals(Endpoint):
    @operation(
        Operation.LIST_APPROVALS,
        "List approvals, newest first",
        answer=Page[ApprovalRecord],
        query=ApprovalQuery,
    )
    def get(self, call: Call[None]) -> Page[ApprovalRecord]:
        query: ApprovalQuery = call.query
        filters = ApprovalFilters(**query.model_dump(exclude={"cursor", "limit"}))
        shows, places = sees_payloads(call.caller), places_for(call.caller)

        def told(approval: Any) -> ApprovalRecord:
            record = approval_record(approval, with_payload=shows)
            return for_caller(call.caller, record, places.get(record.downstream, ()))

        return page_of(call.request, query, list_approvals(filters), told, key="approval_id")


class OneApproval(Endpoint):
    @operation(
        Operation.READ_APPROVAL,
        "One approval with its payload and decisions",
        answer=ApprovalRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], approval_id: str) -> ApprovalRecord | Refusal:
        approval = find_approval(uuid_of(approval_id, "approval"))
        if approval is None:
            return not_found("approval")
        record = approval_record(approval, with_payload=sees_payloads(call.caller))
        return for_caller(call.caller, record, secret_pointers(record.downstream))


class ApprovalApprove(Endpoint):
    @operation(
        Operation.APPROVE,
        "Approve the exact payload with this digest; a repeat gets the same receipt",
        body=ApproveBody,
        answer=Decided,
        refusals=_REFUSALS,
    )
    def post(self, call: Call[ApproveBody], approval_id: str) -> Decided | Refusal:
        return approve(
            approval_id=uuid_of(approval_id, "approval"),
            payload_digest=call.body.payload_digest,
            comment=call.body.comment,
            expected_version=call.body.expected_version,
            actor=call.caller,
        )


class ApprovalReject(Endpoint):
    @operation(
        Operation.REJECT,
        "Reject it: the task fails with the reason",
        body=RejectBody,
        answer=Decided,
        refusals=_REFUSALS,
    )
    def post(self, call: Call[RejectBody], approval_id: str) -> Decided | Refusal:
        return reject(
            approval_id=uuid_of(approval_id, "approval"),
            payload_digest=call.body.payload_digest,
            reason=call.body.reason,
            code=call.body.reason_code,
            expected_version=call.body.expected_version,
            actor=call.caller,
        )


class ApprovalChanges(Endpoint):
    @operation(
        Operation.ASK_FOR_CHANGES,
        "Ask for changes: the task is revised with the same input, and its next claim carries the words",
        body=AskForChangesBody,
        answer=ChangesAsked,
        refusals=(*_REFUSALS, Outcome.RECONCILE_FIRST, Outcome.ALREADY_COMMITTED),
    )
    def post(self, call: Call[AskForChangesBody], approval_id: str) -> ChangesAsked | Refusal:
        return ask_for_changes(
            approval_id=uuid_of(approval_id, "approval"),
            payload_digest=call.body.payload_digest,
            reason=call.body.reason,
            expected_version=call.body.expected_version,
            actor=call.caller,
        )


class ApprovalPass(Endpoint):
    @operation(
        Operation.PASS_APPROVAL,
        "Pass it to another person who may decide; everybody else who may still can",
        body=PassBody,
        answer=Passed,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.FORBIDDEN,
            Outcome.ALREADY_SETTLED,
            Outcome.STATE_VERSION_MISMATCH,
        ),
    )
    def post(self, call: Call[PassBody], approval_id: str) -> Passed | Refusal:
        return pass_approval(
            approval_id=uuid_of(approval_id, "approval"),
            to=call.body.to,
            reason=call.body.reason,
            expected_assignee=call.body.expected_assignee,
            actor=call.caller,
        )
