"""Promotions: asked for by one person, confirmed by another (contract 13)."""

from coordinator.access import Operation
from coordinator.api.bodies.fields import Word
from coordinator.api.bodies.shadow import (
    ConfirmPromotionBody,
    PromoteBody,
    WithdrawPromotionBody,
)
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.promotion_requests import (
    PromotionRequestRecord,
    RequestFilters,
    find_request,
    list_requests,
    request_record,
)
from coordinator.services.promotion_confirmations import Promoted, confirm_promotion
from coordinator.services.promotions import (
    PromotionAsked,
    Withdrawn,
    ask_promotion,
    withdraw_promotion,
)
from coordinator.states import PromotionState


class QueuePromote(Endpoint):
    @operation(
        Operation.PROMOTE_QUEUE,
        "Ask to move a queue to its next stage, where the gate is open; another person confirms it",
        body=PromoteBody,
        answer=PromotionAsked,
        refusals=(Outcome.NOT_FOUND, Outcome.STATE_VERSION_MISMATCH, Outcome.GATE_CLOSED),
    )
    def post(self, call: Call[PromoteBody], queue: str) -> PromotionAsked | Refusal:
        return ask_promotion(
            queue=queue,
            expected_stage=call.body.expected_stage,
            confirm=call.body.confirm,
            reason=call.body.reason,
            actor=call.caller,
        )


class RequestQuery(PageQuery):
    queue: Word | None = None
    state: PromotionState | None = None


class PromotionRequests(Endpoint):
    @operation(
        Operation.LIST_PROMOTION_REQUESTS,
        "List the requests to promote queues, newest first",
        answer=Page[PromotionRequestRecord],
        query=RequestQuery,
    )
    def get(self, call: Call[None]) -> Page[PromotionRequestRecord]:
        query: RequestQuery = call.query
        found = list_requests(RequestFilters(query.queue, query.state))
        return page_of(call.request, query, found, request_record, key="request_id")


class OnePromotionRequest(Endpoint):
    @operation(
        Operation.READ_PROMOTION_REQUEST,
        "One request with the figures that it is based on",
        answer=PromotionRequestRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], request_id: str) -> PromotionRequestRecord | Refusal:
        found = find_request(uuid_of(request_id, "promotion request"))
        return found or not_found("promotion request")


class PromotionConfirm(Endpoint):
    @operation(
        Operation.CONFIRM_PROMOTION,
        "Confirm what another person has asked for: the queue moves, if the gate is open now",
        body=ConfirmPromotionBody,
        answer=Promoted,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.FORBIDDEN,
            Outcome.PAYLOAD_CONFLICT,
            Outcome.ALREADY_SETTLED,
            Outcome.STATE_VERSION_MISMATCH,
            Outcome.GATE_CLOSED,
        ),
    )
    def post(self, call: Call[ConfirmPromotionBody], request_id: str) -> Promoted | Refusal:
        return confirm_promotion(
            request_id=uuid_of(request_id, "promotion request"),
            evidence_digest=call.body.evidence_digest,
            confirm=call.body.confirm,
            reason=call.body.reason,
            alone=call.body.alone,
            actor=call.caller,
        )


class PromotionWithdraw(Endpoint):
    @operation(
        Operation.WITHDRAW_PROMOTION,
        "Call a request for a promotion off",
        body=WithdrawPromotionBody,
        answer=Withdrawn,
        refusals=(Outcome.NOT_FOUND, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[WithdrawPromotionBody], request_id: str) -> Withdrawn | Refusal:
        return withdraw_promotion(
            request_id=uuid_of(request_id, "promotion request"),
            reason=call.body.reason,
            actor=call.caller,
        )
