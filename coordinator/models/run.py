"""Runs and the edges of their DAGs (contract 2, 6)."""

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from coordinator.states import RunState

from .queue import Queue


class Run(models.Model):
    """A DAG of nodes submitted at once. Its integer key names its gate (contract 4)."""

    id = models.AutoField(primary_key=True)
    run_id = models.UUIDField(unique=True)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="runs")
    name = models.TextField(default="")
    metadata = models.TextField(default="{}")  # RFC 8785 text, as every stored JSON value
    state = models.TextField(choices=[(s, s) for s in RunState], default=RunState.ACTIVE)
    node_count = models.IntegerField()
    submitted_by = models.TextField()  # Actor.label; four eyes compares it (contract 9)
    created_at = models.DateTimeField(db_default=Now())
    finished_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(name="run_state", condition=Q(state__in=list(RunState))),
            models.CheckConstraint(
                name="run_finished",
                condition=Q(state=RunState.ACTIVE, finished_at=None)
                | ~Q(state=RunState.ACTIVE) & Q(finished_at__isnull=False),
            ),
        ]
        indexes = [
            models.Index(name="run_active", fields=["id"], condition=Q(state=RunState.ACTIVE)),
            # The few that people look for. A run that commits writes nothing here.
            models.Index(
                name="run_not_committed",
                fields=["id"],
                condition=Q(state__in=[RunState.CANCELLED, RunState.FAILED]),
            ),
            models.Index(name="run_by_queue", fields=["queue", "-id"]),
            # What is over for long is found by it, and that nothing is.
            models.Index(
                name="run_over", fields=["finished_at"], condition=Q(finished_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.name or str(self.run_id)


class Dependency(models.Model):
    """`child` may be released once `parent` has its canonical commit.

    The two are the current tasks of their nodes: a revision moves the edges of its node to
    the new task, under the exclusive run gate.
    """

    pk = models.CompositePrimaryKey("parent_id", "child_id")
    parent = models.ForeignKey(
        "Task", on_delete=models.CASCADE, related_name="edges_out", db_index=False
    )
    child = models.ForeignKey("Task", on_delete=models.CASCADE, related_name="edges_in")

    def __str__(self) -> str:
        return f"{self.parent_id} → {self.child_id}"
