"""What the database itself refuses about incidents (contract 12, 16): no step is skipped, no queue has two."""

from django.db import migrations

from ._triggers import append_only, arrows, refuse, unguarded

INCIDENT_ARROWS = [
    "STOPPED>BUMPED",
    "STOPPED>ABORTED",
    "BUMPED>DRAINED",
    "DRAINED>SWITCHED",
    "SWITCHED>CLOSED",
]
PROTECTED = (
    "incident",
    "incidentqueue",
    "incidentstep",
    "incidenthold",
    "incidenteffect",
    "candidatedecision",
)
APPEND_ONLY = ("incidentstep", "incidenthold", "incidenteffect", "candidatedecision")

#: Reached only where a queue's intake is being opened (the trigger's WHEN sees to that).
FUNCTIONS = """
CREATE FUNCTION tenure_incident_keeps_intake_stopped() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM 1 FROM coordinator_incidentqueue WHERE queue_id = NEW.id AND is_open;
  IF FOUND THEN
    RAISE EXCEPTION 'queue % has an open incident: its intake stays stopped until that is over', NEW.name
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NEW;
END $$;
"""
DROP_FUNCTIONS = "DROP FUNCTION tenure_incident_keeps_intake_stopped();"

TRIGGERS = [
    *(unguarded(table) for table in PROTECTED),
    *(append_only(table) for table in APPEND_ONLY),
    arrows("incident", INCIDENT_ARROWS),
    refuse(
        "incident",
        "incident_change_takes_version",
        "NEW.version < OLD.version OR (OLD.state <> NEW.state AND NEW.version = OLD.version)",
        "a step takes a new version",
    ),
    refuse(
        "incident",
        "incident_is_bound",
        "NEW.reason <> OLD.reason OR NEW.opened_by <> OLD.opened_by OR NEW.opened_by_id <> OLD.opened_by_id"
        " OR NEW.opened_at <> OLD.opened_at OR NEW.covers_all <> OLD.covers_all",
        "who opened it, when and why never changes",
    ),
    refuse(
        "incidentqueue",
        "incidentqueue_is_bound",
        "NEW.incident_id <> OLD.incident_id OR NEW.queue_id <> OLD.queue_id"
        " OR (NEW.is_open AND NOT OLD.is_open)"
        " OR NEW.intake_before <> OLD.intake_before OR NEW.pool_before <> OLD.pool_before"
        " OR (OLD.epoch_after IS NOT NULL AND (NEW.epoch_before, NEW.epoch_after)"
        " IS DISTINCT FROM (OLD.epoch_before, OLD.epoch_after))"
        " OR (OLD.pool_after IS NOT NULL AND NEW.pool_after IS DISTINCT FROM OLD.pool_after)",
        "what is known of a queue in an incident is never taken back",
    ),
    (
        "CREATE TRIGGER queue_intake_in_incident BEFORE UPDATE OF intake ON coordinator_queue FOR EACH ROW"
        " WHEN (OLD.intake = 'STOPPED' AND NEW.intake = 'OPEN')"
        " EXECUTE FUNCTION tenure_incident_keeps_intake_stopped();",
        "DROP TRIGGER queue_intake_in_incident ON coordinator_queue;",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0011_incidents")]

    operations = [
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
    ]
