"""The one statement that counts a batch of events: what each adds to which counter, in one transaction."""

# ruff: noqa: S608 (SQL made of our own constants)

from typing import Final

from coordinator.canary import DRILL
from coordinator.tallies import BUCKETS, INFINITY, SEPARATOR, Name, Span, bucket_label

from .events import EventKind

_USED: Final = ("input_tokens", "output_tokens", "compute_seconds", "cost_usd")


def _bucket(value: str, name: Name) -> str:
    """The label of the bucket that holds `value`: the least bound that is not below it."""
    cases = " ".join(
        f"WHEN {value} <= {bound} THEN '{bucket_label(bound)}'" for bound in BUCKETS[name]
    )
    return f"CASE {cases} ELSE '{INFINITY}' END"


def _histogram(name: Name, value: str, source: str, where: str) -> str:
    bucket = _bucket(value, name)
    return (
        f"SELECT '{name}', {bucket}, queue_id, moment, 1, {value}::numeric FROM {source}"
        f" WHERE {where} AND {value} IS NOT NULL"
    )


def _usage() -> str:
    """One line for each thing that was used up."""
    values = ", ".join(f"('{column}', 0, {column}::numeric)" for column in _USED)
    return (
        f"SELECT CASE WHEN is_committed THEN '{Name.USED}' ELSE '{Name.ABANDONED}' END, u.label, queue_id, moment,"
        " u.count, u.total FROM settled,"
        f" LATERAL (VALUES ('attempts', attempts, 0::numeric), {values}) AS u(label, count, total)"
    )


_REFUSAL: Final = (
    f"concat_ws('{SEPARATOR}', data ->> 'point', data ->> 'outcome', data ->> 'reason')"
)
_LINES: Final = "\n  UNION ALL ".join(
    [
        f"SELECT '{Name.EVENTS}', kind, queue_id, moment, times, 0::numeric FROM fact",
        f"SELECT '{Name.REFUSALS}', {_REFUSAL}, queue_id, moment, times, 0 FROM fact WHERE kind = 'REFUSED'",
        _histogram(
            Name.RECLAIM_SECONDS,
            "(data ->> 'reclaim_seconds')::float8",
            "fact",
            f"kind = '{EventKind.CLAIMED}'",
        ),
        _histogram(Name.COMMIT_SECONDS, "waited", "committed", "true"),
        _histogram(Name.TASK_ATTEMPTS, "generation", "committed", "true"),
        f"SELECT '{Name.RENEWALS}', '', queue_id, moment, renewals, 0 FROM settled",
        _usage(),
    ]
)

#: Parameters: xid and id of the last counted event, the horizon, the floor, the size of the
#: batch, and until when minutes are closed. Answers the last event of the batch and its size.
COUNT_BATCH: Final = f"""
WITH batch AS MATERIALIZED (
  SELECT e.*, t.kind AS task_kind, t.ready_at
  FROM (SELECT id, xid, kind, coalesce(queue_id, 0) AS queue_id, task_id, attempt_id, at,
               coalesce(last_at, at) AS moment, refusal_key IS NOT NULL AS is_raised, repeats, data
        FROM coordinator_event
        WHERE (xid, id) > (%s::xid8, %s::bigint) AND xid < %s::xid8 AND id > %s::bigint
        ORDER BY xid, id LIMIT %s::int) e
  LEFT JOIN coordinator_task t ON t.task_id = e.task_id
), fact AS (
  SELECT b.*, CASE WHEN b.is_raised THEN 1 + b.repeats - coalesce(c.counted, 0) ELSE 1 END AS times
  FROM batch b LEFT JOIN coordinator_countedrefusal c ON b.is_raised AND c.event_id = b.id
  WHERE b.task_kind IS DISTINCT FROM '{DRILL}'
), raised AS (
  INSERT INTO coordinator_countedrefusal (event_id, counted) SELECT id, 1 + repeats FROM batch WHERE is_raised
  ON CONFLICT (event_id) DO UPDATE SET counted = excluded.counted
), committed AS (
  SELECT queue_id, moment, (data ->> 'claim_generation')::int AS generation,
         greatest(0, extract(epoch FROM at - ready_at)) AS waited
  FROM fact WHERE kind = '{EventKind.COMMITTED}'
), ended AS (
  SELECT a.attempt_id, max(f.queue_id) AS queue_id, max(f.moment) AS moment, a.state = 'COMMITTED' AS is_committed,
         bool_or(f.kind = '{EventKind.COMMITTED}') AS commits, a.renewals,
         a.input_tokens, a.output_tokens, a.compute_seconds, a.cost_usd
  FROM fact f JOIN coordinator_attempt a ON a.attempt_id = f.attempt_id
  WHERE f.kind <> '{EventKind.CLAIMED}' AND a.ended_at IS NOT NULL
  GROUP BY a.attempt_id
), settled AS (
  SELECT e.queue_id, e.moment, e.is_committed, n.is_new::int AS attempts,
         CASE WHEN n.is_new THEN e.renewals ELSE 0 END AS renewals,
         e.input_tokens - coalesce(c.input_tokens, 0) AS input_tokens,
         e.output_tokens - coalesce(c.output_tokens, 0) AS output_tokens,
         e.compute_seconds - coalesce(c.compute_seconds, 0) AS compute_seconds,
         e.cost_usd - coalesce(c.cost_usd, 0) AS cost_usd
  FROM ended e LEFT JOIN coordinator_countedattempt c ON c.attempt_id = e.attempt_id
  CROSS JOIN LATERAL (SELECT CASE WHEN e.is_committed THEN e.commits ELSE c.attempt_id IS NULL END AS is_new) n
), spent AS (
  INSERT INTO coordinator_countedattempt (attempt_id, input_tokens, output_tokens, compute_seconds, cost_usd)
  SELECT attempt_id, input_tokens, output_tokens, compute_seconds, cost_usd FROM ended
  WHERE NOT is_committed OR input_tokens > 0 OR output_tokens > 0 OR compute_seconds > 0 OR cost_usd > 0
  ON CONFLICT (attempt_id) DO UPDATE SET
    input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
    compute_seconds = excluded.compute_seconds, cost_usd = excluded.cost_usd
), line(name, label, queue_id, moment, count, total) AS (
  {_LINES}
), added AS (
  INSERT INTO coordinator_tally (span, since, name, queue_id, label, count, total)
  SELECT s.span, s.since, l.name, l.queue_id, l.label, sum(l.count), sum(l.total)
  FROM (SELECT name, label, queue_id, greatest(date_trunc('minute', moment, 'UTC'), %s::timestamptz) AS minute,
               sum(count) AS count, sum(total) AS total
        FROM line GROUP BY 1, 2, 3, 4) l
  CROSS JOIN LATERAL (VALUES ('{Span.MINUTE}', l.minute), ('{Span.HOUR}', date_trunc('hour', l.minute, 'UTC')),
                             ('{Span.EVER}', 'epoch'::timestamptz)) AS s(span, since)
  WHERE l.count <> 0 OR l.total <> 0
  GROUP BY 1, 2, 3, 4, 5
  ON CONFLICT (span, name, since, queue_id, label)
    DO UPDATE SET count = coordinator_tally.count + excluded.count, total = coordinator_tally.total + excluded.total
)
SELECT b.xid::text, b.id, (SELECT count(*) FROM batch) FROM batch b ORDER BY b.xid DESC, b.id DESC LIMIT 1
"""
