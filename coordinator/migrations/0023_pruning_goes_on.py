"""The look for what is over goes on where it stopped, and passes no expired key again (contract 17)."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0022_shadow_counts")]

    operations = [
        migrations.CreateModel(
            name="PruneCursor",
            fields=[
                ("kind", models.TextField(primary_key=True, serialize=False)),
                ("after_time", models.DateTimeField(null=True)),
                ("after_id", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.RemoveIndex(model_name="storedanswer", name="stored_answer_age"),
        migrations.AddIndex(
            model_name="storedanswer",
            index=models.Index(
                condition=~models.Q(answer=""), fields=["created_at"], name="stored_answer_due"
            ),
        ),
    ]
