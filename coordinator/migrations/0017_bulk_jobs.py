"""Bulk jobs: what a person reviewed, frozen, and what came of each task."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0016_finished_runs"),
    ]

    operations = [
        migrations.CreateModel(
            name="BulkJob",
            fields=[
                ("bulk_id", models.UUIDField(primary_key=True, serialize=False)),
                ("verb", models.TextField(choices=[("cancel", "cancel"), ("reopen", "reopen")])),
                ("asked", models.TextField(default="")),
                ("more", models.BooleanField(default=False)),
                ("reason", models.TextField(null=True)),
                ("operator", models.IntegerField()),
                ("operator_name", models.TextField()),
                ("address", models.TextField(default="")),
                (
                    "reviewed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("started_at", models.DateTimeField(null=True)),
                ("stopped_at", models.DateTimeField(null=True)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("finished_at", None), ("started_at__isnull", False)),
                        fields=["started_at"],
                        name="bulk_at_work",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("verb__in", ["cancel", "reopen"])), name="bulk_verb"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("started_at", None), ("reason__isnull", False), _connector="OR"
                        ),
                        name="bulk_started_with_reason",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("finished_at", None), ("started_at__isnull", False), _connector="OR"
                        ),
                        name="bulk_finished_after_start",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="BulkItem",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("task_id", models.UUIDField()),
                ("node_id", models.TextField()),
                ("queue", models.TextField()),
                ("seen_state", models.TextField()),
                ("seen_version", models.BigIntegerField()),
                ("taken_at", models.DateTimeField(null=True)),
                ("outcome", models.TextField(null=True)),
                ("detail", models.TextField(default="")),
                ("done_at", models.DateTimeField(null=True)),
                (
                    "job",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="items",
                        to="coordinator.bulkjob",
                    ),
                ),
            ],
            options={
                "indexes": [
                    models.Index(
                        condition=models.Q(("outcome", None)),
                        fields=["job", "id"],
                        name="bulk_to_do",
                    )
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("job", "task_id"), name="bulk_item_once")
                ],
            },
        ),
    ]
