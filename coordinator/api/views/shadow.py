"""Shadow and rollout: legacy events in, verdicts out, and the stages of a queue (contract 13)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from coordinator.access import Operation
from coordinator.api.bodies.fields import Word
from coordinator.api.bodies.shadow import (
    DemoteBody,
    ExplainBody,
    Key,
    ShadowEventsBody,
)
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.promotion import Promotion, read_promotion
from coordinator.selectors.shadow import (
    MAX_WINDOW_HOURS,
    WINDOW_HOURS,
    ShadowSummary,
    read_shadow,
)
from coordinator.selectors.shadow_rounds import (
    RoundDetail,
    RoundFilters,
    RoundRecord,
    find_round,
    list_rounds,
    live_classes,
    round_record,
)
from coordinator.services.shadow_events import ShadowReceived, take_events
from coordinator.services.shadow_explanations import Explained, explain_round
from coordinator.services.stages import StageSet, demote
from coordinator.shadow.words import RoundVerdict, Winner

_STAGED = (Outcome.NOT_FOUND, Outcome.STATE_VERSION_MISMATCH)


class ShadowEvents(Endpoint):
    @operation(
        Operation.TAKE_SHADOW_EVENTS,
        "Tell what a legacy scheduler did; an event that is known changes nothing",
        body=ShadowEventsBody,
        answer=ShadowReceived,
        refusals=(Outcome.NOT_FOUND,),
    )
    def post(self, call: Call[ShadowEventsBody]) -> ShadowReceived | Refusal:
        body = call.body
        return take_events(
            queue=body.queue,
            events=[event.told() for event in body.events],
            worker=call.worker,
            lost=body.lost,
        )


class RoundQuery(PageQuery):
    queue: Word | None = None
    verdict: RoundVerdict | None = None
    mismatch: bool | None = None
    explained: bool | None = None
    legacy_end: Winner | None = None
    claim_end: Winner | None = None
    task_key: Key | None = None
    source: Word | None = None


class ShadowRounds(Endpoint):
    @operation(
        Operation.LIST_SHADOW_ROUNDS,
        "List the rounds that the shadow judge knows, newest first",
        answer=Page[RoundRecord],
        query=RoundQuery,
    )
    def get(self, call: Call[None]) -> Page[RoundRecord]:
        query: RoundQuery = call.query
        filters = RoundFilters(**query.model_dump(exclude={"cursor", "limit"}))
        classes = set(live_classes())
        return page_of(
            call.request,
            query,
            list_rounds(filters),
            lambda found: round_record(found, classes=classes),
            key="round_id",
        )


class OneShadowRound(Endpoint):
    @operation(
        Operation.READ_SHADOW_ROUND,
        "One round with its verdict, both sides and the events behind it",
        answer=RoundDetail,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], round_id: str) -> RoundDetail | Refusal:
        return find_round(uuid_of(round_id, "shadow round")) or not_found("shadow round")


class ShadowRoundExplain(Endpoint):
    @operation(
        Operation.EXPLAIN_SHADOW_ROUND,
        "Explain a mismatch, or its whole class until an expiry",
        body=ExplainBody,
        answer=Explained,
        refusals=(Outcome.NOT_FOUND, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[ExplainBody], round_id: str) -> Explained | Refusal:
        body = call.body
        return explain_round(
            round_id=uuid_of(round_id, "shadow round"),
            reason=body.reason,
            verdict=body.verdict,
            triage=body.triage,
            owner=body.owner,
            link=body.link,
            expires_at=body.expires_at,
            actor=call.caller,
        )


class WindowQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    window_hours: Annotated[int, Field(ge=1, le=MAX_WINDOW_HOURS)] = WINDOW_HOURS


class QueueShadow(Endpoint):
    @operation(
        Operation.READ_SHADOW,
        "How often the legacy scheduler and claim.v1 agree, and where they part",
        answer=ShadowSummary,
        query=WindowQuery,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], queue: str) -> ShadowSummary | Refusal:
        found = read_shadow(queue=queue, window_hours=call.query.window_hours)
        return found or not_found("queue")


class QueuePromotion(Endpoint):
    @operation(
        Operation.READ_PROMOTION,
        "The gate of the queue's next stage: each criterion as it is measured now",
        answer=Promotion,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], queue: str) -> Promotion | Refusal:
        return read_promotion(queue=queue) or not_found("queue")


class QueueDemote(Endpoint):
    @operation(
        Operation.DEMOTE_QUEUE,
        "Move a queue back to an earlier stage, and bump its epoch: always possible",
        body=DemoteBody,
        answer=StageSet,
        refusals=_STAGED,
    )
    def post(self, call: Call[DemoteBody], queue: str) -> StageSet | Refusal:
        body = call.body
        return demote(
            queue=queue,
            to_stage=body.to_stage,
            expected_stage=body.expected_stage,
            reason=body.reason,
            actor=call.caller,
        )
