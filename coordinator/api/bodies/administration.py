"""Queues, pools, downstreams and credentials (contract 12, 15)."""

from typing import Annotated, Any, Final

from pydantic import Field

from coordinator.access import Scope
from coordinator.services.credentials import MAX_NAME, MAX_QUEUES
from coordinator.services.downstreams import MAX_POINTER_CHARS, MAX_POINTERS
from coordinator.states import MIN_TTL_SECONDS, Guarantee, Intake, RolloutStage

from .fields import MAX_SECONDS, Body, Instant, Name, Reason, Word

Seconds = Annotated[int, Field(ge=0, le=MAX_SECONDS)]
Lease = Annotated[int, Field(ge=MIN_TTL_SECONDS, le=MAX_SECONDS)]
Attempts = Annotated[int, Field(ge=1, le=1_000)]
CallSeconds = Annotated[int, Field(ge=1, le=86_400)]
KeySeconds = Annotated[int, Field(ge=1, le=MAX_SECONDS)]
SettleSeconds = Annotated[int, Field(ge=0, le=86_400)]
Rounds = Annotated[int, Field(ge=1, le=1_000_000)]
Approvers = Annotated[int, Field(ge=1, le=2)]
#: Places in payloads whose values people are shown masked (RFC 6901, `*` for any one member).
Pointers = Annotated[
    list[Annotated[str, Field(min_length=1, max_length=MAX_POINTER_CHARS)]],
    Field(max_length=MAX_POINTERS),
]
MAX_PROBE_CHARS: Final = 500
Probe = Annotated[str, Field(min_length=1, max_length=MAX_PROBE_CHARS)]


def left_out() -> Any:
    """The value of a field that a PATCH doesn't have; null itself is refused where the column has none."""
    return None


class QueueBody(Body):
    name: Word
    active_pool: Word
    rollout_stage: Annotated[RolloutStage, Field(strict=False)] = RolloutStage.CONDITIONAL_WRITES
    default_ttl_seconds: Lease = 60
    max_ttl_seconds: Lease = 300
    max_lease_seconds: Lease = 86_400
    max_attempts: Attempts = 5
    retry_backoff_seconds: Seconds = 5
    retry_backoff_max_seconds: Seconds = 300
    shadow_settle_seconds: SettleSeconds = 300
    promotion_rounds: Rounds = 1_000


class PolicyBody(Body):
    """What is left out stays as it is. The epoch can't be set: an incident raises it."""

    active_pool: Word = Field(default_factory=left_out)
    default_ttl_seconds: Lease = Field(default_factory=left_out)
    max_ttl_seconds: Lease = Field(default_factory=left_out)
    max_lease_seconds: Lease = Field(default_factory=left_out)
    max_attempts: Attempts = Field(default_factory=left_out)
    retry_backoff_seconds: Seconds = Field(default_factory=left_out)
    retry_backoff_max_seconds: Seconds = Field(default_factory=left_out)
    shadow_settle_seconds: SettleSeconds = Field(default_factory=left_out)
    promotion_rounds: Rounds = Field(default_factory=left_out)


class IntakeBody(Body):
    intake: Annotated[Intake, Field(strict=False)]
    reason: Reason


class PoolBody(Body):
    name: Word
    min_contract: Annotated[str, Field(pattern=r"^claim\.v[1-9][0-9]{0,3}$")] = "claim.v1"


class DownstreamBody(Body):
    name: Word
    kind: Name
    guarantee: Annotated[Guarantee, Field(strict=False)]
    call_timeout_seconds: CallSeconds = 30
    key_valid_seconds: KeySeconds | None = None
    settle_seconds: Seconds = 60
    refuses_late: bool = False
    serial_scope: Name | None = None
    probe: Probe | None = None
    required_approvers: Approvers = 1
    secret_pointers: Pointers = Field(default_factory=list)


class DownstreamChangeBody(Body):
    """What is left out stays as it is; null clears what may be empty; the name never changes."""

    kind: Name = Field(default_factory=left_out)
    guarantee: Annotated[Guarantee, Field(strict=False)] = Field(default_factory=left_out)
    call_timeout_seconds: CallSeconds = Field(default_factory=left_out)
    key_valid_seconds: KeySeconds | None = None
    settle_seconds: Seconds = Field(default_factory=left_out)
    refuses_late: bool = Field(default_factory=left_out)
    serial_scope: Name | None = None
    probe: Probe | None = None
    required_approvers: Approvers = Field(default_factory=left_out)
    secret_pointers: Pointers = Field(default_factory=left_out)


class CredentialBody(Body):
    name: Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
    pool: Word
    queues: Annotated[list[Word], Field(min_length=1, max_length=MAX_QUEUES)]
    scopes: Annotated[
        list[Annotated[Scope, Field(strict=False)]], Field(min_length=1, max_length=4)
    ]
    expires_at: Instant | None = None
