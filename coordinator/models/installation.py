"""Which database this is, what was done after a restore, and which tasks wait for a person since (contract 12)."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from .task import Task


class Installation(models.Model):
    """The one row in which the database says which database it is, and whether its intake is held.

    `sealed_by` is the transaction that wrote the row last. A row that was loaded from a dump was written by
    another one: that is how even a restore into the same database is seen. A migration that rewrites this
    table has to seal the row anew.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    system_identifier = models.TextField()
    timeline = models.BigIntegerField()
    database_oid = models.BigIntegerField()
    database = models.TextField()
    #: The start of the server at which all this was compared with what is kept outside.
    server_started = models.DateTimeField(null=True)
    sealed_by = models.TextField()
    #: Why intake is held, with the mend; null where it isn't.
    held_because = models.TextField(null=True)
    #: Only `after_restore` ends it; else it ends when what is kept outside can be read again.
    held_for_good = models.BooleanField(default=False)
    held_since = models.DateTimeField(null=True)
    confirmed_at = models.DateTimeField(db_default=Now())
    confirmed_by = models.TextField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="installation_is_one", condition=Q(id=1)),
            models.CheckConstraint(
                name="installation_hold",
                condition=Q(held_because=None, held_since=None, held_for_good=False)
                | Q(held_because__isnull=False, held_since__isnull=False),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.database} on {self.system_identifier}"


class Restore(models.Model):
    """One run of `after_restore`, over as many starts as it took. `epochs`: what each queue is raised to."""

    id = models.AutoField(primary_key=True)
    begun_at = models.DateTimeField()
    begun_by = models.TextField()
    reason = models.TextField()
    found = models.JSONField()  # the identity that the database had, and the one that it has now
    epochs = models.JSONField(default=dict)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["finished_at"],
                name="restore_one_open",
                condition=Q(finished_at=None),
                nulls_distinct=False,
            )
        ]

    def __str__(self) -> str:
        return f"restore {self.pk}"


class RestoreHold(models.Model):
    """A task that declares effects and was open in the restored data: what it sent since can't be seen.

    It waits until a person says that no unseen effect of it has happened (contract 12).
    """

    id = models.BigAutoField(primary_key=True)
    restore = models.ForeignKey(
        Restore, on_delete=models.PROTECT, related_name="holds", db_index=False
    )
    task = models.ForeignKey(
        Task, on_delete=models.PROTECT, related_name="restore_holds", db_index=False
    )
    held_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)
    released_by = models.TextField(null=True)
    reason = models.TextField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(name="restore_hold_once", fields=["task", "restore"]),
            models.CheckConstraint(
                name="restore_hold_released",
                condition=Q(released_at=None, released_by=None, reason=None)
                | Q(released_at__isnull=False, released_by__isnull=False, reason__isnull=False),
            ),
        ]
        indexes = [
            models.Index(name="restore_hold_open", fields=["task"], condition=Q(released_at=None))
        ]

    def __str__(self) -> str:
        return f"{self.task_id} after restore {self.restore_id}"
