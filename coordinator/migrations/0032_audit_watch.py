"""How far the background has verified the audit's chain, and what did not fit."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0031_tasks_by_state")]

    operations = [
        migrations.CreateModel(
            name="AuditWatch",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("number", models.BigIntegerField(default=0)),
                ("digest", models.TextField()),
                ("begun_at", models.DateTimeField()),
                ("looked_at", models.DateTimeField()),
                ("whole_at", models.DateTimeField(null=True)),
                ("misfit", models.TextField(default="")),
                ("fault_number", models.BigIntegerField(null=True)),
                ("fault_event", models.BigIntegerField(null=True)),
                ("fault_detail", models.TextField(default="")),
                ("fault_at", models.DateTimeField(null=True)),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(condition=models.Q(id=1), name="audit_watch_is_one")
                ]
            },
        ),
    ]
