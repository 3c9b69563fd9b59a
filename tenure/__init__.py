"""Tenure's SDK: workers that may be slow, frozen, duplicated or late without ever doing harm, and a client.

A worker of your own::

    worker = Worker(url, token, "reviews")

    @worker.handler("greet")
    def greet(claim: Claim) -> Json:
        return {"greeting": f"Hello, {claim.input['name']}"}

    worker.run()

It speaks `claim.v1` over HTTP and knows nothing of the coordinator's insides.
"""

from tenure.claim import Blob, Claim, Staged
from tenure.client import Client
from tenure.effect_errors import (
    AbsenceNotSealed,
    AlreadyRedeemed,
    AlreadySettled,
    ApprovalRequired,
    EffectRefused,
    Parked,
    PayloadConflict,
    SerialBusy,
    StageForbids,
    StaleEvidence,
    Unsettled,
)
from tenure.effect_steering import Approval, Decided, Decision, EffectDetail, Settled
from tenure.effects import Downstream, Intent
from tenure.errors import (
    AlreadyCommitted,
    Cancelled,
    ClaimLost,
    Fatal,
    Fenced,
    FenceMissing,
    Forbidden,
    IdempotencyConflict,
    InputError,
    IntakeStopped,
    InvalidInput,
    LeaseLimit,
    MemoryConflict,
    NotClaimable,
    NotEncodable,
    NotFound,
    Problem,
    ReconcileFirst,
    Release,
    Released,
    Retry,
    ServerFault,
    StaleInput,
    StateVersionMismatch,
    TenureError,
    Throttled,
    TooLarge,
    TryLater,
    Unauthorized,
    UnexpectedAnswer,
    Unreachable,
    WrongPool,
)
from tenure.records import (
    Attempt,
    Cancellation,
    Candidate,
    Effect,
    Explanation,
    Fact,
    Fence,
    Json,
    Parent,
    Queue,
    Reason,
    Reopened,
    Revised,
    Run,
    SubmittedRun,
    SubmittedTask,
    Task,
    Usage,
)
from tenure.retrying import RetryPolicy
from tenure.tally import Happening, Report
from tenure.transport import CONTRACT, Retried
from tenure.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "CONTRACT",
    "AbsenceNotSealed",
    "AlreadyCommitted",
    "AlreadyRedeemed",
    "AlreadySettled",
    "Approval",
    "ApprovalRequired",
    "Attempt",
    "Blob",
    "Cancellation",
    "Cancelled",
    "Candidate",
    "Claim",
    "ClaimLost",
    "Client",
    "Decided",
    "Decision",
    "Downstream",
    "Effect",
    "EffectDetail",
    "EffectRefused",
    "Explanation",
    "Fact",
    "Fatal",
    "Fence",
    "FenceMissing",
    "Fenced",
    "Forbidden",
    "Happening",
    "IdempotencyConflict",
    "InputError",
    "IntakeStopped",
    "Intent",
    "InvalidInput",
    "Json",
    "LeaseLimit",
    "MemoryConflict",
    "NotClaimable",
    "NotEncodable",
    "NotFound",
    "Parent",
    "Parked",
    "PayloadConflict",
    "Problem",
    "Queue",
    "Reason",
    "ReconcileFirst",
    "Release",
    "Released",
    "Reopened",
    "Report",
    "Retried",
    "Retry",
    "RetryPolicy",
    "Revised",
    "Run",
    "SerialBusy",
    "ServerFault",
    "Settled",
    "StageForbids",
    "Staged",
    "StaleEvidence",
    "StaleInput",
    "StateVersionMismatch",
    "SubmittedRun",
    "SubmittedTask",
    "Task",
    "TenureError",
    "Throttled",
    "TooLarge",
    "TryLater",
    "Unauthorized",
    "UnexpectedAnswer",
    "Unreachable",
    "Unsettled",
    "Usage",
    "Worker",
    "WrongPool",
    "__version__",
]
