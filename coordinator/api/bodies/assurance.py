"""Drills, audits and the audit's lines (contract 14)."""

from typing import Annotated

from pydantic import Field

from coordinator.selectors.audit_chain import MAX_NUMBER
from coordinator.selectors.audit_lines import MAX_LINES

from .fields import Body, Reason


class DrillBody(Body):
    reason: Reason


class AuditBody(Body):
    reason: Reason


class RevealLinesBody(Body):
    """From link `first` on, as `GET /audit/lines` pages them."""

    reason: Reason
    first: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = 1
    limit: Annotated[int, Field(ge=1, le=MAX_LINES)] = 200
