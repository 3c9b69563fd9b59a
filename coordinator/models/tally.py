"""Numbers rolled up from the events: counters by minute, by hour and for ever (contract 14)."""

from django.db import models

from .fields import TransactionId


class Tally(models.Model):
    """One counter, or one bucket of a histogram, of one queue in one span of time.

    `count` is how often it happened, `total` the sum of what was measured. Only the roll-up
    writes it; `queue_id` is 0 where no queue is concerned.
    """

    pk = models.CompositePrimaryKey("span", "name", "since", "queue_id", "label")
    span = models.TextField()  # tallies.Span
    name = models.TextField()  # tallies.Name
    since = models.DateTimeField()
    queue_id = models.IntegerField()
    label = models.TextField(default="")
    count = models.BigIntegerField(default=0)
    total = models.DecimalField(max_digits=28, decimal_places=6, default=0)

    def __str__(self) -> str:
        return f"{self.name} {self.label}: {self.count}"


class RollUp(models.Model):
    """How far the roll-up is: one row, moved in the transaction that moves the counters."""

    id = models.IntegerField(primary_key=True)
    #: Every event up to (xid, event_id), in this order, is counted; those up to `floor_id` are left out.
    xid = TransactionId()
    event_id = models.BigIntegerField()
    floor_id = models.BigIntegerField(default=0)
    #: A look at the database's transactions: once all before `sampled_xid` have ended and are
    #: counted, everything that happened before `sampled_at` is.
    sampled_xid = TransactionId()
    sampled_at = models.DateTimeField()
    rolled_until = models.DateTimeField()
    closed_until = models.DateTimeField()  # minutes before it never change again
    rolled_at = models.DateTimeField()  # when the roll-up last ran
    gauged_at = models.DateTimeField(null=True)  # the minute of the last samples of gauges

    def __str__(self) -> str:
        return f"up to {self.rolled_until}"


class CountedRefusal(models.Model):
    """How many times a refusal, which equal ones only raise, has been counted."""

    event_id = models.BigIntegerField(primary_key=True)
    counted = models.IntegerField()

    def __str__(self) -> str:
        return f"{self.event_id}: {self.counted}"


class CountedAttempt(models.Model):
    """What has been counted of an attempt that ended: a late call may still report more (contract 3).

    Of every one that did not commit, and of those that committed where there was any usage.
    """

    attempt_id = models.UUIDField(primary_key=True)
    input_tokens = models.BigIntegerField()
    output_tokens = models.BigIntegerField()
    compute_seconds = models.FloatField()
    cost_usd = models.DecimalField(max_digits=14, decimal_places=6)

    def __str__(self) -> str:
        return str(self.attempt_id)
