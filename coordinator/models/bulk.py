"""Bulk jobs: a set of tasks that was frozen when a person reviewed it, and what came of each (console design, 3.4)."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

#: What a person may do to many tasks at once. Never to decide or to settle anything.
VERBS = ("cancel", "reopen", "snooze", "wake")


class BulkJob(models.Model):
    """Reviewed, then started, then finished: each stands as its instant. The set never changes."""

    bulk_id = models.UUIDField(primary_key=True)
    verb = models.TextField(choices=[(verb, verb) for verb in VERBS])
    #: The filter as the person had it in the address; it decides nothing any more.
    asked = models.TextField(default="")
    more = models.BooleanField(default=False)  # the filter had more tasks than one job takes
    reason = models.TextField(null=True)
    not_before = models.DateTimeField(null=True)  # until when a started snooze holds its tasks back
    #: The snooze that this job takes back; each is taken back once.
    undoes = models.UUIDField(null=True)
    operator = models.IntegerField()  # the person's key; their name as events tell it
    operator_name = models.TextField()
    address = models.TextField(default="")
    reviewed_at = models.DateTimeField(db_default=Now())
    started_at = models.DateTimeField(null=True)
    stopped_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="bulk_verb", condition=Q(verb__in=VERBS)),
            models.CheckConstraint(
                name="bulk_snooze_has_time",
                condition=Q(started_at=None)
                | Q(verb="snooze", not_before__isnull=False)
                | (~Q(verb="snooze") & Q(not_before=None)),
            ),
            models.UniqueConstraint(
                name="bulk_undone_once", fields=["undoes"], condition=Q(undoes__isnull=False)
            ),
            models.CheckConstraint(
                name="bulk_started_with_reason",
                condition=Q(started_at=None) | Q(reason__isnull=False),
            ),
            models.CheckConstraint(
                name="bulk_finished_after_start",
                condition=Q(finished_at=None) | Q(started_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(
                name="bulk_at_work",
                fields=["started_at"],
                condition=Q(started_at__isnull=False, finished_at=None),
            )
        ]

    def __str__(self) -> str:
        return f"{self.verb} by {self.operator_name}"


class BulkItem(models.Model):
    """One task as it stood at the review. `outcome` is null until it was acted on, or could not be."""

    id = models.BigAutoField(primary_key=True)
    job = models.ForeignKey(BulkJob, on_delete=models.CASCADE, related_name="items", db_index=False)
    task_id = models.UUIDField()
    node_id = models.TextField()
    queue = models.TextField()
    seen_state = models.TextField()
    seen_version = models.BigIntegerField()
    #: What the task waited for when it was seen; where a snooze is undone, what it goes back to.
    seen_not_before = models.DateTimeField(null=True)
    taken_at = models.DateTimeField(null=True)
    outcome = models.TextField(null=True)
    detail = models.TextField(default="")
    done_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(name="bulk_item_once", fields=["job", "task_id"])]
        indexes = [models.Index(name="bulk_to_do", fields=["job", "id"], condition=Q(outcome=None))]

    def __str__(self) -> str:
        return f"{self.node_id}: {self.outcome}"
