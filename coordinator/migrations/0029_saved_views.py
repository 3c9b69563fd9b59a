"""Filters of the list of tasks that people keep for each other."""

import django.db.models.functions.datetime
import django.db.models.functions.text
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0028_audit_chain"),
    ]

    operations = [
        migrations.CreateModel(
            name="SavedView",
            fields=[
                ("view_id", models.UUIDField(primary_key=True, serialize=False)),
                ("name", models.TextField()),
                ("query", models.TextField()),
                ("made_by", models.IntegerField()),
                ("made_by_name", models.TextField()),
                (
                    "made_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        django.db.models.functions.text.Lower("name"), name="view_name_once"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            ("name__length__range", (1, 80)), ("query__length__range", (1, 2000))
                        ),
                        name="view_is_bounded",
                    ),
                ],
            },
        ),
    ]
