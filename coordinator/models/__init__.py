"""Facts: one file per aggregate. Only services write them (contract 16)."""

from .access import Access, BreakGlass, Credential, OperatorToken
from .approval import Approval, Decision
from .attempt import RENEWALS_REMEMBERED, Attempt
from .audit import Audit, AuditFinding
from .audit_chain import AuditChain, AuditLink, AuditWatch
from .bulk import BulkItem, BulkJob
from .coverage import CoverageHour, RefusedWrites, UncoveredWrite
from .drill import DrillRun
from .effect import Dispatch, EffectSlot, Evidence, LookUp
from .event import Event, StoredAnswer
from .incident import (
    CandidateDecision,
    Incident,
    IncidentCanary,
    IncidentEffect,
    IncidentHold,
    IncidentQueue,
    IncidentStep,
)
from .installation import Installation, Restore, RestoreHold
from .promotion import PromotionRequest
from .prune import PruneCursor
from .queue import Downstream, Pool, Queue
from .result import Blob, CanonicalCommit, MemoryFact, MemoryKey, StagedResult
from .run import Dependency, Run
from .saved_view import MAX_VIEW_NAME, MAX_VIEW_QUERY, SavedView
from .shadow import ShadowEvent, ShadowExplanation, ShadowRound, ShadowSource
from .tally import CountedAttempt, CountedRefusal, RollUp, Tally
from .task import SerialScope, Task

__all__ = [
    "MAX_VIEW_NAME",
    "MAX_VIEW_QUERY",
    "RENEWALS_REMEMBERED",
    "Access",
    "Approval",
    "Attempt",
    "Audit",
    "AuditChain",
    "AuditFinding",
    "AuditLink",
    "AuditWatch",
    "Blob",
    "BreakGlass",
    "BulkItem",
    "BulkJob",
    "CandidateDecision",
    "CanonicalCommit",
    "CountedAttempt",
    "CountedRefusal",
    "CoverageHour",
    "Credential",
    "Decision",
    "Dependency",
    "Dispatch",
    "Downstream",
    "DrillRun",
    "EffectSlot",
    "Event",
    "Evidence",
    "Incident",
    "IncidentCanary",
    "IncidentEffect",
    "IncidentHold",
    "IncidentQueue",
    "IncidentStep",
    "Installation",
    "LookUp",
    "MemoryFact",
    "MemoryKey",
    "OperatorToken",
    "Pool",
    "PromotionRequest",
    "PruneCursor",
    "Queue",
    "RefusedWrites",
    "Restore",
    "RestoreHold",
    "RollUp",
    "Run",
    "SavedView",
    "SerialScope",
    "ShadowEvent",
    "ShadowExplanation",
    "ShadowRound",
    "ShadowSource",
    "StagedResult",
    "StoredAnswer",
    "Tally",
    "Task",
    "UncoveredWrite",
]
