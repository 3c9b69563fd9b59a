"""A part of the intake before the whole: how much, since when, by whom; and what the database refuses about it."""

import django.db.models.deletion
from django.db import migrations, models
from django.db.models import Q

from ._triggers import append_only, unguarded

FUNCTIONS = """
CREATE FUNCTION tenure_share_only_after_the_switch() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM coordinator_incidentqueue l JOIN coordinator_incident i ON i.incident_id = l.incident_id
  WHERE l.queue_id = NEW.id AND l.is_open AND i.state = 'SWITCHED';
  IF NOT FOUND THEN
    RAISE EXCEPTION 'queue %: a part of the intake is let in by an incident after its switch only', NEW.name
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NEW;
END $$;
"""
DROP_FUNCTIONS = "DROP FUNCTION tenure_share_only_after_the_switch();"

TRIGGERS = [
    unguarded("incidentcanary"),
    append_only("incidentcanary"),
    (
        "CREATE TRIGGER queue_share_in_incident BEFORE UPDATE OF intake_share ON coordinator_queue FOR EACH ROW"
        " WHEN (NEW.intake_share > OLD.intake_share) EXECUTE FUNCTION tenure_share_only_after_the_switch();",
        "DROP TRIGGER queue_share_in_incident ON coordinator_queue;",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0024_who_says_what")]

    operations = [
        migrations.AddField(
            model_name="queue",
            name="intake_share",
            field=models.SmallIntegerField(default=0, db_default=0),
        ),
        migrations.AddConstraint(
            model_name="queue",
            constraint=models.CheckConstraint(
                condition=Q(intake_share=0)
                | Q(intake="STOPPED", intake_share__gte=1, intake_share__lt=100),
                name="queue_intake_share",
            ),
        ),
        migrations.CreateModel(
            name="IncidentCanary",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("version", models.BigIntegerField()),
                ("share", models.SmallIntegerField()),
                ("actor", models.TextField()),
                ("address", models.TextField(default="")),
                ("request_id", models.TextField(default="")),
                ("reason", models.TextField()),
                ("at", models.DateTimeField()),
                ("commits", models.IntegerField(null=True)),
                ("fenced", models.IntegerField(null=True)),
                ("receipt", models.JSONField(default=dict)),
                (
                    "incident",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="canaries",
                        to="coordinator.incident",
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("incident", "version"), name="incident_canary_once"
                    ),
                    models.CheckConstraint(
                        condition=Q(share__gte=0, share__lt=100), name="incident_canary_share"
                    ),
                ]
            },
        ),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
    ]
