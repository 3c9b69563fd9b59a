"""Where and for what a token was last used, and its last four characters to tell it apart by."""

from django.db import migrations, models


def text(model: str, name: str) -> migrations.AddField:
    return migrations.AddField(model_name=model, name=name, field=models.TextField(db_default=""))


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0006_late_receipts_beside_a_call")]

    operations = [
        text("credential", "last4"),
        text("credential", "last_used_from"),
        text("credential", "last_used_route"),
        text("credential", "last_contract"),
        text("operatortoken", "last4"),
        text("operatortoken", "last_used_from"),
        text("operatortoken", "last_used_route"),
        migrations.AddField(
            model_name="operatortoken", name="revoked_by", field=models.TextField(null=True)
        ),
    ]
