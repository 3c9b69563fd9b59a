"""Field types that several bodies share, with their limits."""

from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, StringConstraints

from coordinator.fence import Fence
from coordinator.services.usage import Usage
from coordinator.states import MIN_TTL_SECONDS

LARGEST_INTEGER: Final = 2**53 - 1
MAX_SECONDS: Final = 2_147_483_647
MAX_REASON_CHARS: Final = 2_000
MAX_COST_USD: Final = 10_000_000.0
EARLIEST: Final = datetime(2000, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(2200, 1, 1, tzinfo=UTC)

#: What stands in URLs and metrics: queues, pools, downstreams.
Word = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
#: A queue in a filter: its rehearsal lane may be asked for, too (contract 13).
LaneWord = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}(~shadow)?$")]
#: What people choose freely: nodes, kinds, owners, slots, keys.
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Reason = Annotated[str, StringConstraints(min_length=1, max_length=MAX_REASON_CHARS)]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]
Counter = Annotated[int, Field(ge=0, le=LARGEST_INTEGER)]
StateVersion = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
#: Capped to the queue's max_ttl_seconds by the server.
TtlSeconds = Annotated[int, Field(ge=MIN_TTL_SECONDS, le=MAX_SECONDS)]
Instant = Annotated[AwareDatetime, Field(ge=EARLIEST, le=LATEST)]


class Body(BaseModel):
    """Strict, and closed: a typo must not pass silently (contract 5)."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class FenceBody(Body):
    """The counters of a claim, sent back unchanged (contract 3)."""

    task_id: UUID
    attempt_id: UUID
    scheduler_epoch: Counter
    claim_generation: Counter
    cancel_generation: Counter

    def fence(self) -> Fence:
        return Fence(
            self.task_id,
            self.attempt_id,
            self.scheduler_epoch,
            self.claim_generation,
            self.cancel_generation,
        )


class UsageBody(Body):
    """What the attempt has used so far: cumulative, so that a repeat adds nothing."""

    input_tokens: Counter = 0
    output_tokens: Counter = 0
    compute_seconds: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
    cost_usd: Annotated[float, Field(ge=0, le=MAX_COST_USD, allow_inf_nan=False)] = 0.0


def usage_of(body: UsageBody | None) -> Usage | None:
    if body is None:
        return None
    return Usage(body.input_tokens, body.output_tokens, body.compute_seconds, body.cost_usd)


#: Any JSON value; what it may not hold is refused before, for the body as a whole.
Json = Any
