"""A past for the queue: finished tasks with their attempts and commits, made by SQL. Claims must not feel them."""

from bench.place import QUEUE, Place

_RUN = """
INSERT INTO coordinator_run (run_id, queue_id, name, metadata, state, node_count, submitted_by, finished_at)
SELECT gen_random_uuid(), id, 'finished', '{}', 'COMMITTED', %s, 'system:bench', now()
FROM coordinator_queue WHERE name = %s RETURNING id, queue_id
"""
#: An id as the service makes them: it begins with the milliseconds of its making.
_ID = (
    "(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'"
    " || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid"
)
_TASKS = f"""
INSERT INTO coordinator_task
  (task_id, run_id, queue_id, node_id, kind, revision, state, priority, input, input_digest, replay, slots, serial_held,
   state_version, scheduler_epoch, claim_generation, cancel_generation, attempt_id, owner, attempts, spent_attempts,
   max_attempts, dependency_count, pending_dependencies, ready_at, result_commit_id)
SELECT {_ID}, %s, %s, 'f' || i, 'noop', 1, 'COMMITTED', 0, '{{"n":1}}', 'sha256:0', 'READ_ONLY', '{{}}', false,
       3, 1, 1, 0, gen_random_uuid(), 'bench', 1, 0, 5, 0, 0, now(), gen_random_uuid()
FROM generate_series(%s::int, %s::int) i
"""
_ATTEMPTS = """
INSERT INTO coordinator_attempt
  (attempt_id, task_id, claim_generation, scheduler_epoch, cancel_generation, owner, credential_id, pool, state,
   started_at, lease_expires_at, renewals, renewed_at, ended_at, end_reason, input_tokens, output_tokens,
   compute_seconds, cost_usd)
SELECT attempt_id, task_id, 1, 1, 0, 'bench', 1, 'bench', 'COMMITTED', now(), now(), 0, '{}', now(), 'COMMITTED', 0, 0,
       0, 0
FROM coordinator_task WHERE run_id = %s
"""
_COMMITS = """
INSERT INTO coordinator_canonicalcommit
  (result_commit_id, task_id, attempt_id, claim_generation, scheduler_epoch, input_digest, result_digest, result,
   parents, committed_at)
SELECT result_commit_id, task_id, attempt_id, 1, 1, 'sha256:0', 'sha256:1', '{"ok":true}', '[]', now()
FROM coordinator_task WHERE run_id = %s
"""
STEP = 50_000


def make_finished(place: Place, tasks: int) -> None:
    """Add so many finished tasks to the queue, in steps, and let the planner know."""
    with place.connect() as connection:
        for first in range(0, tasks, STEP):
            size = min(STEP, tasks - first)
            with connection.transaction():
                run_id, queue_id = connection.execute(_RUN, (size, QUEUE)).fetchone() or (0, 0)
                connection.execute(_TASKS, (run_id, queue_id, 1, size))
                connection.execute(_ATTEMPTS, (run_id,))
                connection.execute(_COMMITS, (run_id,))
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")
