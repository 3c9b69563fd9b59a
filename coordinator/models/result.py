"""Staged results, blobs, canonical commits and shared memory (contract 2, 7, 11)."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from .attempt import Attempt
from .task import Task


class Blob(models.Model):
    """Bytes that an attempt put into its isolated area; immutable, visible once complete."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, related_name="blobs", db_index=False
    )
    name = models.TextField()
    digest = models.TextField()
    size_bytes = models.BigIntegerField()
    content_type = models.TextField(default="application/octet-stream")
    path = models.TextField()
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(name="blob_name", fields=["attempt", "name"])]

    def __str__(self) -> str:
        return self.name


class StagedResult(models.Model):
    """A result that an attempt put aside. Late attempts may stage too: never canonical."""

    id = models.BigAutoField(primary_key=True)
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, related_name="staged", db_index=False
    )
    result_digest = models.TextField()
    result = models.TextField()  # RFC 8785 text
    canonical_candidate = models.BooleanField()
    staged_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="staged_result", fields=["attempt", "result_digest"])
        ]

    def __str__(self) -> str:
        return self.result_digest


class CanonicalCommit(models.Model):
    """The one accepted result of a task. Append-only."""

    result_commit_id = models.UUIDField(primary_key=True)
    task = models.OneToOneField(Task, on_delete=models.PROTECT, related_name="canonical_commit")
    attempt = models.ForeignKey(
        Attempt, on_delete=models.PROTECT, related_name="+", db_index=False, db_constraint=False
    )  # a trigger compares it with the task's (contract 16)
    claim_generation = models.BigIntegerField()
    scheduler_epoch = models.BigIntegerField()
    input_digest = models.TextField()
    result_digest = models.TextField()
    result = models.TextField(null=True)  # RFC 8785 text; null where a blob holds it
    blob = models.ForeignKey(
        Blob, null=True, on_delete=models.PROTECT, related_name="+", db_index=False
    )
    parents = models.JSONField(default=list)  # [{node_id, result_commit_id, result_digest}]
    committed_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="commit_has_one_result",
                condition=Q(result__isnull=False, blob=None) | Q(result=None, blob__isnull=False),
            )
        ]
        # Whoever takes a blob away asks for its commit. Most commits have none and are not in it.
        indexes = [
            models.Index(name="commit_by_blob", fields=["blob"], condition=Q(blob__isnull=False))
        ]

    def __str__(self) -> str:
        return str(self.result_commit_id)


class MemoryKey(models.Model):
    """The current version of one key of shared memory; what a commit locks."""

    id = models.BigAutoField(primary_key=True)
    namespace = models.TextField()
    key = models.TextField()
    version = models.BigIntegerField(default=0)  # 0: never written

    class Meta:
        constraints = [models.UniqueConstraint(name="memory_key", fields=["namespace", "key"])]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.key}"


class MemoryFact(models.Model):
    """One version of one key, written by a canonical commit. Append-only."""

    id = models.BigAutoField(primary_key=True)
    memory_key = models.ForeignKey(
        MemoryKey, on_delete=models.PROTECT, related_name="facts", db_index=False
    )
    version = models.BigIntegerField()
    value = models.TextField()  # RFC 8785 text
    value_digest = models.TextField()
    result_commit = models.ForeignKey(
        CanonicalCommit, on_delete=models.PROTECT, related_name="memory"
    )
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="memory_version", fields=["memory_key", "version"])
        ]

    def __str__(self) -> str:
        return f"{self.memory_key_id} v{self.version}"
