"""Approvals as they are read: the exact payload, and who has decided what (contract 9)."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import OuterRef, QuerySet, Subquery

from coordinator.models import Approval


@dataclass(frozen=True, slots=True)
class ApprovalFilters:
    state: str | None = None
    queue: str | None = None
    downstream: str | None = None
    task_id: UUID | None = None
    assigned_to: str | None = None


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    operator: str
    decision: str
    comment: str
    payload_digest_seen: str
    at: datetime


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """A request to decide on one exact payload. `payload` is null for who may not see payloads.

    `version` is how many people have decided: a decision may be bound to it. `assigned_to` is
    whose turn it is, where somebody has passed it on. `supersedes` and `superseded_by` are the
    requests of the same slot before and after a revision of the task.
    """

    approval_id: UUID
    effect_id: str
    task_id: UUID
    run_id: UUID
    queue: str
    node_id: str
    slot: str
    downstream: str
    payload: orjson.Fragment | None
    payload_digest: str
    dispatch_number: int
    state: str
    required_approvers: int
    version: int
    decisions: list[DecisionRecord]
    policy_version: int
    requested_by: str
    submitted_by: str
    requested_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    reason_code: str | None
    assigned_to: str | None
    assigned_by: str | None
    assigned_at: datetime | None
    assigned_note: str | None
    supersedes: UUID | None
    superseded_by: UUID | None
    #: Places that people are shown masked (contract 15); what stands there is revealed for a reason.
    masked: list[str] = field(default_factory=list)


def list_approvals(filters: ApprovalFilters) -> QuerySet[Approval]:
    """Newest first; page by `approval_id`. Effect, task, run and decisions come with it: two queries."""
    approvals = Approval.objects.select_related(
        "effect__task__queue", "effect__task__run", "assignee"
    ).defer("effect__task__input", "effect__task__run__metadata")
    wanted = {
        "state": filters.state,
        "effect__task__queue__name": filters.queue,
        "effect__downstream": filters.downstream,
        "effect__task_id": filters.task_id,
        "assignee__username": filters.assigned_to,
    }
    approvals = approvals.filter(
        **{field: value for field, value in wanted.items() if value is not None}
    )
    approvals = approvals.annotate(
        before=Subquery(_beside(effect__task_id=OuterRef("effect__task__supersedes_id"))[:1]),
        after=Subquery(_beside(effect__task__supersedes_id=OuterRef("effect__task_id"))[:1]),
    )
    return approvals.prefetch_related("decisions__operator").order_by("-approval_id")


def _beside(**where: OuterRef) -> QuerySet[Approval, Any]:
    """Requests of the same slot of another revision, the newest first."""
    same = Approval.objects.filter(effect__slot=OuterRef("effect__slot"), **where)
    return same.order_by("-approval_id").values("approval_id")


def find_approval(approval_id: UUID) -> Approval | None:
    return list_approvals(ApprovalFilters()).filter(approval_id=approval_id).first()


def approval_record(approval: Approval, *, with_payload: bool) -> ApprovalRecord:
    """`approval` as list_approvals read it: no further query."""
    effect = approval.effect
    decisions = sorted(approval.decisions.all(), key=lambda each: each.pk)
    return ApprovalRecord(
        approval_id=approval.approval_id,
        effect_id=effect.effect_id,
        task_id=effect.task_id,
        run_id=effect.task.run.run_id,
        queue=effect.task.queue.name,
        node_id=effect.node_id,
        slot=effect.slot,
        downstream=effect.downstream,
        payload=orjson.Fragment(effect.payload) if with_payload else None,
        payload_digest=approval.payload_digest,
        dispatch_number=approval.dispatch_number,
        state=approval.state,
        required_approvers=approval.required_approvers,
        version=len(decisions),
        decisions=[
            DecisionRecord(
                each.operator.get_username(),
                each.decision,
                each.comment,
                each.payload_digest_seen,
                each.at,
            )
            for each in decisions
        ],
        policy_version=approval.policy_version,
        requested_by=approval.requested_by,
        submitted_by=effect.task.run.submitted_by,
        requested_at=approval.requested_at,
        expires_at=approval.expires_at,
        ended_at=approval.ended_at,
        end_reason=approval.end_reason,
        reason_code=approval.reason_code,
        assigned_to=approval.assignee.get_username() if approval.assignee else None,
        assigned_by=approval.assigned_by,
        assigned_at=approval.assigned_at,
        assigned_note=approval.assigned_note,
        supersedes=getattr(approval, "before", None),
        superseded_by=getattr(approval, "after", None),
    )
