"""Which database this is, what is done after a restore, and which tasks it holds (contract 12)."""

import django.db.models.deletion
import django.db.models.functions.datetime
from django.db import migrations, models

import coordinator.states


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0013_drills"),
    ]

    operations = [
        migrations.CreateModel(
            name="Installation",
            fields=[
                ("id", models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ("system_identifier", models.TextField()),
                ("timeline", models.BigIntegerField()),
                ("database_oid", models.BigIntegerField()),
                ("database", models.TextField()),
                ("server_started", models.DateTimeField(null=True)),
                ("sealed_by", models.TextField()),
                ("held_because", models.TextField(null=True)),
                ("held_for_good", models.BooleanField(default=False)),
                ("held_since", models.DateTimeField(null=True)),
                (
                    "confirmed_at",
                    models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
                ),
                ("confirmed_by", models.TextField()),
            ],
        ),
        migrations.CreateModel(
            name="Restore",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                ("begun_at", models.DateTimeField()),
                ("begun_by", models.TextField()),
                ("reason", models.TextField()),
                ("found", models.JSONField()),
                ("epochs", models.JSONField(default=dict)),
                ("finished_at", models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name="RestoreHold",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("held_at", models.DateTimeField()),
                ("released_at", models.DateTimeField(null=True)),
                ("released_by", models.TextField(null=True)),
                ("reason", models.TextField(null=True)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name="effectslot",
            name="effect_one_out_per_scope",
        ),
        migrations.AddField(
            model_name="effectslot",
            name="out_on_suspicion",
            field=models.BooleanField(db_default=False),
        ),
        migrations.AddConstraint(
            model_name="effectslot",
            constraint=models.UniqueConstraint(
                condition=models.Q(
                    ("happened_on_file", False),
                    ("is_exclusive", True),
                    ("out_on_suspicion", False),
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
        migrations.AddConstraint(
            model_name="installation",
            constraint=models.CheckConstraint(
                condition=models.Q(("id", 1)), name="installation_is_one"
            ),
        ),
        migrations.AddConstraint(
            model_name="installation",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("held_because", None), ("held_for_good", False), ("held_since", None)
                    ),
                    models.Q(("held_because__isnull", False), ("held_since__isnull", False)),
                    _connector="OR",
                ),
                name="installation_hold",
            ),
        ),
        migrations.AddConstraint(
            model_name="restore",
            constraint=models.UniqueConstraint(
                condition=models.Q(("finished_at", None)),
                fields=("finished_at",),
                name="restore_one_open",
                nulls_distinct=False,
            ),
        ),
        migrations.AddField(
            model_name="restorehold",
            name="restore",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="holds",
                to="coordinator.restore",
            ),
        ),
        migrations.AddField(
            model_name="restorehold",
            name="task",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="restore_holds",
                to="coordinator.task",
            ),
        ),
        migrations.AddIndex(
            model_name="restorehold",
            index=models.Index(
                condition=models.Q(("released_at", None)), fields=["task"], name="restore_hold_open"
            ),
        ),
        migrations.AddConstraint(
            model_name="restorehold",
            constraint=models.UniqueConstraint(
                fields=("task", "restore"), name="restore_hold_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="restorehold",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("reason", None), ("released_at", None), ("released_by", None)),
                    models.Q(
                        ("reason__isnull", False),
                        ("released_at__isnull", False),
                        ("released_by__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="restore_hold_released",
            ),
        ),
    ]
