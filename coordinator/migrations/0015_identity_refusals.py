"""The row that says which database this is, what guards it, and the arrows of a hold after a restore (contract 12)."""

from importlib import import_module

from django.db import migrations

from ._triggers import arrows, refuse, unguarded

before: list[str] = [
    *import_module("coordinator.migrations.0002_refusals").TASK_ARROWS,
    "AWAITING_APPROVAL>AWAITING_RECONCILIATION",
]
create_before, drop = arrows("task", before)
create, _ = arrows(
    "task", [*before, "BLOCKED>AWAITING_RECONCILIATION", "AWAITING_RECONCILIATION>BLOCKED"]
)

#: An upgrade is no restore: the database takes itself for what it is. The first process that starts compares it
#: with what is kept outside.
TAKE_ITSELF = """
SELECT set_config('tenure.point', 'identity', true);
INSERT INTO coordinator_installation
  (id, system_identifier, timeline, database_oid, database, sealed_by, held_for_good, confirmed_by)
SELECT 1, (pg_control_system()).system_identifier::text,
       ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint,
       d.oid::bigint, d.datname, pg_current_xact_id()::xid::text, false, 'system:migrate'
FROM pg_database d WHERE d.datname = current_database();
"""
FORGET_ITSELF = """
SELECT set_config('tenure.point', 'identity', true);
DELETE FROM coordinator_installation;
"""

TRIGGERS = [
    *(unguarded(table) for table in ("installation", "restore", "restorehold")),
    refuse(
        "restore",
        "restore_is_final",
        "NEW.begun_at <> OLD.begun_at OR NEW.begun_by <> OLD.begun_by"
        " OR (OLD.finished_at IS NOT NULL AND NEW.finished_at IS DISTINCT FROM OLD.finished_at)",
        "what was done after a restore stays on file",
    ),
    refuse(
        "restorehold",
        "restorehold_is_final",
        "NEW.task_id <> OLD.task_id OR NEW.restore_id <> OLD.restore_id"
        " OR (OLD.released_at IS NOT NULL AND (NEW.released_at, NEW.released_by, NEW.reason)"
        " IS DISTINCT FROM (OLD.released_at, OLD.released_by, OLD.reason))",
        "a hold is released once, by one person",
    ),
]


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0014_identity")]

    operations = [
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
        migrations.RunSQL(TAKE_ITSELF, FORGET_ITSELF),
        migrations.RunSQL([drop, create], [drop, create_before]),
    ]
