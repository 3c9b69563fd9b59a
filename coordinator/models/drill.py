"""Fence drills: the guard, tried on every queue (contract 14)."""

from django.db import models

from .queue import Queue


class DrillRun(models.Model):
    """One drill of one queue. `passed` is None until it is over, and where a bump crossed it.

    `steps`: [{"step", "expected", "answered", "passed"}], in order.
    """

    id = models.BigAutoField(primary_key=True)
    queue = models.ForeignKey(
        Queue, on_delete=models.CASCADE, related_name="drills", db_index=False
    )
    asked_by = models.TextField()
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    passed = models.BooleanField(null=True)
    steps = models.JSONField(default=list)

    class Meta:
        indexes = [
            models.Index(name="drill_by_queue", fields=["queue", "-id"]),
            models.Index(
                name="drill_passed", fields=["queue", "-id"], condition=models.Q(passed=True)
            ),
        ]

    def __str__(self) -> str:
        return f"{self.queue_id} {self.started_at}"
