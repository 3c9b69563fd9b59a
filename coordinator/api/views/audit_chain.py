"""The audit's chain: its newest seal, whether a range still fits, and its lines to be kept elsewhere (adr/0021)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from coordinator.access import Operation, has_permission
from coordinator.api.bodies.assurance import RevealLinesBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid
from coordinator.selectors.audit_chain import (
    MAX_NUMBER,
    ChainHead,
    Verification,
    read_head,
    verify_chain,
)
from coordinator.selectors.audit_lines import MAX_LINES, AuditLinesPage, read_lines
from coordinator.services.line_reveals import reveal_lines

Number = Annotated[int, Field(ge=1, le=MAX_NUMBER)]
Digest = Annotated[str, StringConstraints(pattern=r"^sha256:[0-9a-f]{64}$")]


class AuditSeal(Endpoint):
    @operation(
        Operation.READ_AUDIT_SEAL,
        "The newest seal of the audit: keep its number and digest elsewhere",
        answer=ChainHead,
    )
    def get(self, _: Call[None]) -> ChainHead:
        return read_head()


class VerificationQuery(BaseModel):
    """`first` to `last`, the newest where left out; `anchor`: the digest before `first` that was kept elsewhere."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Number = 1
    last: Number | None = None
    anchor: Digest | None = None


class AuditVerification(Endpoint):
    @operation(
        Operation.VERIFY_AUDIT_CHAIN,
        "Whether a range of the audit still fits its chain; names the first row that doesn't",
        answer=Verification,
        query=VerificationQuery,
        refusals=(Outcome.INVALID,),
    )
    def get(self, call: Call[None]) -> Verification | Refusal:
        query: VerificationQuery = call.query
        if query.last is not None and query.last < query.first:
            return invalid(FieldError("/last", f"At least {query.first}: it is where to end."))
        return verify_chain(first=query.first, last=query.last, anchor=query.anchor)


class LinesQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    first: Number = 1
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = 200


class AuditLines(Endpoint):
    @operation(
        Operation.EXPORT_AUDIT_CHAIN,
        "The chain's events in its order, each with what verifies it; secrets are masked",
        answer=AuditLinesPage,
        query=LinesQuery,
    )
    def get(self, call: Call[None]) -> AuditLinesPage:
        query: LinesQuery = call.query
        return read_lines(first=query.first, limit=query.limit)


class AuditLinesReveal(Endpoint):
    @operation(
        Operation.REVEAL_AUDIT_CHAIN,
        "The same lines with what is masked in them, for a reason; who looked is on record",
        body=RevealLinesBody,
        answer=AuditLinesPage,
        refusals=(Outcome.FORBIDDEN,),
    )
    def post(self, call: Call[RevealLinesBody]) -> AuditLinesPage | Refusal:
        if not has_permission(call.caller, "reveal_secrets"):
            return Refusal(Outcome.FORBIDDEN, "It takes the permission to reveal secrets, too.")
        body = call.body
        return reveal_lines(
            first=body.first, limit=body.limit, reason=body.reason, actor=call.caller
        )
