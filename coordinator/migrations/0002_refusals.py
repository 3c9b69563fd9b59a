"""What the database itself refuses (contract 16), so that no code path, shell or page gets past.

The arrows stand here as they were when this migration was written: a later change of
coordinator/states.py brings a migration of its own, and a test compares the two.
"""

from django.db import migrations

from ._triggers import append_only, arrows, refuse, unguarded

TASK_ARROWS = [
    "BLOCKED>READY",
    "BLOCKED>CANCELLED",
    "BLOCKED>SUPERSEDED",
    "READY>CLAIMED",
    "READY>BLOCKED",
    "READY>CANCELLED",
    "READY>SUPERSEDED",
    "READY>AWAITING_RECONCILIATION",
    "CLAIMED>READY",
    "CLAIMED>COMMITTED",
    "CLAIMED>FAILED",
    "CLAIMED>CANCELLED",
    "CLAIMED>SUPERSEDED",
    "CLAIMED>AWAITING_APPROVAL",
    "CLAIMED>AWAITING_RECONCILIATION",
    "AWAITING_APPROVAL>READY",
    "AWAITING_APPROVAL>FAILED",
    "AWAITING_APPROVAL>CANCELLED",
    "AWAITING_APPROVAL>SUPERSEDED",
    "AWAITING_RECONCILIATION>READY",
    "AWAITING_RECONCILIATION>CANCELLED",
    "AWAITING_RECONCILIATION>SUPERSEDED",
    "COMMITTED>SUPERSEDED",
    "CANCELLED>READY",
    "CANCELLED>BLOCKED",
    "CANCELLED>AWAITING_RECONCILIATION",
    "FAILED>READY",
    "FAILED>BLOCKED",
    "FAILED>AWAITING_RECONCILIATION",
    "FAILED>SUPERSEDED",
]

ATTEMPT_ARROWS = [
    "STARTED>RESULT_STAGED",
    "STARTED>COMMITTED",
    "STARTED>EXPIRED",
    "STARTED>STALE_INPUT",
    "STARTED>CANCELLED",
    "STARTED>FAILED",
    "STARTED>RELEASED",
    "STARTED>PARKED",
    "RESULT_STAGED>COMMITTED",
    "RESULT_STAGED>EXPIRED",
    "RESULT_STAGED>STALE_INPUT",
    "RESULT_STAGED>CANCELLED",
    "RESULT_STAGED>FAILED",
    "RESULT_STAGED>RELEASED",
    "RESULT_STAGED>PARKED",
    "EXPIRED>FENCED",
]

RUN_ARROWS = [
    "ACTIVE>COMMITTED",
    "ACTIVE>CANCELLED",
    "ACTIVE>FAILED",
    "COMMITTED>ACTIVE",
    "CANCELLED>ACTIVE",
    "FAILED>ACTIVE",
]

#: Written only through the guard; INSERT, UPDATE and DELETE each name an acceptance point.
PROTECTED = (
    "task",
    "attempt",
    "run",
    "dependency",
    "stagedresult",
    "blob",
    "canonicalcommit",
    "memorykey",
    "memoryfact",
    "event",
)
APPEND_ONLY = ("canonicalcommit", "memoryfact")


FUNCTIONS = """
CREATE FUNCTION tenure_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% on %: %', TG_OP, TG_TABLE_NAME, TG_ARGV[0]
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
END $$;

-- Reached only by a write that names no acceptance point (the trigger's WHEN sees to that).
CREATE FUNCTION tenure_refuse_unguarded() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE session int := nullif(current_setting('tenure.break_glass', true), '')::int;
BEGIN
  UPDATE coordinator_breakglass SET writes = writes + 1
    WHERE id = session AND closed_at IS NULL AND expires_at > clock_timestamp();
  IF FOUND THEN RETURN NULL; END IF;
  RAISE EXCEPTION '% on % did not come through the guard', TG_OP, TG_TABLE_NAME
    USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME,
          HINT = 'Use the API, or open a recorded break-glass session.';
END $$;

-- A commit stands for the grant that the task has at that moment, and for no other.
CREATE FUNCTION tenure_commit_matches_task() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE stray uuid;
BEGIN
  SELECT c.task_id INTO stray FROM added c JOIN coordinator_task t ON t.task_id = c.task_id
    WHERE t.attempt_id IS DISTINCT FROM c.attempt_id OR t.claim_generation <> c.claim_generation
       OR t.scheduler_epoch <> c.scheduler_epoch OR t.input_digest <> c.input_digest LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the commit of task % is not its current attempt''s', stray
      USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END $$;
"""

DROP_FUNCTIONS = """
DROP FUNCTION tenure_commit_matches_task();
DROP FUNCTION tenure_refuse_unguarded();
DROP FUNCTION tenure_refuse();
"""


TRIGGERS = [
    *(unguarded(table) for table in PROTECTED),
    *(append_only(table) for table in APPEND_ONLY),
    arrows("task", TASK_ARROWS),
    arrows("attempt", ATTEMPT_ARROWS),
    arrows("run", RUN_ARROWS),
    refuse(
        "task",
        "task_counters_only_rise",
        "NEW.cancel_generation < OLD.cancel_generation OR NEW.state_version < OLD.state_version"
        " OR NEW.scheduler_epoch < OLD.scheduler_epoch OR NEW.claim_generation < OLD.claim_generation",
        "a counter would go down",
    ),
    refuse(
        "task",
        "task_generation_by_one",
        "NEW.claim_generation > OLD.claim_generation + 1",
        "the claim generation rises by one a grant",
    ),
    refuse(
        "task",
        "task_grant_takes_generation",
        "NEW.attempt_id IS NOT NULL AND NEW.attempt_id IS DISTINCT FROM OLD.attempt_id"
        " AND NEW.claim_generation <> OLD.claim_generation + 1",
        "a grant takes a new claim generation",
    ),
    refuse(
        "task",
        "task_change_takes_version",
        "OLD.state <> NEW.state AND NEW.state_version <= OLD.state_version",
        "a change of state takes a new state version",
    ),
    refuse(
        "task",
        "task_is_immutable",
        "NEW.input <> OLD.input OR NEW.input_digest <> OLD.input_digest OR NEW.node_id <> OLD.node_id"
        " OR NEW.run_id <> OLD.run_id OR NEW.queue_id <> OLD.queue_id OR NEW.revision <> OLD.revision"
        " OR NEW.slots <> OLD.slots OR NEW.replay <> OLD.replay OR NEW.kind <> OLD.kind",
        "the input, place and slots of a task never change",
    ),
    refuse(
        "task",
        "task_result_is_final",
        "OLD.result_commit_id IS NOT NULL AND NEW.result_commit_id IS DISTINCT FROM OLD.result_commit_id",
        "a canonical result is never replaced",
    ),
    refuse(
        "attempt",
        "attempt_grant_is_final",
        "NEW.task_id <> OLD.task_id OR NEW.claim_generation <> OLD.claim_generation"
        " OR NEW.scheduler_epoch <> OLD.scheduler_epoch OR NEW.cancel_generation <> OLD.cancel_generation"
        " OR NEW.owner <> OLD.owner OR NEW.credential_id <> OLD.credential_id",
        "what was granted never changes",
    ),
    refuse(
        "queue",
        "queue_epoch_only_rises",
        "NEW.scheduler_epoch < OLD.scheduler_epoch",
        "the epoch only rises",
    ),
    refuse(
        "stagedresult",
        "stagedresult_is_final",
        "NEW.result <> OLD.result",
        "a staged result never changes",
    ),
    refuse(
        "event",
        "event_append_only",
        "(NEW.kind, NEW.task_id, NEW.attempt_id, NEW.actor, NEW.at, NEW.data, NEW.state_version, NEW.refusal_key)"
        " IS DISTINCT FROM"
        " (OLD.kind, OLD.task_id, OLD.attempt_id, OLD.actor, OLD.at, OLD.data, OLD.state_version, OLD.refusal_key)"
        " OR NEW.repeats < OLD.repeats",
        "it is append-only; only equal repeats are counted",
    ),
    (
        "CREATE TRIGGER event_never_deleted BEFORE DELETE ON coordinator_event FOR EACH STATEMENT"
        " WHEN (coalesce(current_setting('tenure.point', true), '') <> 'prune')"
        " EXECUTE FUNCTION tenure_refuse('it is append-only');",
        "DROP TRIGGER event_never_deleted ON coordinator_event;",
    ),
    (
        "CREATE TRIGGER canonicalcommit_matches_task AFTER INSERT ON coordinator_canonicalcommit"
        " REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION tenure_commit_matches_task();",
        "DROP TRIGGER canonicalcommit_matches_task ON coordinator_canonicalcommit;",
    ),
]

#: Room for HOT updates: a renewal rewrites its rows in place (contract 4).
STORAGE = """
ALTER TABLE coordinator_task SET (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
ALTER TABLE coordinator_attempt SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);
"""
DROP_STORAGE = """
ALTER TABLE coordinator_task RESET (fillfactor, autovacuum_vacuum_scale_factor);
ALTER TABLE coordinator_attempt RESET (fillfactor, autovacuum_vacuum_scale_factor);
"""


class Migration(migrations.Migration):
    dependencies = [("coordinator", "0001_tables")]

    operations = [
        migrations.RunSQL(STORAGE, DROP_STORAGE),
        migrations.RunSQL(FUNCTIONS, DROP_FUNCTIONS),
        *(migrations.RunSQL(create, drop) for create, drop in TRIGGERS),
    ]
