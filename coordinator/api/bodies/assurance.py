"""Drills and audits (contract 14)."""

from .fields import Body, Reason


class DrillBody(Body):
    reason: Reason


class AuditBody(Body):
    reason: Reason
