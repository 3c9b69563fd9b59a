"""The database counts what is written to protected tables, and what of it the guard had passed (contract 14)."""

from django.db import migrations, models

from ._counters import COUNTED, counting

#: One row a statement, without key or index: appending is all that a writer pays. The roll-up
#: takes the rows away again. Not UNLOGGED: a crash would lose counts and nobody would know.
LOG = """
CREATE TABLE coordinator_countedwrite (
  at timestamptz NOT NULL,
  counted int NOT NULL,
  guarded int NOT NULL,
  kept int NOT NULL,
  is_act boolean NOT NULL,
  point text NOT NULL,
  written_to text NOT NULL,
  session text
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20000);
CREATE SEQUENCE coordinator_refusedwrite OWNED BY coordinator_refusedwrites.seen;
CREATE FUNCTION tenure_this_session() RETURNS text LANGUAGE sql STABLE AS $$
  SELECT format('%s of %s, process %s, transaction %s', current_setting('application_name'), session_user,
                pg_backend_pid(), pg_current_xact_id_if_assigned())
$$;
"""
DROP_LOG = """
DROP FUNCTION tenure_this_session();
DROP SEQUENCE coordinator_refusedwrite;
DROP TABLE coordinator_countedwrite;
"""
#: A sequence counts what is refused: it survives the rollback that the refusal causes.
REFUSE = """
CREATE OR REPLACE FUNCTION tenure_refuse_unguarded() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE session int := nullif(current_setting('tenure.break_glass', true), '')::int;
BEGIN
  UPDATE coordinator_breakglass SET writes = writes + 1
    WHERE id = session AND closed_at IS NULL AND expires_at > clock_timestamp();
  IF FOUND THEN RETURN NULL; END IF;
  {count}
  RAISE EXCEPTION '% on % did not come through the guard', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
          HINT = 'Use the API, or open a recorded break-glass session.';
END $$;
"""
COUNT_REFUSED = REFUSE.format(count="PERFORM nextval('coordinator_refusedwrite');")
COUNT_NO_REFUSED = REFUSE.format(count="")


class Migration(migrations.Migration):
    dependencies = [
        ("coordinator", "0007_where_tokens_are_used"),
    ]

    operations = [
        migrations.CreateModel(
            name="CoverageHour",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "hour",
                        "point",
                        "is_act",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("point", models.TextField()),
                ("is_act", models.BooleanField()),
                ("statements", models.BigIntegerField(default=0)),
                ("counted", models.BigIntegerField(default=0)),
                ("guarded", models.BigIntegerField(default=0)),
                ("kept", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="RefusedWrites",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("seen", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="UncoveredWrite",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("at", models.DateTimeField()),
                ("point", models.TextField()),
                ("written_to", models.TextField()),
                ("rows", models.IntegerField()),
                ("missing", models.IntegerField()),
                ("session", models.TextField(default="")),
            ],
            options={
                "indexes": [models.Index(fields=["at"], name="uncovered_write_at")],
            },
        ),
        migrations.RunSQL(LOG, DROP_LOG),
        migrations.RunSQL(COUNT_REFUSED, COUNT_NO_REFUSED),
        *(migrations.RunSQL(*counting(table)) for table in COUNTED),
    ]
