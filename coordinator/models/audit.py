"""Audits of the stored history: which invariants were checked, how far, and the rows that break them (contract 14)."""

from django.db import models


class Audit(models.Model):
    """One pass over the whole history. `walk` and `cursor` say where it goes on after a break."""

    audit_id = models.UUIDField(primary_key=True)
    asked_by = models.TextField()
    reason = models.TextField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    walk = models.SmallIntegerField(default=0)
    cursor = models.TextField(null=True)
    rows_read = models.BigIntegerField(default=0)
    #: {invariant: how many rows break it}; the findings name the first ones.
    broken = models.JSONField(default=dict)

    class Meta:
        indexes = [
            models.Index(
                name="audit_open", fields=["started_at"], condition=models.Q(finished_at=None)
            )
        ]

    def __str__(self) -> str:
        return str(self.audit_id)


class AuditFinding(models.Model):
    """A row that breaks an invariant, by name, with what was found."""

    id = models.BigAutoField(primary_key=True)
    audit = models.ForeignKey(Audit, on_delete=models.CASCADE, related_name="findings")
    invariant = models.TextField()
    subject = models.TextField()
    detail = models.JSONField()

    def __str__(self) -> str:
        return f"{self.invariant}: {self.subject}"
