"""The append-only history, and the answers kept for repeated requests (contract 2, 3, 5)."""

from django.db import models
from django.db.models import F, Func, Q
from django.db.models.fields.json import KT
from django.db.models.functions import Now

from .fields import TransactionId
from .queue import Queue


class Event(models.Model):
    """One fact: who did what to which task, when, and what it changed.

    Append-only, but for `repeats`, `last_at` and `xid`, which equal refusals raise (contract 3).
    """

    id = models.BigAutoField(primary_key=True)
    kind = models.TextField()
    # No foreign keys in the database: history outlives what it tells of, and each check
    # would share-lock a hot row once per event.
    queue = models.ForeignKey(
        Queue,
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    run = models.ForeignKey(
        "Run",
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    task = models.ForeignKey(
        "Task",
        null=True,
        on_delete=models.DO_NOTHING,
        related_name="events",
        db_index=False,
        db_constraint=False,
    )
    attempt_id = models.UUIDField(null=True)
    state_version = models.BigIntegerField(null=True)  # the task's, after the fact
    actor = models.TextField()  # Actor.label
    request_id = models.TextField(default="")
    at = models.DateTimeField()
    data = models.JSONField(default=dict)
    refusal_key = models.TextField(null=True)
    repeats = models.IntegerField(default=0)
    last_at = models.DateTimeField(null=True)
    #: The transaction that wrote the row last: the order in which the roll-up counts (contract 14).
    xid = TransactionId(db_default=Func(function="pg_current_xact_id"))

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="event_refusal_once",
                fields=["refusal_key"],
                condition=Q(refusal_key__isnull=False),
            )
        ]
        indexes = [
            models.Index(name="event_by_transaction", fields=["xid", "id"]),
            models.Index(
                name="event_by_task", fields=["task", "id"], condition=Q(task__isnull=False)
            ),
            models.Index(
                F("id").desc(), name="event_refusals", condition=Q(refusal_key__isnull=False)
            ),
            models.Index(F("id").desc(), name="event_without_task", condition=Q(task__isnull=True)),
            # What the epoch was when something was told: an audit asks for each event.
            models.Index(
                name="event_bumps", fields=["queue", "id"], condition=Q(kind="EPOCH_BUMPED")
            ),
            # The story of an incident; few rows, and the task is looked at first.
            models.Index(
                KT("data__incident_id"),
                F("id"),
                name="event_by_incident",
                condition=Q(task__isnull=True, data__has_key="incident_id"),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.task_id}"


class StoredAnswer(models.Model):
    """The answer to an Idempotency-Key, scoped to (caller, owner, route) (contract 5)."""

    id = models.BigAutoField(primary_key=True)
    scope = models.TextField()
    key = models.TextField()
    request_digest = models.TextField()
    answer = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(name="stored_answer", fields=["scope", "key"])]
        # An expired key stays without its answer, for good: only what is still to go is looked through.
        indexes = [
            models.Index(name="stored_answer_due", fields=["created_at"], condition=~Q(answer=""))
        ]

    def __str__(self) -> str:
        return self.key
