"""Tasks: one node at one revision; what workers claim (contract 2)."""

from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from coordinator.states import SETTLED_TASK, Replay, TaskState

from .queue import Queue
from .run import Run


class SerialScope(models.Model):
    """A serial key of one queue. Its integer key names its advisory lock: no hash collisions."""

    id = models.AutoField(primary_key=True)
    queue = models.ForeignKey(Queue, on_delete=models.PROTECT)
    #: `key:<serial_key>`, or `kind:<kind>` for NON_REPLAYABLE tasks without a key (contract 7)
    token = models.TextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(name="serial_scope_token", fields=["queue", "token"])
        ]

    def __str__(self) -> str:
        return self.token


class Task(models.Model):
    task_id = models.UUIDField(primary_key=True)
    run = models.ForeignKey(Run, on_delete=models.PROTECT, related_name="tasks", db_index=False)
    # No foreign key in the database: its check would share-lock the queue's row in every
    # submission, which is a hot spot. Services take the queue from the run.
    queue = models.ForeignKey(
        Queue, on_delete=models.PROTECT, related_name="tasks", db_index=False, db_constraint=False
    )
    node_id = models.TextField()
    kind = models.TextField()
    revision = models.IntegerField(default=1)
    supersedes = models.ForeignKey(
        "self", null=True, on_delete=models.PROTECT, related_name="revisions", db_index=False
    )
    state = models.TextField(choices=[(s, s) for s in TaskState])
    priority = models.IntegerField(default=0)
    not_before = models.DateTimeField(null=True)
    input = models.TextField()  # RFC 8785 text; never changes
    input_digest = models.TextField()
    replay = models.TextField(choices=[(r, r) for r in Replay], default=Replay.READ_ONLY)
    slots = models.JSONField(default=dict)  # {slot: downstream}
    serial_key = models.TextField(null=True)
    serial_scope = models.ForeignKey(
        SerialScope, null=True, on_delete=models.PROTECT, db_index=False
    )
    #: Held from the grant until nobody can act for the task any more (contract 7).
    serial_held = models.BooleanField(default=False)
    state_version = models.BigIntegerField(default=1)
    scheduler_epoch = models.BigIntegerField(default=0)  # stamped by the last grant
    claim_generation = models.BigIntegerField(default=0)
    cancel_generation = models.BigIntegerField(default=0)
    attempt_id = models.UUIDField(null=True)
    owner = models.TextField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    #: When the task may be claimed: set while READY, and by the sweep on a lapsed lease.
    #: The claim index holds only rows that have it, so finished ones never enter.
    claimable_at = models.DateTimeField(null=True)
    attempts = models.IntegerField(default=0)
    #: Attempts since the last reopen that ended EXPIRED or FAILED; max_attempts bounds these.
    spent_attempts = models.IntegerField(default=0)
    max_attempts = models.IntegerField()
    dependency_count = models.IntegerField(default=0)
    pending_dependencies = models.IntegerField(default=0)
    ready_at = models.DateTimeField(null=True)
    # The commit's own unique key on the task is the constraint; this is the way back.
    result_commit = models.ForeignKey(
        "CanonicalCommit",
        null=True,
        on_delete=models.PROTECT,
        related_name="+",
        db_index=False,
        db_constraint=False,
    )
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.UniqueConstraint(
                name="task_node_revision", fields=["run", "node_id", "revision"]
            ),
            models.UniqueConstraint(
                name="task_one_successor",
                fields=["supersedes"],
                condition=Q(supersedes__isnull=False),
            ),
            models.UniqueConstraint(
                name="task_serial_holder", fields=["serial_scope"], condition=Q(serial_held=True)
            ),
            models.CheckConstraint(name="task_state", condition=Q(state__in=list(TaskState))),
            models.CheckConstraint(name="task_replay", condition=Q(replay__in=list(Replay))),
            models.CheckConstraint(
                name="task_claimed_has_attempt",
                condition=~Q(state=TaskState.CLAIMED)
                | Q(attempt_id__isnull=False, owner__isnull=False, lease_expires_at__isnull=False),
            ),
            models.CheckConstraint(
                name="task_claimed_holds_serial",
                condition=~Q(state=TaskState.CLAIMED) | Q(serial_scope=None) | Q(serial_held=True),
            ),
            models.CheckConstraint(
                name="task_committed_has_result",
                condition=(
                    ~Q(state=TaskState.COMMITTED)
                    & ~Q(state=TaskState.SUPERSEDED)
                    & Q(result_commit=None)
                )
                | Q(state=TaskState.SUPERSEDED)
                | Q(state=TaskState.COMMITTED, result_commit__isnull=False),
            ),
            models.CheckConstraint(
                name="task_ready_is_claimable",
                condition=~Q(state=TaskState.READY)
                | Q(ready_at__isnull=False, claimable_at__isnull=False, pending_dependencies=0),
            ),
            models.CheckConstraint(
                name="task_only_open_is_claimable",
                condition=Q(claimable_at=None) | Q(state__in=[TaskState.READY, TaskState.CLAIMED]),
            ),
            models.CheckConstraint(
                name="task_counters",
                condition=Q(
                    state_version__gte=1,
                    scheduler_epoch__gte=0,
                    claim_generation__gte=0,
                    cancel_generation__gte=0,
                    pending_dependencies__gte=0,
                    max_attempts__gte=1,
                ),
            ),
        ]
        indexes = [
            # The claim index. A renewal changes none of these columns (HOT).
            models.Index(
                F("queue"),
                F("priority").desc(),
                F("claimable_at"),
                name="task_claimable",
                condition=Q(claimable_at__isnull=False),
            ),
            # What the sweep and the bump look through: live leases only.
            models.Index(
                name="task_leased",
                fields=["queue"],
                condition=Q(state=TaskState.CLAIMED, claimable_at=None),
            ),
            models.Index(
                # The state is in it: whether a run of 10,000 blocked tasks can move is one probe.
                name="task_unsettled",
                fields=["run", "state"],
                condition=~Q(state__in=sorted(SETTLED_TASK)),
            ),
            models.Index(name="task_by_queue", fields=["queue", "-task_id"]),
            # Lists and counts by state, however many have committed since (case C24). Those are most, and need none.
            models.Index(
                name="task_by_state",
                fields=["state", "-task_id"],
                condition=~Q(state=TaskState.COMMITTED),
            ),
            # A queue's tasks of the states that people look for at night. Those that a task passes on its usual way
            # are not in it: claims and commits write nothing here. Both columns ascend, unlike in `task_by_state`:
            # whoever asks for that order can't be led through another queue's (selectors/state_lists.py).
            models.Index(
                name="task_set_aside",
                fields=["queue", "state", "task_id"],
                condition=~Q(state=TaskState.BLOCKED)  # as in states.SET_ASIDE_TASK
                & ~Q(state=TaskState.READY)
                & ~Q(state=TaskState.CLAIMED)
                & ~Q(state=TaskState.COMMITTED),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.node_id} r{self.revision}"
