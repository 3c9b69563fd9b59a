"""Approvals: a person's decision on one exact payload (contract 9)."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from coordinator.states import ApprovalState, RejectionCode

from .effect import EffectSlot


class Approval(models.Model):
    """Asked for by an acceptance; grants one dispatch of (effect, digest, dispatch number), ever."""

    approval_id = models.UUIDField(primary_key=True)
    effect = models.ForeignKey(EffectSlot, on_delete=models.PROTECT, related_name="approvals")
    payload_digest = models.TextField()
    dispatch_number = models.IntegerField()
    state = models.TextField(choices=[(s, s) for s in ApprovalState], default=ApprovalState.PENDING)
    required_approvers = models.IntegerField()
    policy_version = models.IntegerField(default=1)
    requested_by = models.TextField()
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    end_reason = models.TextField(null=True)
    reason_code = models.TextField(null=True, choices=[(c, c) for c in RejectionCode])
    # Whose turn it is. It says nothing of who may decide: that everybody who may still can.
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL,
        on_delete=models.PROTECT,
        related_name="+",
        null=True,
        db_index=False,
    )
    assigned_by = models.TextField(null=True)
    assigned_at = models.DateTimeField(null=True)
    assigned_note = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="approval_one_open",
                fields=["effect", "dispatch_number"],
                condition=Q(state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]),
            ),
            models.UniqueConstraint(
                name="approval_consumed_once",
                fields=["effect", "dispatch_number"],
                condition=Q(state=ApprovalState.CONSUMED),
            ),
            models.CheckConstraint(
                name="approval_state", condition=Q(state__in=list(ApprovalState))
            ),
            models.CheckConstraint(
                name="approval_approvers", condition=Q(required_approvers__in=[1, 2])
            ),
            models.CheckConstraint(
                name="approval_reason_code",
                condition=Q(reason_code__isnull=True)
                | Q(state=ApprovalState.REJECTED, reason_code__in=list(RejectionCode)),
            ),
            models.CheckConstraint(
                name="approval_passed_by_somebody",
                condition=Q(
                    assignee__isnull=True, assigned_by__isnull=True, assigned_at__isnull=True
                )
                | Q(assignee__isnull=False, assigned_by__isnull=False, assigned_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                name="approval_open",
                fields=["expires_at"],
                condition=Q(state__in=[ApprovalState.PENDING, ApprovalState.APPROVED]),
            )
        ]

    def __str__(self) -> str:
        return f"{self.effect_id} #{self.dispatch_number}: {self.state}"


class Decision(models.Model):
    """One person's word on one approval, with the digest that they saw. Append-only."""

    id = models.BigAutoField(primary_key=True)
    approval = models.ForeignKey(
        Approval, on_delete=models.PROTECT, related_name="decisions", db_index=False
    )
    operator = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    decision = models.TextField(choices=[("APPROVED", "APPROVED"), ("REJECTED", "REJECTED")])
    comment = models.TextField(default="")
    payload_digest_seen = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="decision_once", fields=["approval", "operator"])
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.operator_id}"
