"""Events carry their transaction, so that they are counted once and in order; counters (contract 14)."""

from django.db import migrations, models

import coordinator.models.fields

#: In two steps, so that no row is rewritten: those that are there count as of the oldest transaction.
XID = """
ALTER TABLE coordinator_event ADD COLUMN xid xid8 NOT NULL DEFAULT '3'::xid8;
ALTER TABLE coordinator_event ALTER COLUMN xid SET DEFAULT pg_current_xact_id();
"""
DROP_XID = "ALTER TABLE coordinator_event DROP COLUMN xid"
STORAGE = """
ALTER TABLE coordinator_tally SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
ALTER TABLE coordinator_rollup SET (fillfactor = 50);
"""


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0008_coverage"),
    ]

    operations = [
        migrations.CreateModel(
            name="CountedAttempt",
            fields=[
                ("attempt_id", models.UUIDField(primary_key=True, serialize=False)),
                ("input_tokens", models.BigIntegerField()),
                ("output_tokens", models.BigIntegerField()),
                ("compute_seconds", models.FloatField()),
                ("cost_usd", models.DecimalField(decimal_places=6, max_digits=14)),
            ],
        ),
        migrations.CreateModel(
            name="CountedRefusal",
            fields=[
                ("event_id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("counted", models.IntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="RollUp",
            fields=[
                ("id", models.IntegerField(primary_key=True, serialize=False)),
                ("xid", coordinator.models.fields.TransactionId()),
                ("event_id", models.BigIntegerField()),
                ("floor_id", models.BigIntegerField(default=0)),
                ("sampled_xid", coordinator.models.fields.TransactionId()),
                ("sampled_at", models.DateTimeField()),
                ("rolled_until", models.DateTimeField()),
                ("closed_until", models.DateTimeField()),
                ("rolled_at", models.DateTimeField()),
                ("gauged_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="Tally",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "span",
                        "name",
                        "since",
                        "queue_id",
                        "label",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("span", models.TextField()),
                ("name", models.TextField()),
                ("since", models.DateTimeField()),
                ("queue_id", models.IntegerField()),
                ("label", models.TextField(default="")),
                ("count", models.BigIntegerField(default=0)),
                ("total", models.DecimalField(decimal_places=6, default=0, max_digits=28)),
            ],
        ),
        migrations.RunSQL(STORAGE, migrations.RunSQL.noop),
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(XID, DROP_XID)],
            state_operations=[
                migrations.AddField(
                    model_name="event",
                    name="xid",
                    field=coordinator.models.fields.TransactionId(
                        db_default=models.Func(function="pg_current_xact_id")
                    ),
                ),
            ],
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["xid", "id"], name="event_by_transaction"),
        ),
    ]
