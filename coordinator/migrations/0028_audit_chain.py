"""The audit as a chain: a link for each event that tells what people did, and what was refused."""

import django.db.models.deletion
from django.db import migrations, models

import coordinator.models.fields

from ._triggers import append_only, unguarded

TRIGGERS = [
    unguarded("auditlink"),
    append_only("auditlink"),
    unguarded("auditchain"),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0027_promotion_requests")]

    operations = [
        migrations.CreateModel(
            name="AuditChain",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField(default=0)),
                ("digest", models.TextField()),
                ("xid", coordinator.models.fields.TransactionId()),
                ("event_id", models.BigIntegerField(default=0)),
                ("sampled_xid", coordinator.models.fields.TransactionId()),
                ("sampled_at", models.DateTimeField()),
                ("sealed_until", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(id=1), name="audit_chain_is_one")
                ]
            },
        ),
        migrations.CreateModel(
            name="AuditLink",
            fields=[
                ("number", models.BigIntegerField(primary_key=True, serialize=False)),
                ("content", models.TextField()),
                ("digest", models.TextField()),
                ("sealed_at", models.DateTimeField()),
                ("pruned", models.BooleanField(db_default=False, default=False)),
                (
                    "event",
                    models.OneToOneField(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="link",
                        to="coordinator.event",
                    ),
                ),
            ],
        ),
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
    ]
