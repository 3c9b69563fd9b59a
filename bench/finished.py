"""A past for the queue: finished tasks with their attempts and commits, made by SQL. Claims must not feel them.

They have no events: what counts and audits events has nothing to do with them.
"""

from collections.abc import Callable
from typing import Final

from bench.place import QUEUE, Place

#: An id as the service makes them: it begins with the milliseconds of its making, so that index pages fill in order.
_ID: Final = (
    "(lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7'"
    " || substr(md5(random()::text), 1, 3) || '8' || substr(md5(random()::text), 1, 15))::uuid"
)
#: One statement for a run and all that belongs to it: nothing is looked up in a table that grows.
_FINISHED: Final = f"""
WITH run AS (
  INSERT INTO coordinator_run (run_id, queue_id, name, metadata, state, node_count, submitted_by, finished_at)
  SELECT gen_random_uuid(), id, 'finished', '{{}}', 'COMMITTED', %(nodes)s, 'system:bench', now()
  FROM coordinator_queue WHERE name = %(queue)s RETURNING id, queue_id
), task AS (
  INSERT INTO coordinator_task
    (task_id, run_id, queue_id, node_id, kind, revision, state, priority, input, input_digest, replay, slots,
     serial_held, state_version, scheduler_epoch, claim_generation, cancel_generation, attempt_id, owner, attempts,
     spent_attempts, max_attempts, dependency_count, pending_dependencies, ready_at, result_commit_id)
  SELECT {_ID}, run.id, run.queue_id, 'f' || i, 'noop', 1, 'COMMITTED', 0, '{{"n":1}}', 'sha256:0', 'READ_ONLY', '{{}}',
         false, 3, 1, 1, 0, {_ID}, 'bench', 1, 0, 5, 0, 0, now(), {_ID}
  FROM run, generate_series(1, %(nodes)s::int) i
  RETURNING task_id, attempt_id, result_commit_id
), attempt AS (
  INSERT INTO coordinator_attempt
    (attempt_id, task_id, claim_generation, scheduler_epoch, cancel_generation, owner, credential_id, pool, state,
     started_at, lease_expires_at, renewals, renewed_at, ended_at, end_reason, input_tokens, output_tokens,
     compute_seconds, cost_usd)
  SELECT attempt_id, task_id, 1, 1, 0, 'bench', 1, 'bench', 'COMMITTED', now(), now(), 0, '{{}}', now(), 'COMMITTED',
         0, 0, 0, 0
  FROM task
)
INSERT INTO coordinator_canonicalcommit
  (result_commit_id, task_id, attempt_id, claim_generation, scheduler_epoch, input_digest, result_digest, result,
   parents, committed_at)
SELECT result_commit_id, task_id, attempt_id, 1, 1, 'sha256:0', 'sha256:1', '{{"ok":true}}', '[]', now() FROM task
"""
#: For the seeding connection alone. The rows refer to each other by their making, so that nothing is left to check
#: or to count; the indexes stay, and end as they would have.
_HASTE: Final = ("SET synchronous_commit = off", "SET session_replication_role = replica")
#: Nodes of a run, as many as the service takes.
RUN: Final = 10_000
TOLD_EVERY: Final = 500_000


def make_finished(place: Place, tasks: int, *, say: Callable[[str], object] | None = None) -> None:
    """Add so many finished tasks to the queue, in runs, and let the planner know.

    A seeding that was cut off may be repeated for what is missing (`count_in`).
    """
    with place.connect() as connection:
        for setting in _HASTE:
            connection.execute(setting)
        for first in range(0, tasks, RUN):
            connection.execute(_FINISHED, {"nodes": min(RUN, tasks - first), "queue": QUEUE})
            if say and first % TOLD_EVERY == 0:
                say(f"{first:,} of {tasks:,} finished tasks are made\n")
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def count_in(place: Place, *, state: str) -> int:
    """How many tasks are in a state, by reading all of them."""
    with place.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM coordinator_task WHERE state = %s", (state,)
        ).fetchone()
    return row[0] if row else 0
