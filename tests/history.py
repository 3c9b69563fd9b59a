"""What must hold at the end of every story, read from the tables alone (the checks of the field cases).

Ask for `history_holds` and these run after the test, before the tables are emptied.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection

#: Each finds the rows that break one rule; a story is in order where all of them find nothing.
RULES: dict[str, str] = {
    # Z: an end is told once; a reopening or a revision (of a committed one) allows one more.
    "a task ends once": """
        SELECT t.task_id, t.state, count(e.id) FROM coordinator_task t
        LEFT JOIN coordinator_event e ON e.task_id = t.task_id
             AND e.kind IN ('COMMITTED', 'FAILED', 'CANCELLED')
        GROUP BY t.task_id
        HAVING count(e.id) - (SELECT count(*) FROM coordinator_event r
                              WHERE r.task_id = t.task_id AND r.kind = 'REOPENED')
            NOT IN (CASE WHEN t.state IN ('COMMITTED', 'FAILED', 'CANCELLED') THEN 1 ELSE 0 END,
                    CASE WHEN t.state = 'SUPERSEDED' THEN 1 ELSE 0 END
                    + CASE WHEN t.state IN ('COMMITTED', 'FAILED', 'CANCELLED') THEN 1 ELSE 0 END)
    """,
    "a committed task has not failed nor been cancelled since it was last opened": """
        SELECT c.task_id, e.kind FROM coordinator_event c JOIN coordinator_event e ON e.task_id = c.task_id
        WHERE c.kind = 'COMMITTED' AND e.kind IN ('FAILED', 'CANCELLED')
          AND NOT EXISTS (SELECT FROM coordinator_event r WHERE r.task_id = c.task_id AND r.kind = 'REOPENED'
                          AND r.id BETWEEN least(c.id, e.id) AND greatest(c.id, e.id))
    """,
    "a state says COMMITTED where there is a canonical commit, and only there": """
        SELECT t.task_id, t.state, c.result_commit_id FROM coordinator_task t
        LEFT JOIN coordinator_canonicalcommit c ON c.task_id = t.task_id
        WHERE t.result_commit_id IS DISTINCT FROM c.result_commit_id
           OR (t.state = 'COMMITTED') <> (c.task_id IS NOT NULL) AND t.state <> 'SUPERSEDED'
    """,
    "at most one canonical commit a task": """
        SELECT task_id, count(*) FROM coordinator_canonicalcommit GROUP BY task_id HAVING count(*) > 1
    """,
    "the committed attempt is the one of the canonical commit, and the only one": """
        SELECT a.task_id, a.attempt_id FROM coordinator_attempt a
        FULL JOIN coordinator_canonicalcommit c ON c.attempt_id = a.attempt_id
        WHERE (a.state IS NOT DISTINCT FROM 'COMMITTED') <> (c.attempt_id IS NOT NULL)
           OR c.attempt_id IS NOT NULL AND (a.task_id, a.claim_generation, a.scheduler_epoch)
              IS DISTINCT FROM (c.task_id, c.claim_generation, c.scheduler_epoch)
    """,
    "generations are 1, 2, 3, … one a grant": """
        SELECT t.task_id, t.claim_generation, t.attempts, array_agg(a.claim_generation ORDER BY a.started_at)
        FROM coordinator_task t LEFT JOIN coordinator_attempt a ON a.task_id = t.task_id GROUP BY t.task_id
        HAVING t.claim_generation <> count(a.attempt_id) OR coalesce(max(a.claim_generation), 0) <> count(a.attempt_id)
            OR count(DISTINCT a.claim_generation) <> count(a.attempt_id) OR t.attempts <> count(a.attempt_id)
    """,
    "each grant has its event, in the order of the generations": """
        SELECT task_id, told FROM (
          SELECT a.task_id, a.claim_generation, e.id,
                 lag(e.id) OVER (PARTITION BY a.task_id ORDER BY a.claim_generation) AS before,
                 (e.data ->> 'claim_generation')::bigint AS told
          FROM coordinator_attempt a
          LEFT JOIN coordinator_event e ON e.attempt_id = a.attempt_id AND e.kind = 'CLAIMED') granted
        WHERE told IS DISTINCT FROM claim_generation OR id < before
    """,
    "nobody but the holder of a CLAIMED task is live": """
        SELECT a.task_id, a.attempt_id, a.state, t.state FROM coordinator_attempt a
        JOIN coordinator_task t ON t.task_id = a.task_id
        WHERE (a.state IN ('STARTED', 'RESULT_STAGED'))
           <> (t.state = 'CLAIMED' AND t.attempt_id = a.attempt_id)
    """,
    "a task waits for exactly its parents without a canonical commit": """
        SELECT t.task_id, t.state, t.pending_dependencies, count(d.parent_id) FILTER (WHERE c.task_id IS NULL)
        FROM coordinator_task t LEFT JOIN coordinator_dependency d ON d.child_id = t.task_id
        LEFT JOIN coordinator_canonicalcommit c ON c.task_id = d.parent_id
        WHERE t.state <> 'SUPERSEDED' GROUP BY t.task_id
        HAVING t.pending_dependencies <> count(d.parent_id) FILTER (WHERE c.task_id IS NULL)
            OR (t.state = 'BLOCKED') AND t.pending_dependencies = 0
            OR t.state IN ('READY', 'CLAIMED', 'COMMITTED') AND t.pending_dependencies > 0
    """,
    "a successor is released once for each time that it was blocked": """
        SELECT t.task_id FROM coordinator_task t
        JOIN coordinator_event e ON e.task_id = t.task_id AND e.kind IN ('UNBLOCKED', 'REBLOCKED', 'REOPENED')
        GROUP BY t.task_id
        HAVING count(*) FILTER (WHERE e.kind = 'UNBLOCKED')
             > 1 + count(*) FILTER (WHERE e.kind IN ('REBLOCKED', 'REOPENED'))
    """,
    "a task's events tell rising state versions": """
        SELECT task_id, id FROM (
          SELECT task_id, id, state_version, max(state_version) OVER (PARTITION BY task_id ORDER BY id
                 ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
          FROM coordinator_event WHERE task_id IS NOT NULL AND refusal_key IS NULL) told
        WHERE state_version < before
    """,
    "one holder a serial key": """
        SELECT serial_scope_id, count(*) FROM coordinator_task
        WHERE state = 'CLAIMED' AND serial_scope_id IS NOT NULL GROUP BY 1 HAVING count(*) > 1
    """,
    "versions of shared memory are 1, 2, 3, … and each key was written": """
        SELECT k.namespace, k.key, k.version, count(f.id) FROM coordinator_memorykey k
        LEFT JOIN coordinator_memoryfact f ON f.memory_key_id = k.id GROUP BY k.id
        HAVING k.version <> count(f.id) OR k.version <> coalesce(max(f.version), 0) OR k.version = 0
    """,
    "a lease is marked reclaimable at its expiry, once that has passed": """
        SELECT task_id FROM coordinator_task WHERE state = 'CLAIMED' AND claimable_at IS NOT NULL
          AND (claimable_at <> lease_expires_at OR lease_expires_at > clock_timestamp())
    """,
    "a slot has as many dispatches as it counts, numbered 1, 2, 3, …": """
        SELECT e.effect_id, e.dispatches, count(d.dispatch_id) FROM coordinator_effectslot e
        LEFT JOIN coordinator_dispatch d ON d.effect_id = e.effect_id GROUP BY e.effect_id
        HAVING e.dispatches <> count(d.dispatch_id) OR e.dispatches <> coalesce(max(d.number), 0)
    """,
    # A dispatch that stands for the calls that a restore has lost was not accepted here, nor approved.
    "a slot is bound once, and each acceptance is told": """
        SELECT e.effect_id, e.dispatches FROM coordinator_effectslot e
        LEFT JOIN coordinator_event t ON t.task_id = e.task_id AND t.data ->> 'effect_id' = e.effect_id
        GROUP BY e.effect_id
        HAVING count(*) FILTER (WHERE t.kind = 'EFFECT_PREPARED') <> 1
            OR count(*) FILTER (WHERE t.kind = 'EFFECT_ACCEPTED') <> e.dispatches - (
                SELECT count(*) FROM coordinator_dispatch d
                WHERE d.effect_id = e.effect_id AND d.request_id = 'after_restore:')
    """,
    "a dispatch has the grant of the attempt that made it": """
        SELECT d.dispatch_id FROM coordinator_dispatch d
        JOIN coordinator_effectslot e ON e.effect_id = d.effect_id
        JOIN coordinator_attempt a ON a.attempt_id = d.attempt_id
        WHERE (d.claim_generation, d.scheduler_epoch, e.task_id)
           IS DISTINCT FROM (a.claim_generation, a.scheduler_epoch, a.task_id)
    """,
    "of a slot only the newest dispatch can be without an outcome": """
        SELECT d.dispatch_id FROM coordinator_dispatch d
        JOIN coordinator_effectslot e ON e.effect_id = d.effect_id
        WHERE d.number < e.dispatches AND d.outcome IS NULL AND d.closed_at IS NULL
    """,
    "a slot is ACCEPTED only while the attempt that its newest dispatch was given to holds the task": """
        SELECT e.effect_id, t.state FROM coordinator_effectslot e
        JOIN coordinator_task t ON t.task_id = e.task_id
        JOIN coordinator_dispatch d ON d.effect_id = e.effect_id AND d.number = e.dispatches
        WHERE e.state = 'ACCEPTED' AND (t.state <> 'CLAIMED' OR t.attempt_id <> d.attempt_id)
    """,
    "what is PREPARED or VOID has no call that can still happen": """
        SELECT e.effect_id, e.state, d.number FROM coordinator_effectslot e
        JOIN coordinator_dispatch d ON d.effect_id = e.effect_id
        WHERE e.state IN ('PREPARED', 'VOID') AND d.closed_at IS NULL AND d.outcome IS DISTINCT FROM 'REFUSED'
    """,
    "a COMMITTED or SUPERSEDED task leaves no effect open": """
        SELECT e.effect_id, e.state, t.state FROM coordinator_effectslot e
        JOIN coordinator_task t ON t.task_id = e.task_id
        WHERE t.state IN ('COMMITTED', 'SUPERSEDED') AND e.state NOT IN ('COMMITTED', 'VOID')
    """,
    "each dispatch of what acts again has used up one approval of its payload": """
        SELECT d.dispatch_id FROM coordinator_dispatch d
        JOIN coordinator_effectslot e ON e.effect_id = d.effect_id
        LEFT JOIN coordinator_approval a ON a.effect_id = d.effect_id AND a.dispatch_number = d.number
             AND a.state = 'CONSUMED' AND a.payload_digest = e.payload_digest
        WHERE e.is_exclusive AND d.request_id <> 'after_restore:'
        GROUP BY d.dispatch_id HAVING count(a.approval_id) <> 1
    """,
    "an approval is used up by one dispatch, and given by as many people as it needs": """
        SELECT a.approval_id, a.state FROM coordinator_approval a
        WHERE a.state = 'CONSUMED' AND NOT EXISTS (
                SELECT FROM coordinator_dispatch d WHERE d.effect_id = a.effect_id AND d.number = a.dispatch_number)
           OR a.state IN ('APPROVED', 'CONSUMED') AND a.required_approvers > (
                SELECT count(DISTINCT d.operator_id) FROM coordinator_decision d
                WHERE d.approval_id = a.approval_id AND d.decision = 'APPROVED'
                  AND d.payload_digest_seen = a.payload_digest)
    """,
    "each state version of a task is told": """
        SELECT t.task_id, t.state_version, array_agg(DISTINCT e.state_version) FROM coordinator_task t
        LEFT JOIN coordinator_event e ON e.task_id = t.task_id AND e.refusal_key IS NULL
        GROUP BY t.task_id
        HAVING count(DISTINCT e.state_version) <> t.state_version OR max(e.state_version) <> t.state_version
    """,
    "nothing was written at an acceptance point that the guard had not passed": """
        SELECT at, point, written_to, counted, guarded, kept, session FROM coordinator_countedwrite
        WHERE guarded < counted AND point IN ('claim', 'renew', 'stage', 'prepare', 'accept', 'redeem', 'report',
                                              'reconcile', 'commit', 'fail', 'release')
    """,
    "an incident has taken each step up to its state, once, in order, and told it": """
        SELECT i.incident_id, i.state, array_agg(s.step ORDER BY s.id) FROM coordinator_incident i
        JOIN coordinator_incidentstep s ON s.incident_id = i.incident_id GROUP BY i.incident_id
        HAVING array_agg(s.step ORDER BY s.id) <> CASE i.state WHEN 'STOPPED' THEN '{STOPPED}'::text[]
            WHEN 'ABORTED' THEN '{STOPPED,ABORTED}' WHEN 'BUMPED' THEN '{STOPPED,BUMPED}'
            WHEN 'SWITCHED' THEN '{STOPPED,BUMPED,DRAINED,SWITCHED}'
            WHEN 'CLOSED' THEN '{STOPPED,BUMPED,DRAINED,SWITCHED,CLOSED}' END
          OR count(*) <> (SELECT count(*) FROM coordinator_event e
             WHERE e.kind IN ('INCIDENT_OPENED', 'INCIDENT_BUMPED', 'INCIDENT_DRAINED', 'INCIDENT_SWITCHED',
               'INCIDENT_CLOSED', 'INCIDENT_ABORTED') AND e.data ->> 'incident_id' = i.incident_id::text)
    """,
    "an incident holds its queues until it is over, and their intake is stopped meanwhile": """
        SELECT i.incident_id, i.state, l.is_open, q.intake FROM coordinator_incident i
        JOIN coordinator_incidentqueue l ON l.incident_id = i.incident_id
        JOIN coordinator_queue q ON q.id = l.queue_id
        WHERE l.is_open = (i.state IN ('CLOSED', 'ABORTED')) OR l.is_open AND q.intake <> 'STOPPED'
    """,
    "a part of the intake is what the newest word of its open incident says": """
        SELECT q.name, q.intake_share, c.share FROM coordinator_queue q
        LEFT JOIN coordinator_incidentqueue l ON l.queue_id = q.id AND l.is_open
        LEFT JOIN LATERAL (SELECT share FROM coordinator_incidentcanary c WHERE c.incident_id = l.incident_id
                           ORDER BY c.id DESC LIMIT 1) c ON true
        WHERE q.intake_share NOT IN (0, coalesce(c.share, 0))
    """,
    "nothing of an older epoch was granted or committed after its bump was told": """
        SELECT e.id, e.kind, b.id FROM coordinator_event b JOIN coordinator_event e ON e.queue_id = b.queue_id
          AND e.id > b.id AND e.kind IN ('CLAIMED', 'COMMITTED', 'EFFECT_ACCEPTED', 'EFFECT_REDEEMED')
        JOIN coordinator_attempt a ON a.attempt_id = e.attempt_id
        WHERE b.kind = 'EPOCH_BUMPED' AND a.scheduler_epoch <= (b.data ->> 'from')::bigint
    """,
}


def broken_rules(cursor: Any) -> dict[str, Any]:
    """The rules that do not hold, each with some of the rows that break it."""
    broken = {}
    for rule, sql in RULES.items():
        cursor.execute(sql)
        rows = cursor.fetchmany(5)
        if rows:
            broken[rule] = rows
    return broken


def check() -> None:
    """Fails with the rules and the rows that break them."""
    with connection.cursor() as cursor:
        broken = broken_rules(cursor)
    assert not broken, broken


@pytest.fixture
def history_holds(transactional_db: None) -> Iterator[None]:
    """Runs `check` after the test. It asks for the database so that the tables are still full then."""
    yield
    check()


#: Everything that a refusal must leave alone, without the marks that it may set on its attempt:
#: EXPIRED → FENCED, and the usage that it reports (contract 3).
_STANDING = {
    "queue": "to_jsonb(t)",
    "run": "to_jsonb(t)",
    "task": "to_jsonb(t)",
    "dependency": "to_jsonb(t)",
    "serialscope": "to_jsonb(t)",
    "attempt": "to_jsonb(t) - '{input_tokens,output_tokens,compute_seconds,cost_usd}'::text[]"
    " || CASE t.state WHEN 'FENCED' THEN '{\"state\": \"EXPIRED\"}'::jsonb ELSE '{}'::jsonb END",
    "stagedresult": "to_jsonb(t)",
    "blob": "to_jsonb(t)",
    "canonicalcommit": "to_jsonb(t)",
    "memorykey": "to_jsonb(t)",
    "memoryfact": "to_jsonb(t)",
    "storedanswer": "to_jsonb(t)",
    "effectslot": "to_jsonb(t)",
    "dispatch": "to_jsonb(t)",
    "lookup": "to_jsonb(t)",
    "approval": "to_jsonb(t)",
    "decision": "to_jsonb(t)",
    "incident": "to_jsonb(t)",
    "incidentqueue": "to_jsonb(t)",
    "incidentstep": "to_jsonb(t)",
    "incidentcanary": "to_jsonb(t)",
    "incidenthold": "to_jsonb(t)",
    "incidenteffect": "to_jsonb(t)",
    "candidatedecision": "to_jsonb(t)",
    "promotionrequest": "to_jsonb(t)",
}


def standing() -> dict[str, Any]:
    """All rows but events and evidence, by table, without an attempt's marks: equal before and after a refusal."""
    found = {}
    with connection.cursor() as cursor:
        for table, row in _STANDING.items():
            cursor.execute(f"SELECT ({row})::text FROM coordinator_{table} t ORDER BY 1")
            found[table] = [line for (line,) in cursor.fetchall()]
    return found


@contextmanager
def nothing_moves() -> Iterator[None]:
    """What happens inside may be told and marked, and changes nothing else."""
    before = standing()
    yield
    after = standing()
    moved = {table: (rows, after[table]) for table, rows in before.items() if rows != after[table]}
    assert not moved, moved
