"""What shows that the guard holds, in one look: coverage, the drills, the last audit (contract 14)."""

from dataclasses import dataclass

from .audits import AuditRecord, last_audit
from .coverage import Coverage, read_coverage
from .drills import QueueDrill, read_drills


@dataclass(frozen=True, slots=True)
class Assurance:
    """`audit` is the last pass that is over, None before the first."""

    coverage: Coverage
    drills: tuple[QueueDrill, ...]
    audit: AuditRecord | None


def read_assurance() -> Assurance:
    """Three queries, four where coverage is not whole."""
    return Assurance(read_coverage(), read_drills(), last_audit())
