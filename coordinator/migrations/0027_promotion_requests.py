"""A promotion is asked for by one person and confirmed by another (contract 13, 16)."""

import django.db.models.deletion
from django.db import migrations, models

from coordinator.states import PromotionState, RolloutStage

from ._triggers import arrows, refuse, unguarded

STATES = [*map(PromotionState, ("ASKED", "CONFIRMED", "WITHDRAWN", "EXPIRED", "VOID"))]
STAGES = [
    (stage, stage)
    for stage in map(RolloutStage, ("SHADOW", "IDEMPOTENT_READS", "CONDITIONAL_WRITES"))
]
ARROWS = ["ASKED>CONFIRMED", "ASKED>WITHDRAWN", "ASKED>EXPIRED", "ASKED>VOID"]
TRIGGERS = [
    unguarded("promotionrequest"),
    arrows("promotionrequest", ARROWS),
    refuse(
        "promotionrequest",
        "promotionrequest_is_bound",
        "(NEW.queue_id, NEW.from_stage, NEW.to_stage, NEW.scheduler_epoch, NEW.evidence, NEW.evidence_digest,"
        " NEW.reason, NEW.requested_by, NEW.requested_by_id, NEW.requested_at, NEW.expires_at)"
        " IS DISTINCT FROM (OLD.queue_id, OLD.from_stage, OLD.to_stage, OLD.scheduler_epoch, OLD.evidence,"
        " OLD.evidence_digest, OLD.reason, OLD.requested_by, OLD.requested_by_id, OLD.requested_at, OLD.expires_at)"
        " OR (OLD.state <> 'ASKED' AND (NEW.ended_at, NEW.ended_by, NEW.end_reason, NEW.is_alone)"
        " IS DISTINCT FROM (OLD.ended_at, OLD.ended_by, OLD.end_reason, OLD.is_alone))",
        "who asked for what on which figures, and what came of it, never changes",
    ),
    refuse(
        "promotionrequest",
        "promotionrequest_is_kept",
        "coalesce(current_setting('tenure.point', true), '') <> 'prune'",
        "it is history",
        event="DELETE",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0026_bulk_snoozes")]

    operations = [
        migrations.CreateModel(
            name="PromotionRequest",
            fields=[
                ("request_id", models.UUIDField(primary_key=True, serialize=False)),
                (
                    "state",
                    models.TextField(
                        choices=[(state, state) for state in STATES], default=PromotionState.ASKED
                    ),
                ),
                ("from_stage", models.TextField(choices=STAGES)),
                ("to_stage", models.TextField(choices=STAGES)),
                ("scheduler_epoch", models.BigIntegerField()),
                ("evidence", models.TextField()),
                ("evidence_digest", models.TextField()),
                ("reason", models.TextField()),
                ("requested_by", models.TextField()),
                ("requested_by_id", models.IntegerField()),
                ("requested_at", models.DateTimeField()),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(null=True)),
                ("ended_by", models.TextField(null=True)),
                ("end_reason", models.TextField(null=True)),
                ("is_alone", models.BooleanField(default=False)),
                (
                    "queue",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="promotion_requests",
                        to="coordinator.queue",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(fields=["queue", "-request_id"], name="promotionrequest_by_queue")
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(state__in=STATES), name="promotionrequest_state"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(state=PromotionState.ASKED, ended_at__isnull=True)
                        | models.Q(~models.Q(state=PromotionState.ASKED), ended_at__isnull=False),
                        name="promotionrequest_ended",
                    ),
                    models.UniqueConstraint(
                        condition=models.Q(state=PromotionState.ASKED),
                        fields=("queue",),
                        name="promotionrequest_one_open",
                    ),
                ],
            },
        ),
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
    ]
