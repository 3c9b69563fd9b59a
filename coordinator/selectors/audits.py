"""Audits as they are read: how far a pass is, and the rows that break an invariant (contract 14)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import QuerySet

from coordinator.models import Audit

#: A pass names so many rows at most; it counts all.
MAX_FINDINGS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` is the id of the row: a task's, an effect's, an event's."""

    invariant: str
    subject: str
    detail: dict[str, Any]


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """`broken` counts the rows by invariant, empty where all hold; `finished_at` is None while it goes on."""

    audit_id: UUID
    asked_by: str
    reason: str
    started_at: datetime
    finished_at: datetime | None
    rows_read: int
    broken: dict[str, int]


@dataclass(frozen=True, slots=True)
class AuditReport:
    """A pass with the rows that it names, the first ones found."""

    audit: AuditRecord
    findings: list[Finding]


def audit_record(audit: Audit) -> AuditRecord:
    return AuditRecord(
        audit_id=audit.audit_id,
        asked_by=audit.asked_by,
        reason=audit.reason,
        started_at=audit.started_at,
        finished_at=audit.finished_at,
        rows_read=audit.rows_read,
        broken=audit.broken,
    )


def list_audits() -> QuerySet[Audit]:
    """Newest first; page by `audit_id`, which is ordered by time."""
    return Audit.objects.order_by("-audit_id")


def find_audit(audit_id: UUID) -> AuditReport | None:
    audit = Audit.objects.filter(audit_id=audit_id).first()
    if audit is None:
        return None
    rows = audit.findings.order_by("id").values_list("invariant", "subject", "detail")
    return AuditReport(audit_record(audit), [Finding(*row) for row in rows[:MAX_FINDINGS]])


def last_audit() -> AuditRecord | None:
    """The last pass that is over."""
    audit = list_audits().filter(finished_at__isnull=False).first()
    return audit_record(audit) if audit else None
