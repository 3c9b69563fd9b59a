"""The audit as a chain: what was sealed, in which order, and how far it is (adr/0021)."""

from django.db import models

from .event import Event
from .fields import TransactionId


class AuditLink(models.Model):
    """An event in its place: `digest` covers the number, the digest before, and the event's content.

    Append-only, but for `pruned`: the event was taken away in its time, its content's digest stays.
    """

    number = models.BigIntegerField(primary_key=True)  # 1, 2, 3, … without a gap
    event = models.OneToOneField(
        Event, on_delete=models.DO_NOTHING, related_name="link", db_constraint=False
    )
    content = models.TextField()
    digest = models.TextField()
    sealed_at = models.DateTimeField()
    pruned = models.BooleanField(default=False, db_default=False)

    def __str__(self) -> str:
        return f"{self.number}: {self.digest}"


class AuditChain(models.Model):
    """How far the chain is: one row, moved in the transaction that adds the links."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField(default=0)
    digest = models.TextField()
    #: Every event up to (xid, event_id), in this order, is sealed, if it is one that is.
    xid = TransactionId()
    event_id = models.BigIntegerField(default=0)
    #: A look at the database's transactions, as the roll-up takes it (RollUp).
    sampled_xid = TransactionId()
    sampled_at = models.DateTimeField()
    sealed_until = models.DateTimeField()

    class Meta:
        constraints = [
            models.CheckConstraint(name="audit_chain_is_one", condition=models.Q(id=1)),
        ]

    def __str__(self) -> str:
        return f"up to {self.number}"


class AuditWatch(models.Model):
    """How far the background has verified the chain since `begun_at`, and the row that did not fit: one row.

    `whole_at`: when it last reached the chain's end, every link from the first on looked at.
    """

    id = models.SmallIntegerField(primary_key=True, default=1)
    number = models.BigIntegerField(default=0)
    digest = models.TextField()
    begun_at = models.DateTimeField()
    looked_at = models.DateTimeField()
    whole_at = models.DateTimeField(null=True)
    misfit = models.TextField(default="")
    fault_number = models.BigIntegerField(null=True)
    fault_event = models.BigIntegerField(null=True)
    fault_detail = models.TextField(default="")
    fault_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="audit_watch_is_one", condition=models.Q(id=1)),
        ]

    def __str__(self) -> str:
        return f"verified up to {self.number}"
