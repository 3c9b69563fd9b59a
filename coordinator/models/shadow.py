"""What a legacy scheduler did, and the shadow judge's verdicts (contract 13).

A namespace of its own: nothing here refers to a task, and no foreign key locks a row that live
work needs. The queue's id is a number.
"""

from django.db import models
from django.db.models import F, Q

from coordinator.shadow.words import MISMATCHES, LegacyKind, RoundVerdict, Triage, Winner

from .queue import Queue


class ShadowSource(models.Model):
    """Where events come from. A source belongs to the queue that its first event was sent to."""

    name = models.TextField(primary_key=True)
    queue = models.ForeignKey(
        Queue,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
    )
    events = models.BigIntegerField(default=0)
    duplicates = models.BigIntegerField(default=0)
    conflicts = models.BigIntegerField(default=0)  # a known event id with another body
    too_late = models.BigIntegerField(default=0)
    lost = models.BigIntegerField(default=0)  # what the feed says that it had to drop
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()  # of the database's clock, when something came

    def __str__(self) -> str:
        return self.name


class ShadowRound(models.Model):
    """One round of one task key: open while `verdict` is null, then settled for good."""

    round_id = models.UUIDField(primary_key=True)
    queue = models.ForeignKey(
        Queue,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    source = models.TextField()
    task_key = models.TextField()
    number = models.IntegerField()
    origin = (
        models.IntegerField()
    )  # the number of the round whose grants still count; its own if it is fresh
    events = models.IntegerField(default=0)
    too_late = models.IntegerField(default=0)
    opened_at = models.DateTimeField()  # this and closes_at by the legacy clock
    closes_at = models.DateTimeField(null=True)
    check_at = models.DateTimeField()  # when the judge looks, by the database's clock
    settled_at = models.DateTimeField(null=True)
    verdict = models.TextField(null=True, choices=[(v, v) for v in RoundVerdict])
    is_counted = models.BooleanField(default=False)
    mismatches = models.TextField(default="[]")  # JSON: all that was found, in the order of time
    legacy_end = models.TextField(null=True, choices=[(w, w) for w in Winner])
    legacy_owner = models.TextField(default="")
    legacy_result = models.TextField(null=True)
    claim_end = models.TextField(null=True, choices=[(w, w) for w in Winner])
    claim_owner = models.TextField(default="")
    claim_result = models.TextField(null=True)
    explained_at = models.DateTimeField(null=True)
    explained_until = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="shadow_round_number", fields=["source", "task_key", "number"]
            ),
            models.UniqueConstraint(
                name="shadow_round_one_open",
                fields=["source", "task_key"],
                condition=Q(verdict=None),
            ),
            models.CheckConstraint(
                name="shadow_round_settled_whole",
                condition=Q(verdict=None, settled_at=None)
                | Q(
                    verdict__in=list(RoundVerdict),
                    settled_at__isnull=False,
                    closes_at__isnull=False,
                    legacy_end__in=list(Winner),
                    claim_end__in=list(Winner),
                ),
            ),
            models.CheckConstraint(
                name="shadow_round_origin", condition=Q(origin__gte=1, origin__lte=F("number"))
            ),
        ]
        indexes = [
            models.Index(
                name="shadow_round_due", fields=["queue", "check_at"], condition=Q(verdict=None)
            ),
            models.Index(
                name="shadow_round_settled",
                fields=["queue", "settled_at"],
                include=["verdict", "legacy_end", "claim_end", "is_counted"],
                condition=Q(settled_at__isnull=False),
            ),
            models.Index(
                name="shadow_round_mismatch",
                fields=["queue", "verdict", "round_id"],
                include=["settled_at", "explained_at", "explained_until"],
                condition=Q(verdict__in=list(MISMATCHES)),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.task_key} #{self.number}: {self.verdict}"


class ShadowEvent(models.Model):
    """One event of the legacy scheduler, kept as it was told. Append-only, but for the round that it was put into."""

    id = models.BigAutoField(primary_key=True)
    source = models.TextField()
    event_id = models.TextField()
    round = models.ForeignKey(
        ShadowRound,
        on_delete=models.DO_NOTHING,
        related_name="told",
        db_constraint=False,
    )
    task_key = models.TextField()
    event = models.TextField(choices=[(k, k) for k in LegacyKind])
    owner = models.TextField()
    at = models.DateTimeField()
    lease_seconds = models.FloatField(null=True)
    result_digest = models.TextField(null=True)
    input_digest = models.TextField(null=True)
    body_digest = models.BigIntegerField()  # tells another body under the same id
    is_too_late = models.BooleanField(default=False)
    received_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="shadow_event_once", fields=["source", "event_id"]),
            models.CheckConstraint(
                name="shadow_event_kind", condition=Q(event__in=list(LegacyKind))
            ),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.task_key}"


class ShadowExplanation(models.Model):
    """A person's word on a mismatch: of one round, or of a class in a queue until it expires. Append-only."""

    id = models.BigAutoField(primary_key=True)
    queue = models.ForeignKey(
        Queue,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_constraint=False,
        db_index=False,
    )
    round = models.ForeignKey(
        ShadowRound,
        on_delete=models.DO_NOTHING,
        related_name="explanations",
        db_constraint=False,
    )
    verdict = models.TextField(choices=[(v, v) for v in RoundVerdict])
    is_of_class = models.BooleanField(default=False)
    triage = models.TextField(choices=[(t, t) for t in Triage])
    reason = models.TextField()
    owner = models.TextField(default="")
    link = models.TextField(default="")
    operator = models.TextField()  # Actor.label
    at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="shadow_explanation_kind",
                condition=Q(verdict__in=[v for v in RoundVerdict if v != RoundVerdict.AGREE])
                & Q(triage__in=list(Triage)),
            ),
            models.CheckConstraint(
                name="shadow_explanation_of_class_expires",
                condition=Q(is_of_class=False) | Q(expires_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                name="shadow_explanation_class",
                fields=["queue", "verdict", "expires_at"],
                condition=Q(is_of_class=True),
            )
        ]

    def __str__(self) -> str:
        return f"{self.verdict}: {self.reason[:60]}"
