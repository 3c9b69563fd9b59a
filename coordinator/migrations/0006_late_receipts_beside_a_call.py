"""A receipt that turns up late is taken whatever else is out at its downstream (contract 8.3).

The index refused it, and the evidence was lost with the transaction.
"""

from django.db import migrations, models

import coordinator.states


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0005_from_approval_to_reconciliation"),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name="effectslot",
            name="effect_one_out_per_scope",
        ),
        migrations.AddConstraint(
            model_name="effectslot",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("happened_on_file", False),
                    ("is_exclusive", True),
                    (
                        "state__in",
                        [
                            coordinator.states.EffectState["ACCEPTED"],
                            coordinator.states.EffectState["RESENDABLE"],
                            coordinator.states.EffectState["UNKNOWN"],
                        ],
                    ),
                ),
                fields=("downstream", "serial_scope"),
                name="effect_one_out_per_scope",
            ),
        ),
    ]
