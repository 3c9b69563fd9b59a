"""Coverage: how many of the writes that the database counted had passed the guard (contract 14)."""

from django.db import models


class CoverageHour(models.Model):
    """The writes at one point within one clock hour, as the triggers counted them. Rolled up, never guessed.

    `counted` rows count for coverage, `guarded` of them belonged to a task that the guard had
    passed; `kept` is the record of refused calls. An act (of a person, or of the system) is
    no acceptance point: its rows are counted apart.
    """

    pk = models.CompositePrimaryKey("hour", "point", "is_act")
    hour = models.DateTimeField()
    point = models.TextField()
    is_act = models.BooleanField()
    statements = models.BigIntegerField(default=0)
    counted = models.BigIntegerField(default=0)
    guarded = models.BigIntegerField(default=0)
    kept = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.point} {self.hour}"


class UncoveredWrite(models.Model):
    """A statement that wrote rows which the guard had not passed: when, where, and by which session."""

    id = models.BigAutoField(primary_key=True)
    at = models.DateTimeField()
    point = models.TextField()
    written_to = models.TextField()
    rows = models.IntegerField()
    missing = models.IntegerField()
    session = models.TextField(default="")

    class Meta:
        indexes = [models.Index(name="uncovered_write_at", fields=["at"])]

    def __str__(self) -> str:
        return f"{self.missing} of {self.rows} rows of {self.written_to} at {self.point}"


class RefusedWrites(models.Model):
    """One row: how far the sequence of refused writes has been rolled up."""

    id = models.SmallIntegerField(primary_key=True)
    seen = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return str(self.seen)
