"""What is over for long is found by an index (contract 17)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0015_identity_refusals"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("finished_at__isnull", False)),
                fields=["finished_at"],
                name="run_over",
            ),
        ),
    ]
