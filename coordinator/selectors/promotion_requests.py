"""Requests to promote a queue as they are read (contract 13)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import QuerySet

from coordinator.models import PromotionRequest
from coordinator.states import PromotionState


@dataclass(frozen=True, slots=True)
class RequestFilters:
    queue: str | None = None
    state: PromotionState | None = None


@dataclass(frozen=True, slots=True)
class PromotionRequestRecord:
    """Who asked for what on which figures (`evidence`), and what came of it. A confirmation names the digest."""

    request_id: UUID
    queue: str
    state: str
    from_stage: str
    to_stage: str
    scheduler_epoch: int
    evidence: dict[str, Any]
    evidence_digest: str
    reason: str
    requested_by: str
    requested_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    ended_by: str | None
    end_reason: str | None
    alone: bool


def list_requests(filters: RequestFilters) -> QuerySet[PromotionRequest]:
    """Newest first; page by `request_id`. One query."""
    rows = PromotionRequest.objects.select_related("queue").order_by("-request_id")
    wanted = {"queue__name": filters.queue, "state": filters.state}
    return rows.filter(**{name: value for name, value in wanted.items() if value is not None})


def find_request(request_id: UUID) -> PromotionRequestRecord | None:
    row = list_requests(RequestFilters()).filter(request_id=request_id).first()
    return None if row is None else request_record(row)


def open_request(queue: str) -> PromotionRequestRecord | None:
    """The one that waits for a second person."""
    row = list_requests(RequestFilters(queue, PromotionState.ASKED)).first()
    return None if row is None else request_record(row)


def request_record(row: PromotionRequest) -> PromotionRequestRecord:
    """`row` as list_requests read it: no further query."""
    return PromotionRequestRecord(
        request_id=row.request_id,
        queue=row.queue.name,
        state=row.state,
        from_stage=row.from_stage,
        to_stage=row.to_stage,
        scheduler_epoch=row.scheduler_epoch,
        evidence=orjson.loads(row.evidence),
        evidence_digest=row.evidence_digest,
        reason=row.reason,
        requested_by=row.requested_by,
        requested_at=row.requested_at,
        expires_at=row.expires_at,
        ended_at=row.ended_at,
        ended_by=row.ended_by,
        end_reason=row.end_reason,
        alone=row.is_alone,
    )
