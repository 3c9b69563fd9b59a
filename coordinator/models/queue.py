"""Queues, pools and downstreams: what operators register (contract 2, 8, 12)."""

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Now

from coordinator.intake_shares import WHOLE
from coordinator.shadow.lanes import SUFFIX
from coordinator.states import MIN_TTL_SECONDS, Guarantee, Intake, RolloutStage


class Pool(models.Model):
    """A fleet of workers. A worker credential belongs to one pool."""

    name = models.TextField(primary_key=True)
    min_contract = models.TextField(default="claim.v1")
    created_at = models.DateTimeField(db_default=Now())

    def __str__(self) -> str:
        return self.name


class LiveQueues(models.Manager["Queue"]):
    """Queues as people know them, without the lanes beside them where runs are rehearsed."""

    def get_queryset(self) -> models.QuerySet["Queue"]:
        return super().get_queryset().exclude(name__endswith=SUFFIX)


class Queue(models.Model):
    """A lane of tasks with one scheduler. Its integer key names its gate (contract 4)."""

    id = models.AutoField(primary_key=True)
    name = models.TextField(unique=True)
    scheduler_epoch = models.BigIntegerField(default=1)
    intake = models.TextField(choices=[(s, s) for s in Intake], default=Intake.OPEN)
    #: Per cent of the tasks that are let in although the intake is STOPPED: the canary of an incident.
    intake_share = models.SmallIntegerField(default=0, db_default=0)
    active_pool = models.ForeignKey(Pool, on_delete=models.PROTECT, related_name="queues")
    rollout_stage = models.TextField(
        choices=[(s, s) for s in RolloutStage], default=RolloutStage.CONDITIONAL_WRITES
    )
    stage_since = models.DateTimeField(db_default=Now())
    shadow_settle_seconds = models.IntegerField(default=300)
    promotion_rounds = models.IntegerField(default=1_000)
    default_ttl_seconds = models.IntegerField(default=60)
    max_ttl_seconds = models.IntegerField(default=300)
    max_lease_seconds = models.IntegerField(default=86_400)
    max_attempts = models.IntegerField(default=5)
    retry_backoff_seconds = models.IntegerField(default=5)
    retry_backoff_max_seconds = models.IntegerField(default=300)
    created_at = models.DateTimeField(db_default=Now())

    objects = LiveQueues()
    lanes: models.Manager["Queue"] = models.Manager()  # rehearsal lanes, too

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="queue_lease_policy",
                condition=Q(default_ttl_seconds__gte=MIN_TTL_SECONDS)
                & Q(default_ttl_seconds__lte=F("max_ttl_seconds"))
                & Q(max_ttl_seconds__lte=F("max_lease_seconds")),
            ),
            models.CheckConstraint(
                name="queue_retry_policy",
                condition=Q(max_attempts__gte=1)
                & Q(retry_backoff_seconds__gte=0)
                & Q(retry_backoff_seconds__lte=F("retry_backoff_max_seconds")),
            ),
            models.CheckConstraint(
                name="queue_shadow_policy",
                condition=Q(shadow_settle_seconds__gte=0, promotion_rounds__gte=1),
            ),
            models.CheckConstraint(name="queue_intake", condition=Q(intake__in=list(Intake))),
            models.CheckConstraint(
                name="queue_intake_share",
                condition=Q(intake_share=0)
                | Q(intake=Intake.STOPPED, intake_share__gte=1, intake_share__lt=WHOLE),
            ),
            models.CheckConstraint(
                name="queue_stage", condition=Q(rollout_stage__in=list(RolloutStage))
            ),
        ]

    def __str__(self) -> str:
        return self.name


class Downstream(models.Model):
    """An outside system that effects go to, with what it can guarantee (contract 8)."""

    id = models.AutoField(primary_key=True)
    name = models.TextField(unique=True)
    kind = models.TextField()
    guarantee = models.TextField(choices=[(g, g) for g in Guarantee])
    call_timeout_seconds = models.IntegerField(default=30)
    key_valid_seconds = models.IntegerField(null=True)
    settle_seconds = models.IntegerField(default=60)
    refuses_late = models.BooleanField(default=False)
    serial_scope = models.TextField(null=True)
    probe = models.TextField(null=True)
    required_approvers = models.IntegerField(default=1)
    #: Places in payloads (RFC 6901, `*` for any one member) whose values people are shown masked.
    secret_pointers = ArrayField(models.TextField(), default=list, db_default=[])
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [
            models.CheckConstraint(
                name="downstream_guarantee", condition=Q(guarantee__in=list(Guarantee))
            ),
            models.CheckConstraint(
                name="downstream_key_validity",
                condition=~Q(guarantee=Guarantee.IDEMPOTENT_KEY)
                | Q(key_valid_seconds__isnull=False, key_valid_seconds__gte=1),
            ),
            models.CheckConstraint(
                name="downstream_seconds",
                condition=Q(call_timeout_seconds__gte=1) & Q(settle_seconds__gte=0),
            ),
            models.CheckConstraint(
                name="downstream_approvers", condition=Q(required_approvers__in=[1, 2])
            ),
        ]

    def __str__(self) -> str:
        return self.name
