"""What legacy feeds send, and what people decide about a rollout (contract 13)."""

from typing import Annotated

from pydantic import AliasChoices, Field

from coordinator.services.shadow_events import MAX_EVENTS, Told
from coordinator.services.shadow_explanations import MAX_LINK_CHARS
from coordinator.shadow.words import LegacyEvent, LegacyKind, RoundVerdict, Triage
from coordinator.states import RolloutStage

from .fields import MAX_REASON_CHARS, Body, Counter, Digest, Instant, Name, Reason, Word

#: A feed's ids, and the legacy scheduler's names of its tasks and owners.
Key = Annotated[str, Field(min_length=1, max_length=500)]
LeaseSeconds = Annotated[float, Field(gt=0, le=31_536_000, allow_inf_nan=False, strict=False)]
Stage = Annotated[RolloutStage, Field(strict=False)]


class ShadowEventBody(Body):
    source: Word
    event_id: Name
    task_key: Key
    event: Annotated[LegacyKind, Field(strict=False)]
    owner: Annotated[str, Field(max_length=200)]
    at: Instant
    lease_seconds: LeaseSeconds | None = None
    result_digest: Digest | None = None
    input_digest: Digest | None = None

    def told(self) -> Told:
        event = LegacyEvent(
            self.event_id,
            str(self.event),
            self.owner,
            self.at,
            self.lease_seconds,
            self.result_digest,
            self.input_digest,
        )
        return Told(self.source, self.task_key, event)


class ShadowEventsBody(Body):
    """`lost`: how many events the feed had to drop since its last batch."""

    queue: Word
    events: Annotated[list[ShadowEventBody], Field(min_length=1, max_length=MAX_EVENTS)]
    lost: Counter = 0


class ExplainBody(Body):
    """With `class`, which must be the round's, the whole class of its queue is explained, until `expires_at`."""

    reason: Reason
    verdict: Annotated[RoundVerdict, Field(strict=False)] | None = Field(
        default=None, validation_alias=AliasChoices("class"), serialization_alias="class"
    )
    triage: Annotated[Triage, Field(strict=False)] = Triage.EXPECTED
    owner: Annotated[str, Field(max_length=200)] = ""
    link: Annotated[str, Field(max_length=MAX_LINK_CHARS)] = ""
    expires_at: Instant | None = None


class PromoteBody(Body):
    expected_stage: Stage
    confirm: Word
    reason: Reason


class ConfirmPromotionBody(Body):
    """`evidence_digest` is the request's, as you saw it. Who asked themselves says that they are `alone`, and why."""

    evidence_digest: Digest
    confirm: Word
    reason: Annotated[str, Field(max_length=MAX_REASON_CHARS)] = ""
    alone: bool = False


class WithdrawPromotionBody(Body):
    reason: Reason


class DemoteBody(Body):
    to_stage: Stage
    expected_stage: Stage
    reason: Reason
