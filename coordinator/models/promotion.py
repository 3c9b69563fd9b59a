"""Requests to promote a queue: asked by one person, confirmed by another (contract 13)."""

from django.db import models
from django.db.models import Q

from coordinator.states import PromotionState, RolloutStage

from .queue import Queue

_STAGES = [(stage, stage) for stage in RolloutStage]


class PromotionRequest(models.Model):
    """What somebody saw of the gate when they asked, bound by its digest; one open request a queue."""

    request_id = models.UUIDField(primary_key=True)
    queue = models.ForeignKey(
        Queue, on_delete=models.PROTECT, related_name="promotion_requests", db_index=False
    )
    state = models.TextField(choices=[(s, s) for s in PromotionState], default=PromotionState.ASKED)
    from_stage = models.TextField(choices=_STAGES)
    to_stage = models.TextField(choices=_STAGES)
    scheduler_epoch = models.BigIntegerField()
    #: The gate as it was measured, canonical JSON, and its digest: what a confirmation is bound to.
    evidence = models.TextField()
    evidence_digest = models.TextField()
    reason = models.TextField()
    requested_by = models.TextField()  # Actor.label
    requested_by_id = models.IntegerField()  # somebody else confirms
    requested_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    ended_by = models.TextField(null=True)
    end_reason = models.TextField(null=True)
    is_alone = models.BooleanField(default=False)  # confirmed by who asked, with a reason

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="promotionrequest_state", condition=Q(state__in=list(PromotionState))
            ),
            models.CheckConstraint(
                name="promotionrequest_ended",
                condition=Q(state=PromotionState.ASKED, ended_at__isnull=True)
                | Q(~Q(state=PromotionState.ASKED), ended_at__isnull=False),
            ),
            models.UniqueConstraint(
                name="promotionrequest_one_open",
                fields=["queue"],
                condition=Q(state=PromotionState.ASKED),
            ),
        ]
        indexes = [models.Index(name="promotionrequest_by_queue", fields=["queue", "-request_id"])]

    def __str__(self) -> str:
        return f"{self.queue_id} {self.from_stage} → {self.to_stage}: {self.state}"
