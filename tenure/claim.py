"""A claim as its handler sees it.

A handler that only computes and returns needs nothing of this but `input` and `parents`: the fence, the lease and the
commit are the worker's business. One that runs long asks `check()` between its steps.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import IO, TYPE_CHECKING

from tenure.errors import TenureError
from tenure.records import AskedChanges, Effect, Fence, Grant, Json, Parent
from tenure.tracing import Trace
from tenure.usage import Meter

if TYPE_CHECKING:
    from tenure.attempts import AttemptCalls
    from tenure.effects import Downstream, Intent


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A result that lies in the attempt's own area already. Return it from the handler to have it committed."""

    result_digest: str
    #: False when the attempt was over by then: people can read it, and it can never become canonical.
    canonical_candidate: bool
    result: Json = None


@dataclass(frozen=True, kw_only=True)
class Blob:
    """Bytes in the attempt's own area. Return it from the handler to have it committed as the result."""

    name: str
    blob_digest: str


class Stage(Enum):
    """Where a claim is inside this worker. Each is left once, by whoever takes it on."""

    HANDLING = "its handler runs"
    SETTLING = "its end is being told to the coordinator"
    SETTLED = "nothing more is sent for it"


class Claim:
    """One grant of a task to this worker."""

    def __init__(
        self, grant: Grant, *, sent_at: float, calls: AttemptCalls, trace: Trace = None
    ) -> None:
        self._grant = grant
        self._calls = calls
        self._lock = threading.Lock()
        self._deadline = sent_at + grant.lease_seconds
        self._lost: TenureError | None = None
        self._stage = Stage.HANDLING
        self._memory: list[dict[str, Json]] = []
        self._stopping = False
        self.meter = Meter()
        #: Where the claim stands in a trace, then its handling.
        self.trace = trace

    def __repr__(self) -> str:
        return f"<Claim {self.node_id} attempt {self.attempt_number} of task {self.task_id}>"

    # -- what was granted ---------------------------------------------------------------------------------------

    @property
    def fence(self) -> Fence:
        """The counters that every call of this attempt carries."""
        return self._grant.fence

    @property
    def task_id(self) -> str:
        """The task that is held."""
        return self._grant.fence.task_id

    @property
    def attempt_id(self) -> str:
        """The grant of it that this is."""
        return self._grant.fence.attempt_id

    @property
    def run_id(self) -> str:
        """The run that the task belongs to."""
        return self._grant.run_id

    @property
    def node_id(self) -> str:
        """The task's place in the run."""
        return self._grant.node_id

    @property
    def kind(self) -> str:
        """What picked the handler."""
        return self._grant.kind

    @property
    def revision(self) -> int:
        """1, or more where the input was revised."""
        return self._grant.revision

    @property
    def attempt_number(self) -> int:
        """1 for the first grant of the task; more where an earlier worker failed or was taken over."""
        return self._grant.attempt_number

    @property
    def owner(self) -> str:
        """Under which name the task is held."""
        return self._grant.owner

    @property
    def input(self) -> Json:
        """The task's input; it never changes."""
        return self._grant.input

    @property
    def input_digest(self) -> str:
        """`sha256:…` over the canonical form of the input."""
        return self._grant.input_digest

    @property
    def parents(self) -> Mapping[str, Parent]:
        """The canonical results of the nodes that this one depends on."""
        return self._grant.parents

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The outside effects that the task declares, as earlier attempts left them."""
        return self._grant.effects

    @property
    def changes_asked(self) -> AskedChanges | None:
        """What a person wants changed about what an earlier revision was about to send; prepare it anew so."""
        return self._grant.changes_asked

    # -- time ---------------------------------------------------------------------------------------------------

    def remaining(self) -> float:
        """Seconds of lease that are certainly left, by the monotonic clock; negative once it has lapsed.

        A lapsed lease is not a lost one: until somebody else takes the task over, a renewal or the commit succeeds.
        """
        with self._lock:
            return self._deadline - time.monotonic()

    def check(self) -> None:
        """Raise Fenced, Cancelled, StaleInput or Released when it is known that this work is for nothing."""
        with self._lock:
            if self._lost is not None:
                raise self._lost

    @property
    def stopping(self) -> bool:
        """The worker was asked to stop: a long handler may finish early, or raise `Release`."""
        return self._stopping

    # -- on the way ---------------------------------------------------------------------------------------------

    def stage(self, result: Json) -> Staged:
        """Put a result aside before the end. It can be read and compared by people even if the attempt loses."""
        return self._calls.stage(self, result)

    def put_blob(self, name: str, stream: IO[bytes]) -> Blob:
        """Stream bytes of any size into the attempt's area, under a name that is written once."""
        return self._calls.put_blob(self, name, stream)

    def fetch_parent(self, node_id: str, into: IO[bytes]) -> None:
        """Write a parent's result into a file, where a blob holds it; its digest is checked."""
        self._calls.fetch_parent(self.parents[node_id], into)

    def effect(
        self, slot: str, downstream: Downstream, payload: Json, *, condition: Json = None
    ) -> Intent:
        """An outside effect of a slot that the plan declares; `perform()` has it happen once (contract 8)."""
        from tenure.effects import Intent

        return Intent(
            self,
            self._calls.effects(self.fence),
            slot=slot,
            downstream=downstream,
            payload=payload,
            condition=condition,
        )

    def memory(self, namespace: str, key: str, value: Json, *, expected_version: int) -> None:
        """Write a key of shared memory with the commit, all or nothing; 0 expects that it was never written.

        Should the version have moved by then, the task is tried again from its start (contract 11).
        """
        with self._lock:
            self._memory.append(
                {
                    "namespace": namespace,
                    "key": key,
                    "expected_version": expected_version,
                    "value": value,
                }
            )

    def spend(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        compute_seconds: float | None = None,
        cost_usd: Decimal | float | str = 0,
    ) -> None:
        """Add to what this attempt has used up; the total travels with renewals and the end."""
        self.meter.add(
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            compute_seconds=compute_seconds,
            cost_usd=cost_usd,
        )

    # -- for the worker -----------------------------------------------------------------------------------------

    @property
    def lost(self) -> TenureError | None:
        """Why the work is for nothing, as far as is known."""
        return self._lost

    @property
    def memory_writes(self) -> list[dict[str, Json]]:
        """What is to be written with the commit."""
        with self._lock:
            return list(self._memory)

    def extend(self, *, sent_at: float, lease_seconds: float) -> None:
        """A renewal was answered. An answer that overtook a newer one never shortens the lease."""
        with self._lock:
            self._deadline = max(self._deadline, sent_at + lease_seconds)

    def lose(self, why: TenureError) -> bool:
        """Note that the attempt is over; True the first time."""
        with self._lock:
            if self._lost is not None:
                return False
            self._lost = why
            return True

    def ask_to_stop(self) -> None:
        """Make `stopping` true."""
        self._stopping = True

    @property
    def settling(self) -> bool:
        """Its end is on its way."""
        return self._stage is Stage.SETTLING

    def enter(self, stage: Stage, *, leaving: Stage) -> bool:
        """Move on, only from the stage that the caller believes in: handler and stop may both reach for a claim."""
        with self._lock:
            if self._stage is not leaving:
                return False
            self._stage = stage
            return True
