"""Who works: seen in the leases that are held and in the newest attempts (console design, 7.10).

No worker registers. What is known of one is what it did: claims, renewals, ends. Reads are
bounded: so many live leases, so many of the newest attempts, whatever the history holds.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db import connection

from coordinator.canary import DRILL

LEASES_LOOKED_AT: Final = 20_000
ATTEMPTS_LOOKED_AT: Final = 5_000
WORKERS_SHOWN: Final = 300
CLAIMS_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class HeldClaim:
    """A lease that a credential holds. `lease_expires_at` may have passed: nobody took over yet."""

    task_id: UUID
    node_id: str
    queue: str
    owner: str
    claim_generation: int
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class Held:
    """What a credential holds: the count, and the first CLAIMS_SHOWN by expiry."""

    total: int
    claims: tuple[HeldClaim, ...]
    last_expiry: datetime | None


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One owner under one credential. Counts after `leases` are of the newest attempts only."""

    credential_id: UUID
    credential: str
    revoked: bool
    contract: str
    pool: str
    owner: str
    leases: int
    lapsed: int
    seen_at: datetime
    attempts: int
    committed: int
    fenced: int
    lost: int


@dataclass(frozen=True, slots=True)
class Workers:
    """`since`: the start of the oldest attempt that was looked at; None where there is none."""

    rows: tuple[WorkerRow, ...]
    since: datetime | None
    capped: bool


_HELD: Final = """
SELECT t.task_id, t.node_id, q.name, t.owner, t.claim_generation, t.lease_expires_at,
       count(*) OVER (), max(t.lease_expires_at) OVER ()
FROM (
  SELECT task_id, node_id, queue_id, owner, claim_generation, lease_expires_at, attempt_id FROM coordinator_task
  WHERE state = 'CLAIMED' LIMIT %s
) t
JOIN coordinator_attempt a ON a.attempt_id = t.attempt_id
JOIN coordinator_credential c ON c.id = a.credential_id
JOIN coordinator_queue q ON q.id = t.queue_id
WHERE c.credential_id = %s ORDER BY t.lease_expires_at, t.task_id LIMIT %s
"""

_WORKERS: Final = """
WITH held AS (
  SELECT a.credential_id, a.owner, count(*) AS leases,
         count(*) FILTER (WHERE t.lease_expires_at <= clock_timestamp()) AS lapsed,
         max(greatest(a.started_at, a.renewed_at[cardinality(a.renewed_at)])) AS seen_at, max(a.pool) AS pool
  FROM (SELECT attempt_id, lease_expires_at FROM coordinator_task WHERE state = 'CLAIMED' LIMIT %s) t
  JOIN coordinator_attempt a ON a.attempt_id = t.attempt_id GROUP BY 1, 2
), newest AS (
  SELECT credential_id, owner, pool, state, started_at, ended_at, renewed_at, end_reason FROM coordinator_attempt
  ORDER BY attempt_id DESC LIMIT %s
), done AS (
  SELECT credential_id, owner, max(pool) AS pool, count(*) AS attempts,
         count(*) FILTER (WHERE state = 'COMMITTED') AS committed,
         count(*) FILTER (WHERE state = 'FENCED') AS fenced,
         count(*) FILTER (WHERE state IN ('EXPIRED', 'FENCED')) AS lost,
         max(greatest(started_at, renewed_at[cardinality(renewed_at)],
                      CASE WHEN state <> 'EXPIRED' THEN ended_at END)) AS seen_at
  FROM newest GROUP BY 1, 2
), reach AS (SELECT min(started_at) AS since, count(*) AS looked_at FROM newest)
SELECT c.credential_id, c.name, c.revoked_at IS NOT NULL, c.last_contract, coalesce(held.pool, done.pool),
       coalesce(held.owner, done.owner), coalesce(held.leases, 0), coalesce(held.lapsed, 0),
       greatest(held.seen_at, done.seen_at) AS seen_at, coalesce(done.attempts, 0), coalesce(done.committed, 0),
       coalesce(done.fenced, 0), coalesce(done.lost, 0), reach.since, reach.looked_at
FROM held FULL JOIN done ON done.credential_id = held.credential_id AND done.owner = held.owner
JOIN coordinator_credential c ON c.id = coalesce(held.credential_id, done.credential_id)
CROSS JOIN reach
WHERE (%s = '' OR coalesce(held.pool, done.pool) = %s) AND (%s = '' OR %s = ANY(c.queues))
ORDER BY seen_at DESC, 6 LIMIT %s
"""


def read_held(credential_id: UUID) -> Held:
    rows = _fetch(_HELD, [LEASES_LOOKED_AT, credential_id, CLAIMS_SHOWN])
    if not rows:
        return Held(0, (), None)
    return Held(rows[0][6], tuple(HeldClaim(*row[:6]) for row in rows), rows[0][7])


def read_workers(*, pool: str = "", queue: str = "") -> Workers:
    """Newest seen first. An owner that only asked for work in vain is not here: its credential's use is."""
    rows = _fetch(
        _WORKERS,
        [LEASES_LOOKED_AT, ATTEMPTS_LOOKED_AT, pool, pool, queue, queue, WORKERS_SHOWN + 1],
    )
    found = tuple(WorkerRow(*row[:13]) for row in rows[:WORKERS_SHOWN])
    since = rows[0][13] if rows else None
    return Workers(found, since, capped=len(rows) > WORKERS_SHOWN)


def _fetch(sql: str, params: list[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return rows


@dataclass(frozen=True, slots=True)
class PoolRow:
    """`queues`: those that it is active for. `credentials` work now. `leases` are held now, by `holders` owners."""

    name: str
    min_contract: str
    queues: list[str]
    credentials: int
    last_used_at: datetime | None
    holders: int
    leases: int


_POOLS: Final = """
SELECT p.name, p.min_contract,
       ARRAY(SELECT q.name FROM coordinator_queue q WHERE q.active_pool_id = p.name ORDER BY q.name LIMIT 50),
       coalesce(c.credentials, 0), c.last_used_at, coalesce(h.holders, 0), coalesce(h.leases, 0)
FROM coordinator_pool p
LEFT JOIN (
  SELECT pool_id, max(last_used_at) AS last_used_at,
         count(*) FILTER (WHERE revoked_at IS NULL
                          AND (expires_at IS NULL OR expires_at > clock_timestamp())) AS credentials
  FROM coordinator_credential GROUP BY 1
) c ON c.pool_id = p.name
LEFT JOIN (
  SELECT a.pool, count(*) AS leases, count(DISTINCT (a.credential_id, a.owner)) AS holders
  FROM (SELECT attempt_id FROM coordinator_task WHERE state = 'CLAIMED' LIMIT %s) t
  JOIN coordinator_attempt a ON a.attempt_id = t.attempt_id GROUP BY 1
) h ON h.pool = p.name
WHERE p.name <> %s
ORDER BY p.name LIMIT %s
"""


def read_pools() -> tuple[PoolRow, ...]:
    """Every pool but the one of the drills, which nobody works in."""
    return tuple(PoolRow(*row) for row in _fetch(_POOLS, [LEASES_LOOKED_AT, DRILL, WORKERS_SHOWN]))
