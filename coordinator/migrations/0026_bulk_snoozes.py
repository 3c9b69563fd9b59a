"""Bulk jobs that hold tasks back until a time, and take that back."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0025_canaries"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="bulkjob",
            name="bulk_verb",
        ),
        migrations.AddField(
            model_name="bulkitem",
            name="seen_not_before",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="bulkjob",
            name="not_before",
            field=models.DateTimeField(null=True),
        ),
        migrations.AddField(
            model_name="bulkjob",
            name="undoes",
            field=models.UUIDField(null=True),
        ),
        migrations.AlterField(
            model_name="bulkjob",
            name="verb",
            field=models.TextField(
                choices=[
                    ("cancel", "cancel"),
                    ("reopen", "reopen"),
                    ("snooze", "snooze"),
                    ("wake", "wake"),
                ]
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkjob",
            constraint=models.CheckConstraint(
                condition=models.Q(("verb__in", ("cancel", "reopen", "snooze", "wake"))),
                name="bulk_verb",
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkjob",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("started_at", None),
                    models.Q(("not_before__isnull", False), ("verb", "snooze")),
                    models.Q(models.Q(("verb", "snooze"), _negated=True), ("not_before", None)),
                    _connector="OR",
                ),
                name="bulk_snooze_has_time",
            ),
        ),
        migrations.AddConstraint(
            model_name="bulkjob",
            constraint=models.UniqueConstraint(
                condition=models.Q(("undoes__isnull", False)),
                fields=("undoes",),
                name="bulk_undone_once",
            ),
        ),
    ]
