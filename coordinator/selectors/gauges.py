"""What stands right now, by queue: from partial indexes that finished rows never enter, and capped (contract 14)."""

from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from coordinator.states import MAY_BE_OUT

#: So many queues are told of, by name.
MAX_QUEUES: Final = 500
#: No count goes beyond this; a figure that has reached it reads "at least".
GAUGE_CAP: Final = 10_000
#: So many downstreams are told of, those with the most first.
MAX_DOWNSTREAMS: Final = 100


@dataclass(frozen=True, slots=True)
class QueueGauges:
    """Ages in seconds, 0 where there is nothing. `asked_in_vain`: UNKNOWN effects whose look-ups told nothing."""

    queue_id: int
    queue: str
    scheduler_epoch: int
    intake: str
    intake_share: int
    rollout_stage: str
    active_pool: str
    ready_tasks: int
    ready_oldest_seconds: float
    live_leases: int
    lapsed_leases: int
    unknown_effects: int
    unknown_oldest_seconds: float
    asked_in_vain: int
    approvals_waiting: int
    approvals_oldest_seconds: float
    #: Seconds until the next one expires; None where nothing waits.
    approvals_next_expiry_seconds: float | None


# Each inner SELECT is in the order of its partial index: no other way of reading it is as cheap.
_OUT: Final = ", ".join(f"'{state}'" for state in sorted(MAY_BE_OUT))
_GAUGES: Final = f"""
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now),
unknown AS (
  SELECT t.queue_id, count(*) AS n, min(e.unknown_since) AS since, count(*) FILTER (WHERE e.probes > 0) AS in_vain
  FROM (SELECT task_id, unknown_since, probes FROM coordinator_effectslot
        WHERE state IN ({_OUT}) AND state = 'UNKNOWN' ORDER BY downstream, unknown_since LIMIT {GAUGE_CAP}) e
  JOIN coordinator_task t ON t.task_id = e.task_id GROUP BY 1),
waiting AS (
  SELECT t.queue_id, count(*) AS n, min(a.requested_at) AS since, min(a.expires_at) AS until
  FROM (SELECT effect_id, requested_at, expires_at FROM coordinator_approval
        WHERE state IN ('PENDING', 'APPROVED') AND state = 'PENDING' ORDER BY expires_at LIMIT {GAUGE_CAP}) a
  JOIN coordinator_effectslot e ON e.effect_id = a.effect_id
  JOIN coordinator_task t ON t.task_id = e.task_id GROUP BY 1)
SELECT q.id, q.name, q.scheduler_epoch, q.intake, q.intake_share, q.rollout_stage, q.active_pool_id,
       ready.n, coalesce(extract(epoch FROM clock.now - ready.since), 0)::float8, leased.n, ready.lapsed,
       coalesce(unknown.n, 0), coalesce(extract(epoch FROM clock.now - unknown.since), 0)::float8,
       coalesce(unknown.in_vain, 0),
       coalesce(waiting.n, 0), coalesce(extract(epoch FROM clock.now - waiting.since), 0)::float8,
       extract(epoch FROM waiting.until - clock.now)::float8
FROM clock CROSS JOIN (SELECT * FROM coordinator_queue ORDER BY name LIMIT {MAX_QUEUES}) q
CROSS JOIN LATERAL (
  SELECT count(*) FILTER (WHERE state = 'READY') AS n, min(claimable_at) FILTER (WHERE state = 'READY') AS since,
         count(*) FILTER (WHERE state = 'CLAIMED') AS lapsed
  FROM (SELECT state, claimable_at FROM coordinator_task
        WHERE queue_id = q.id AND claimable_at IS NOT NULL AND claimable_at <= clock.now
        ORDER BY priority DESC, claimable_at LIMIT {GAUGE_CAP}) r) ready
CROSS JOIN LATERAL (
  SELECT count(*) AS n FROM (SELECT FROM coordinator_task
    WHERE queue_id = q.id AND state = 'CLAIMED' AND claimable_at IS NULL LIMIT {GAUGE_CAP}) l) leased
LEFT JOIN unknown ON unknown.queue_id = q.id
LEFT JOIN waiting ON waiting.queue_id = q.id
ORDER BY q.name
"""  # noqa: S608 (constants of ours)


def read_gauges() -> list[QueueGauges]:
    """Every queue by name (at most MAX_QUEUES), in one statement."""
    with connection.cursor() as cursor:
        cursor.execute(_GAUGES)
        return [QueueGauges(*row) for row in cursor.fetchall()]


_UNKNOWN_BY_DOWNSTREAM: Final = f"""
SELECT downstream, count(*), min(unknown_since), extract(epoch FROM clock_timestamp() - min(unknown_since))::float8
FROM (SELECT downstream, unknown_since FROM coordinator_effectslot
      WHERE state IN ({_OUT}) AND state = 'UNKNOWN' ORDER BY downstream, unknown_since LIMIT {GAUGE_CAP}) e
GROUP BY downstream ORDER BY 2 DESC LIMIT {MAX_DOWNSTREAMS}
"""  # noqa: S608 (constants of ours)


@dataclass(frozen=True, slots=True)
class DownstreamGauges:
    downstream: str
    unknown_effects: int
    unknown_oldest_seconds: float


def read_unknown_by_downstream() -> list[DownstreamGauges]:
    with connection.cursor() as cursor:
        cursor.execute(_UNKNOWN_BY_DOWNSTREAM)
        rows: list[tuple[Any, ...]] = cursor.fetchall()
    return [DownstreamGauges(name, count, age or 0.0) for name, count, _, age in rows]
