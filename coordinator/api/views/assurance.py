"""What shows that the guard holds: coverage, fence drills and audits of the history (contract 14)."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from coordinator.access import Operation
from coordinator.api.bodies.assurance import AuditBody, DrillBody
from coordinator.api.bodies.fields import Word
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.selectors.audits import (
    AuditRecord,
    AuditReport,
    audit_record,
    find_audit,
    list_audits,
)
from coordinator.selectors.coverage import MAX_HOURS, Coverage, read_coverage
from coordinator.selectors.drills import DrillRecord, drill_record, list_drills
from coordinator.services.audits import start_audit
from coordinator.services.drills import run_drill


class CoverageQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    hours: Annotated[int, Field(ge=1, le=MAX_HOURS)] = 1


class CoverageNow(Endpoint):
    @operation(
        Operation.READ_COVERAGE,
        "Per acceptance point, the writes that passed the guard beside those that the database counted",
        answer=Coverage,
        query=CoverageQuery,
    )
    def get(self, call: Call[None]) -> Coverage:
        query: CoverageQuery = call.query
        return read_coverage(hours=query.hours)


class DrillQuery(PageQuery):
    queue: Word | None = None


class Drills(Endpoint):
    @operation(
        Operation.LIST_DRILLS,
        "List fence drills, newest first, with the answer to each step",
        answer=Page[DrillRecord],
        query=DrillQuery,
    )
    def get(self, call: Call[None]) -> Page[DrillRecord]:
        query: DrillQuery = call.query
        return page_of(call.request, query, list_drills(queue=query.queue), drill_record, key="id")


class QueueDrill(Endpoint):
    @operation(
        Operation.RUN_DRILL,
        "Drill the fence of a queue now; takes about a second",
        body=DrillBody,
        answer=DrillRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def post(self, call: Call[DrillBody], queue: str) -> DrillRecord | Refusal:
        return run_drill(queue=queue, reason=call.body.reason, actor=call.caller)


class Audits(Endpoint):
    @operation(
        Operation.LIST_AUDITS,
        "List audits, newest first",
        answer=Page[AuditRecord],
        query=PageQuery,
    )
    def get(self, call: Call[None]) -> Page[AuditRecord]:
        return page_of(call.request, call.query, list_audits(), audit_record, key="audit_id")

    @operation(
        Operation.START_AUDIT,
        "Have the stored history checked; the background does it, in small batches",
        body=AuditBody,
        answer=AuditRecord,
        status=202,
    )
    def post(self, call: Call[AuditBody]) -> AuditRecord | Refusal:
        return start_audit(reason=call.body.reason, actor=call.caller)


class OneAudit(Endpoint):
    @operation(
        Operation.READ_AUDIT,
        "How far an audit is, and the rows that break an invariant",
        answer=AuditReport,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _: Call[None], audit_id: str) -> AuditReport | Refusal:
        return find_audit(uuid_of(audit_id, "audit")) or not_found("audit")
