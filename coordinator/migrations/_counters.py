"""How the triggers that count writes are made (contract 14): one function and three triggers a table.

A function compares the rows that a statement has written with what the guard has passed in
the same transaction (`tenure.passed`, passes.py), and appends one row to the log. It reads the
tasks that rows belong to from the database itself, never from the writer.
"""

#: What a row `w` of each table belongs to, and which rows are the record of a refused call.
_OWN_TASK = "w.task_id"
_BY_ATTEMPT = "(SELECT a.task_id FROM coordinator_attempt a WHERE a.attempt_id = w.attempt_id)"
_BY_EFFECT = "(SELECT e.task_id FROM coordinator_effectslot e WHERE e.effect_id = w.effect_id)"
_BY_COMMIT = (
    "(SELECT c.task_id FROM coordinator_canonicalcommit c"
    " WHERE c.result_commit_id = w.result_commit_id)"
)
_NOBODYS = "NULL::uuid"  # no acceptance point writes it
#: A commit counts its children down: they come with their parent.
_OR_CHILD = (
    " OR (current_setting('tenure.point', true) = 'commit' AND EXISTS (SELECT FROM coordinator_dependency d"
    " WHERE d.child_id = w.task_id AND d.parent_id = ANY (passed)))"
)

#: table → (the task of a row, more rows that are guarded, rows that a refused call may leave)
COUNTED: dict[str, tuple[str, str, str]] = {
    "task": (_OWN_TASK, _OR_CHILD, "false"),
    "attempt": (_OWN_TASK, "", "true"),
    "canonicalcommit": (_OWN_TASK, "", "false"),
    "stagedresult": (_BY_ATTEMPT, "", "NOT w.canonical_candidate"),
    "blob": (_BY_ATTEMPT, "", "true"),
    "memoryfact": (_BY_COMMIT, "", "false"),
    "effectslot": (_OWN_TASK, "", "w.happened_on_file OR w.duplicate_suspected"),
    "dispatch": (_BY_EFFECT, "", "false"),
    "approval": (_BY_EFFECT, "", "false"),
    "evidence": (_BY_EFFECT, "", "true"),
    "lookup": (_BY_EFFECT, "", "false"),
    "decision": (_NOBODYS, "", "false"),
    "run": (_NOBODYS, "", "false"),
    "dependency": (_NOBODYS, "", "false"),
}
_FUNCTION = """
CREATE FUNCTION tenure_count_{table}() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  passed uuid[] := nullif(current_setting('tenure.passed', true), '');
  heard uuid[] := nullif(current_setting('tenure.heard', true), '');
  act boolean := coalesce(current_setting('tenure.act', true), '') = 'yes';
BEGIN
  INSERT INTO coordinator_countedwrite (at, point, is_act, written_to, counted, guarded, kept, session)
  SELECT clock_timestamp(), coalesce(nullif(current_setting('tenure.point', true), ''), 'break_glass'), act,
         '{table}', n.written - n.kept, n.guarded, n.kept,
         CASE WHEN NOT act AND n.guarded + n.kept < n.written THEN tenure_this_session() END
  FROM (
    SELECT count(*) AS written,
           CASE WHEN act THEN 0 ELSE count(*) FILTER (WHERE {guarded}) END AS guarded,
           CASE WHEN act OR heard IS NULL THEN 0
                ELSE count(*) FILTER (WHERE NOT coalesce({guarded}, false) AND {task} = ANY (heard) AND ({kept}))
           END AS kept
    FROM written w) n
  WHERE n.written > 0;
  RETURN NULL;
END $$;
"""
_TRIGGER = (
    "CREATE TRIGGER {table}_counted_{verb} AFTER {event} ON coordinator_{table}"
    " REFERENCING {rows} TABLE AS written FOR EACH STATEMENT EXECUTE FUNCTION tenure_count_{table}();"
)
_VERBS = (("insert", "NEW"), ("update", "NEW"), ("delete", "OLD"))


def counting(table: str) -> tuple[str, str]:
    """The SQL that makes a table's writes counted, and the SQL that takes it away."""
    task, also, kept = COUNTED[table]
    function = _FUNCTION.format(
        table=table, task=task, guarded=f"({task} = ANY (passed){also})", kept=kept
    )
    triggers = [
        _TRIGGER.format(table=table, verb=verb, event=verb.upper(), rows=rows)
        for verb, rows in _VERBS
    ]
    drops = [f"DROP TRIGGER {table}_counted_{verb} ON coordinator_{table};" for verb, _ in _VERBS]
    return function + "\n".join(triggers), "\n".join(
        [*drops, f"DROP FUNCTION tenure_count_{table}();"]
    )
