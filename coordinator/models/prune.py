"""How far the look for what is over has come (contract 17)."""

from django.db import models


class PruneCursor(models.Model):
    """The last row of its kind that was looked at; the next look goes on behind it, and begins anew at the end."""

    kind = models.TextField(primary_key=True)
    after_time = models.DateTimeField(null=True)
    after_id = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return self.kind
