"""Facts: one file per aggregate. Only services write them (contract 16)."""

from .access import Access, BreakGlass, Credential, OperatorToken
from .attempt import RENEWALS_REMEMBERED, Attempt
from .event import Event, StoredAnswer
from .queue import MIN_TTL_SECONDS, Downstream, Pool, Queue
from .result import Blob, CanonicalCommit, MemoryFact, MemoryKey, StagedResult
from .run import Dependency, Run
from .task import SerialScope, Task

__all__ = [
    "MIN_TTL_SECONDS",
    "RENEWALS_REMEMBERED",
    "Access",
    "Attempt",
    "Blob",
    "BreakGlass",
    "CanonicalCommit",
    "Credential",
    "Dependency",
    "Downstream",
    "Event",
    "MemoryFact",
    "MemoryKey",
    "OperatorToken",
    "Pool",
    "Queue",
    "Run",
    "SerialScope",
    "StagedResult",
    "StoredAnswer",
    "Task",
]
