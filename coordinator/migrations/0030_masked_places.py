"""Places in payloads that people are shown masked, and who may reveal them (console design, 3.7)."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0029_saved_views")]

    operations = [
        migrations.AddField(
            "downstream",
            "secret_pointers",
            django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(), db_default=[], default=list, size=None
            ),
        ),
        migrations.AlterModelOptions(
            name="access",
            options={
                "default_permissions": (),
                "managed": False,
                "permissions": [
                    ("view", "See queues, runs, tasks, attempts and events"),
                    ("view_payload", "See inputs, results and payloads"),
                    ("reveal_secrets", "Reveal masked values in payloads, on record"),
                    ("submit", "Submit runs and tasks"),
                    ("cancel", "Cancel, revise and reopen tasks"),
                    ("approve", "Approve or reject an effect"),
                    ("reconcile", "Settle UNKNOWN effects"),
                    ("assert_absence", "Assert without proof that an effect did not happen"),
                    ("operate_incidents", "Stop and open intake, run incidents"),
                    ("bump_epoch", "Raise a queue's epoch"),
                    ("administer", "Manage queues, pools, downstreams and credentials"),
                ],
            },
        ),
    ]
