"""Incidents: the guarded rollback, its steps, and what its bump revoked (contract 12)."""

from django.db import models
from django.db.models import F, Q

from coordinator.intake_shares import WHOLE
from coordinator.states import ENDED_INCIDENT, CandidateRuling, IncidentState

from .attempt import Attempt
from .effect import EffectSlot
from .queue import Queue
from .result import StagedResult


class Incident(models.Model):
    """One rollback of one queue, several or all. Its rows below tell the whole story."""

    incident_id = models.UUIDField(primary_key=True)
    state = models.TextField(choices=[(s, s) for s in IncidentState], default=IncidentState.STOPPED)
    version = models.BigIntegerField(default=1)  # +1 with each decision; what callers compare
    covers_all = models.BooleanField(default=False)  # every queue that there was at its opening
    reason = models.TextField()
    opened_by = models.TextField()  # Actor.label
    opened_by_id = models.IntegerField()  # the bump needs somebody else
    opened_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    #: The newest evidence when the epoch was raised: what was said later belongs to the drain.
    evidence_before = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="incident_state", condition=Q(state__in=list(IncidentState))
            ),
            models.CheckConstraint(
                name="incident_ended",
                condition=Q(state__in=sorted(ENDED_INCIDENT), ended_at__isnull=False)
                | ~Q(state__in=sorted(ENDED_INCIDENT)) & Q(ended_at=None),
            ),
            models.CheckConstraint(name="incident_version", condition=Q(version__gte=1)),
        ]

    def __str__(self) -> str:
        return f"{self.incident_id}: {self.state}"


class IncidentQueue(models.Model):
    """A queue of an incident: how it stood before, and what became of it."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="lanes")
    queue = models.ForeignKey(
        Queue, on_delete=models.PROTECT, related_name="incidents", db_index=False
    )
    is_open = models.BooleanField(default=True)
    intake_before = models.TextField()
    pool_before = models.TextField()
    pool_after = models.TextField(null=True)
    epoch_before = models.BigIntegerField(null=True)  # both known from the bump on
    epoch_after = models.BigIntegerField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="incident_queue_once", fields=["incident", "queue"]),
            # Looked up by each call that takes the queue's gate: only open ones are in it.
            models.UniqueConstraint(
                name="incident_one_open_per_queue", fields=["queue"], condition=Q(is_open=True)
            ),
            models.CheckConstraint(
                name="incident_epoch_raised",
                condition=Q(epoch_before=None, epoch_after=None)
                | Q(epoch_before__isnull=False, epoch_after__gt=F("epoch_before"))
                & Q(epoch_after__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.incident_id} on {self.queue_id}"


class IncidentStep(models.Model):
    """A step that was taken: who, when, from where, why, and the receipt. Append-only."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, related_name="steps", db_index=False
    )
    step = models.TextField(choices=[(s, s) for s in IncidentState])  # the state that it led to
    version = models.BigIntegerField()
    actor = models.TextField()
    address = models.TextField(default="")
    request_id = models.TextField(default="")
    reason = models.TextField()
    at = models.DateTimeField()
    receipt = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="incident_step_once", fields=["incident", "step"]),
            models.CheckConstraint(
                name="incident_step_state", condition=Q(step__in=list(IncidentState))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.step} by {self.actor}"


class IncidentCanary(models.Model):
    """How much of the intake was let in from then on, by whom and why; 0 is a hold. Append-only."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, related_name="canaries", db_index=False
    )
    version = models.BigIntegerField()  # the incident's, after it
    share = models.SmallIntegerField()  # per cent
    actor = models.TextField()
    address = models.TextField(default="")
    request_id = models.TextField(default="")
    reason = models.TextField()
    at = models.DateTimeField()
    #: What held it, where the watch did: commits and fenced commits of what had been let in.
    commits = models.IntegerField(null=True)
    fenced = models.IntegerField(null=True)
    receipt = models.JSONField(default=dict)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="incident_canary_once", fields=["incident", "version"]),
            models.CheckConstraint(
                name="incident_canary_share", condition=Q(share__gte=0, share__lt=WHOLE)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.share} % by {self.actor}"


class IncidentHold(models.Model):
    """An attempt that the bump revoked, with the lease that it had: others wait that out. Append-only."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, related_name="holds", db_index=False
    )
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, related_name="incident_holds", db_index=False
    )
    lease_expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="incident_hold_once", fields=["attempt"]),
        ]
        indexes = [
            models.Index(name="incident_hold_leases", fields=["incident", "lease_expires_at"])
        ]

    def __str__(self) -> str:
        return str(self.attempt_id)


class IncidentEffect(models.Model):
    """An effect that may have been out when the epoch was raised. Append-only."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(
        Incident, on_delete=models.PROTECT, related_name="effects", db_index=False
    )
    effect = models.ForeignKey(
        EffectSlot, on_delete=models.PROTECT, related_name="incidents", db_index=False
    )
    state = models.TextField()  # right after the bump
    changed = models.BooleanField()  # by the bump itself

    class Meta:
        constraints = [
            models.UniqueConstraint(name="incident_effect_once", fields=["incident", "effect"])
        ]
        indexes = [models.Index(name="incident_effect_by_effect", fields=["effect"])]

    def __str__(self) -> str:
        return str(self.effect_id)


class CandidateDecision(models.Model):
    """A person's word on a result that a revoked attempt had put aside. Append-only."""

    id = models.BigAutoField(primary_key=True)
    incident = models.ForeignKey(Incident, on_delete=models.PROTECT, related_name="rulings")
    staged = models.OneToOneField(StagedResult, on_delete=models.PROTECT, related_name="ruling")
    decision = models.TextField(choices=[(d, d) for d in CandidateRuling])
    reason = models.TextField()
    actor = models.TextField()
    at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="candidate_decision", condition=Q(decision__in=list(CandidateRuling))
            )
        ]

    def __str__(self) -> str:
        return f"{self.decision} by {self.actor}"
