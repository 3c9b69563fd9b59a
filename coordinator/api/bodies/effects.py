"""Effects and approvals (contract 8, 9)."""

from typing import Annotated, Final, Literal
from uuid import UUID

from pydantic import Field, StringConstraints

from coordinator.services.reconciliation import Finding, Method, Verdict
from coordinator.services.reports import Report
from coordinator.states import DispatchOutcome, RejectionCode

from .fields import LARGEST_INTEGER, Body, Counter, Digest, FenceBody, Json, Name, Reason, Word

MAX_COMMENT_CHARS: Final = 2_000
EffectId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Etag = Annotated[str, StringConstraints(min_length=1, max_length=500)]
#: What a gate names its redemption by, so that a lost answer can be asked for again.
RedeemId = Annotated[str, StringConstraints(min_length=1, max_length=200)]
FencingToken = Annotated[str, StringConstraints(min_length=1, max_length=200)]
#: Of a row that is known by a number; no table has a greater one.
RowId = Annotated[int, Field(ge=1, le=LARGEST_INTEGER)]
Comment = Annotated[str, StringConstraints(max_length=MAX_COMMENT_CHARS)]


class PrepareBody(Body):
    fence: FenceBody
    slot: Name
    downstream: Word
    payload: Json
    condition: Json = None


class AcceptBody(Body):
    fence: FenceBody
    payload_digest: Digest


class ReportBody(Body):
    """By the attempt that made the dispatch (`fence`), or by the gate that redeemed it (`redeem_id`)."""

    fence: FenceBody | None = None
    redeem_id: RedeemId | None = None
    dispatch_id: UUID
    outcome: Annotated[DispatchOutcome, Field(strict=False)]
    receipt: Json = None
    etag: Etag | None = None
    detail: Json = None

    def report(self) -> Report:
        return Report(self.dispatch_id, self.outcome, self.receipt, self.etag, self.detail)


class LookUpBody(Body):
    fence: FenceBody | None = None


class EvidenceBody(Body):
    method: Annotated[Method, Field(strict=False)]
    detail: Json = None


class ReconcileBody(Body):
    finding: Annotated[Finding, Field(strict=False)]
    dispatches: Counter
    lookup_id: UUID | None = None
    evidence: EvidenceBody
    receipt: Json = None
    fence: FenceBody | None = None

    def verdict(self) -> Verdict:
        return Verdict(
            finding=self.finding,
            dispatches=self.dispatches,
            method=self.evidence.method,
            detail=self.evidence.detail,
            lookup_id=self.lookup_id,
            receipt=self.receipt,
        )


class RedeemBody(Body):
    dispatch_id: UUID
    redeem_id: RedeemId
    fencing_token: FencingToken
    payload_digest: Digest


class RevealEffectBody(Body):
    """Evidence is named by its id."""

    part: Literal["payload", "condition", "receipt", "evidence"] = "payload"
    reason: Reason
    evidence_id: RowId | None = None


class RevealTaskBody(Body):
    """A candidate is named by its attempt and the digest of its result, an error by its attempt."""

    part: Literal["input", "result", "candidate", "error"] = "input"
    reason: Reason
    attempt_id: UUID | None = None
    result_digest: Digest | None = None


class RevealBody(Body):
    reason: Reason


class RevealMemoryBody(Body):
    """Without a `version`, the newest."""

    namespace: Name
    key: Name
    version: Counter | None = None
    reason: Reason


class LookBody(Body):
    """Nothing is said with it: who asks, and about what, is known."""


class ApproveBody(Body):
    """`expected_version`: how many decisions were seen; another count by now is refused."""

    payload_digest: Digest
    comment: Comment = ""
    expected_version: Counter | None = None


class RejectBody(Body):
    payload_digest: Digest
    reason: Reason
    reason_code: Annotated[RejectionCode, Field(strict=False)] = RejectionCode.OTHER
    expected_version: Counter | None = None


class AskForChangesBody(Body):
    """`reason` is what the agent reads: what it is to do otherwise."""

    payload_digest: Digest
    reason: Reason
    expected_version: Counter | None = None


class PassBody(Body):
    """`to` names a person; `expected_assignee` is whose turn it was as you saw it (empty: nobody's)."""

    to: Name
    reason: Reason
    expected_assignee: Annotated[str, Field(max_length=200)] | None = None
