"""What the background has found of the audit's chain: how far it is, and the row that does not fit (adr/0021)."""

from dataclasses import dataclass
from datetime import datetime

from coordinator.models import AuditChain, AuditWatch

from .audit_chain import ChainFault, Misfit


@dataclass(frozen=True, slots=True)
class Watched:
    """`number` links of `newest` have been verified since `begun_at`; `fault` is the first row that does not fit.

    `whole_at`: when every link up to the newest had been verified; None before that.
    """

    number: int
    newest: int
    begun_at: datetime
    looked_at: datetime
    whole_at: datetime | None
    fault: ChainFault | None
    fault_at: datetime | None


def read_watch() -> Watched | None:
    """None before the first look. Two queries."""
    row = AuditWatch.objects.filter(id=1).first()
    if row is None:
        return None
    newest = AuditChain.objects.filter(id=1).values_list("number", flat=True).first()
    return Watched(
        number=row.number,
        newest=newest or 0,
        begun_at=row.begun_at,
        looked_at=row.looked_at,
        whole_at=row.whole_at,
        fault=_fault(row),
        fault_at=row.fault_at,
    )


def _fault(row: AuditWatch) -> ChainFault | None:
    if not row.misfit:
        return None
    return ChainFault(Misfit(row.misfit), row.fault_number, row.fault_event, row.fault_detail)
