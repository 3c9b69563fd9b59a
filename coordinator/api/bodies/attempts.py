"""Claims and what an attempt may send (contract 7)."""

from typing import Annotated, Final
from uuid import UUID

from pydantic import Field

from coordinator import digests
from coordinator.services.commits import CommitItem
from coordinator.services.leases import Renewal
from coordinator.services.memory import MemoryWrite
from coordinator.services.results import NO_RESULT

from .fields import (
    Body,
    Counter,
    Digest,
    FenceBody,
    Json,
    Name,
    StateVersion,
    TtlSeconds,
    UsageBody,
    usage_of,
)

MAX_ITEMS: Final = 100
MAX_KINDS: Final = 100
MAX_MEMORY_WRITES: Final = 100
MAX_ERROR_CHARS: Final = 20_000
MAX_RETRY_AFTER_SECONDS: Final = 30 * 86_400.0


class ClaimsBody(Body):
    scheduler_epoch: Counter
    owner: Name
    ttl_seconds: TtlSeconds | None = None
    limit: Annotated[int, Field(ge=1, le=MAX_ITEMS)] = 1
    kinds: Annotated[list[Name], Field(min_length=1, max_length=MAX_KINDS)] | None = None


class ClaimBody(Body):
    expected_state_version: StateVersion
    scheduler_epoch: Counter
    owner: Name
    ttl_seconds: TtlSeconds | None = None


class RenewBody(Body):
    fence: FenceBody
    owner: Name
    ttl_seconds: TtlSeconds | None = None
    usage: UsageBody | None = None

    def renewal(self, attempt_id: UUID) -> Renewal:
        return Renewal(
            attempt_id, self.fence.fence(), self.owner, self.ttl_seconds, usage_of(self.usage)
        )


class StageBody(Body):
    fence: FenceBody
    result: Json


class MemoryWriteBody(Body):
    namespace: Name
    key: Name
    expected_version: Counter
    value: Json

    def write(self) -> MemoryWrite:
        text = digests.canonical(self.value)
        return MemoryWrite(
            self.namespace, self.key, self.expected_version, text.decode(), digests.sha256(text)
        )


class CommitBody(Body):
    """`result` is the value itself, `{"blob": name}`, or left out where it was staged before."""

    fence: FenceBody
    input_digest: Digest
    result_digest: Digest | None = None
    result: Json = NO_RESULT
    memory: Annotated[list[MemoryWriteBody], Field(max_length=MAX_MEMORY_WRITES)] = []
    usage: UsageBody | None = None

    def item(self, attempt_id: UUID) -> CommitItem:
        return CommitItem(
            attempt_id,
            self.fence.fence(),
            self.input_digest,
            self.result_digest,
            self.result,
            tuple(write.write() for write in self.memory) if self.memory else (),
            usage_of(self.usage),
        )


class ErrorBody(Body):
    type: Name
    message: Annotated[str, Field(max_length=MAX_ERROR_CHARS)]
    detail: Json = None


class FailBody(Body):
    fence: FenceBody
    error: ErrorBody
    retryable: bool
    retry_after_seconds: Annotated[float, Field(ge=0, le=MAX_RETRY_AFTER_SECONDS)] | None = None
    usage: UsageBody | None = None


class ReleaseBody(Body):
    fence: FenceBody
    usage: UsageBody | None = None


class RenewalsBody(Body):
    renewals: Annotated[list[RenewBody], Field(min_length=1, max_length=MAX_ITEMS)]


class CommitsBody(Body):
    commits: Annotated[list[CommitBody], Field(min_length=1, max_length=MAX_ITEMS)]
