"""Attempts: one grant of a task to one worker, never reused, never revived (contract 2)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q

from coordinator.states import LIVE_ATTEMPT, AttemptState

from .access import Credential
from .task import Task

#: How many renewal instants an attempt remembers (for its timeline); all are counted.
RENEWALS_REMEMBERED = 24


class Attempt(models.Model):
    attempt_id = models.UUIDField(primary_key=True)
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="ledger", db_index=False)
    claim_generation = models.BigIntegerField()
    scheduler_epoch = models.BigIntegerField()
    cancel_generation = models.BigIntegerField()
    owner = models.TextField()
    # No foreign key in the database: its check would share-lock the credential's row in
    # every claim of its fleet. Credentials are revoked, never deleted.
    credential = models.ForeignKey(
        Credential, on_delete=models.PROTECT, db_index=False, db_constraint=False
    )
    pool = models.TextField()
    state = models.TextField(choices=[(s, s) for s in AttemptState], default=AttemptState.STARTED)
    started_at = models.DateTimeField()
    lease_expires_at = models.DateTimeField()
    renewals = models.IntegerField(default=0)
    renewed_at = ArrayField(models.DateTimeField(), default=list)
    ended_at = models.DateTimeField(null=True)
    end_reason = models.TextField(null=True)
    error = models.JSONField(null=True)
    #: Seconds from the lapse of the lease that this grant took over to the grant.
    reclaim_seconds = models.FloatField(null=True)
    #: The call that ended this attempt (digest over verb and body) and its answer: a repeat
    #: of that very call is answered with it (contract 3).
    end_call = models.TextField(null=True)
    end_answer = models.JSONField(null=True)
    input_tokens = models.BigIntegerField(default=0)
    output_tokens = models.BigIntegerField(default=0)
    compute_seconds = models.FloatField(default=0)
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6, default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="attempt_generation", fields=["task", "claim_generation"]),
            models.CheckConstraint(name="attempt_state", condition=Q(state__in=list(AttemptState))),
            models.CheckConstraint(
                name="attempt_ended",
                condition=Q(state__in=sorted(LIVE_ATTEMPT), ended_at=None)
                | ~Q(state__in=sorted(LIVE_ATTEMPT)) & Q(ended_at__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_id}#{self.claim_generation}"
