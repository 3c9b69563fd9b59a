"""Incidents: the guarded rollback, opened, taken step by step, and told (contract 12)."""

from enum import StrEnum
from typing import Any, Final

from django.http import HttpResponse
from pydantic import BaseModel, ConfigDict

from coordinator.access import Operation
from coordinator.api.bodies.fields import Word
from coordinator.api.bodies.incidents import (
    AbortBody,
    BumpBody,
    CandidatesBody,
    IncidentBody,
    ResumeBody,
    SwitchBody,
)
from coordinator.api.endpoint import JSON, Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.intake_shares import WHOLE
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.record_masks import masked_record
from coordinator.selectors.incident_gates import Gate, read_gate
from coordinator.selectors.incident_markdown import render_markdown
from coordinator.selectors.incident_previews import Preview, preview_bump
from coordinator.selectors.incident_reports import IncidentStory, tell_incident
from coordinator.selectors.incidents import (
    IncidentFilters,
    IncidentRecord,
    incident_record,
    list_incidents,
    read_incident,
)
from coordinator.services.canaries import let_in
from coordinator.services.incident_bumps import bump_incident
from coordinator.services.incident_candidates import CandidatesDecided, decide_candidates
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.incident_switches import switch_pool
from coordinator.services.incidents import abort_incident, open_incident, resume_intake

_STEP = (Outcome.NOT_FOUND, Outcome.WRONG_STEP, Outcome.STATE_VERSION_MISMATCH)


class IncidentQuery(PageQuery):
    queue: Word | None = None
    open: bool | None = None


class Incidents(Endpoint):
    @operation(
        Operation.LIST_INCIDENTS,
        "List incidents, newest first",
        answer=Page[IncidentRecord],
        query=IncidentQuery,
    )
    def get(self, call: Call[None]) -> Page[IncidentRecord]:
        query: IncidentQuery = call.query
        rows = list_incidents(IncidentFilters(query.queue, query.open))
        return page_of(call.request, query, rows, incident_record, key="incident_id")

    @operation(
        Operation.OPEN_INCIDENT,
        "Open an incident: intake stops at once",
        body=IncidentBody,
        answer=StepTaken,
        status=201,
        keyed=True,
        refusals=(Outcome.INCIDENT_OPEN,),
    )
    def post(self, call: Call[IncidentBody]) -> StepTaken | Refusal:
        body = call.body
        if not body.names_one_scope:
            told = "Name one `queue`, several `queues`, or send `all: true`; exactly one of these."
            return invalid(FieldError("/queue", told))
        return open_incident(
            queues=body.wanted, reason=body.reason, actor=call.caller, request=call.request_key()
        )


class OneIncident(Endpoint):
    @operation(
        Operation.READ_INCIDENT,
        "One incident with its queues and the steps that were taken",
        answer=IncidentRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], incident_id: str) -> IncidentRecord | Refusal:
        return read_incident(uuid_of(incident_id, "incident")) or not_found("incident")


class IncidentPreview(Endpoint):
    @operation(
        Operation.PREVIEW_BUMP,
        "What the bump would take back, and what it must be told",
        answer=Preview,
        refusals=(Outcome.NOT_FOUND, Outcome.WRONG_STEP),
    )
    def get(self, _call: Call[None], incident_id: str) -> Preview | Refusal:
        wanted = uuid_of(incident_id, "incident")
        told = preview_bump(wanted)
        if told is None and read_incident(wanted) is not None:
            return Refusal(
                Outcome.WRONG_STEP, "The epoch has been raised, or will not be; read the report."
            )
        return told or not_found("incident")


class IncidentBump(Endpoint):
    @operation(
        Operation.BUMP_INCIDENT,
        "Raise the epoch: everything older is refused from the return on",
        body=BumpBody,
        answer=StepTaken,
        refusals=_STEP,
    )
    def post(self, call: Call[BumpBody], incident_id: str) -> StepTaken | Refusal:
        expected = call.body.expected
        if expected is None:
            told = "Send the epoch that you saw, or `expected_epochs` with that of each queue; one of the two."
            return invalid(FieldError("/expected_epoch", told))
        return bump_incident(
            expected_epoch=expected, confirm=call.body.confirm, **_asked(call, incident_id)
        )


class IncidentGate(Endpoint):
    @operation(
        Operation.READ_GATE,
        "What of the old epoch is still out",
        answer=Gate,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _call: Call[None], incident_id: str) -> Gate | Refusal:
        return read_gate(uuid_of(incident_id, "incident")) or not_found("incident")


class IncidentCandidates(Endpoint):
    @operation(
        Operation.DECIDE_CANDIDATES,
        "Discard what revoked attempts had put aside, or keep it as evidence",
        body=CandidatesBody,
        answer=CandidatesDecided,
        refusals=(*_STEP, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[CandidatesBody], incident_id: str) -> CandidatesDecided | Refusal:
        return decide_candidates(
            decision=call.body.decision,
            attempt_ids=call.body.attempt_ids,
            **_asked(call, incident_id),
        )


class IncidentSwitch(Endpoint):
    @operation(
        Operation.SWITCH_POOL,
        "Make another pool the active one, once nothing of the old epoch is out",
        body=SwitchBody,
        answer=StepTaken,
        refusals=(*_STEP, Outcome.NOT_DRAINED, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[SwitchBody], incident_id: str) -> StepTaken | Refusal:
        return switch_pool(to_pool=call.body.to_pool, **_asked(call, incident_id))


class IncidentResume(Endpoint):
    @operation(
        Operation.RESUME_INTAKE,
        "Open intake again: the incident is over; or let a part of it in first",
        body=ResumeBody,
        answer=StepTaken,
        refusals=(*_STEP, Outcome.INTAKE_STOPPED),
    )
    def post(self, call: Call[ResumeBody], incident_id: str) -> StepTaken | Refusal:
        percent, asked = call.body.percent, _asked(call, incident_id)
        return resume_intake(**asked) if percent == WHOLE else let_in(percent=percent, **asked)


class IncidentAbort(Endpoint):
    @operation(
        Operation.ABORT_INCIDENT,
        "Call it off before the bump: intake is as it was",
        body=AbortBody,
        answer=StepTaken,
        refusals=(*_STEP, Outcome.INTAKE_STOPPED),
    )
    def post(self, call: Call[AbortBody], incident_id: str) -> StepTaken | Refusal:
        return abort_incident(**_asked(call, incident_id))


MARKDOWN: Final = "text/markdown"


class ReportFormat(StrEnum):
    JSON = "json"
    MARKDOWN = "markdown"


class ReportQuery(BaseModel):
    """Left out, the `Accept` header decides; without one it is JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: ReportFormat | None = None


class IncidentReport(Endpoint):
    @operation(
        Operation.REPORT_INCIDENT,
        "The whole story of an incident, as JSON or as Markdown",
        answer=IncidentStory,
        query=ReportQuery,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], incident_id: str) -> IncidentStory | HttpResponse | Refusal:
        told = tell_incident(uuid_of(incident_id, "incident"))
        if told is None:
            return not_found("incident")
        story = masked_record(told)
        if _wants_markdown(call):
            text = render_markdown(story)
            return HttpResponse(text, content_type=f"{MARKDOWN}; charset=utf-8")
        return story


def _wants_markdown(call: Call[None]) -> bool:
    query: ReportQuery = call.query
    if query.format is not None:
        return query.format is ReportFormat.MARKDOWN
    preferred = call.request.get_preferred_type([JSON, MARKDOWN])
    return preferred == MARKDOWN


def _asked(call: Call[Any], incident_id: str) -> dict[str, Any]:
    """What every step is asked with: which incident, who, why, and the version that was seen."""
    return {
        "incident_id": uuid_of(incident_id, "incident"),
        "actor": call.caller,
        "reason": call.body.reason,
        "expected_version": call.body.expected_version,
    }
