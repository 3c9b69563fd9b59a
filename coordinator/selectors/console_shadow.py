"""Every queue's rollout at a glance, for the list of the console (console design, 7.6)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import connection

QUEUES_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class ShadowRow:
    """Rounds that were settled within the last day; `told_at`: when a feed was last heard."""

    queue: str
    rollout_stage: str
    stage_since: datetime
    rounds: int
    mismatched: int
    told_at: datetime | None


#: A rehearsal's lane is its queue's, not one of its own.
_ROWS: Final = """
SELECT q.name, q.rollout_stage, q.stage_since, coalesce(r.rounds, 0), coalesce(r.mismatched, 0), s.told_at
FROM coordinator_queue q
LEFT JOIN (
  SELECT queue_id, count(*) AS rounds, count(*) FILTER (WHERE verdict <> 'AGREE') AS mismatched
  FROM coordinator_shadowround
  WHERE settled_at IS NOT NULL AND is_counted AND settled_at >= clock_timestamp() - interval '24 hours'
  GROUP BY queue_id
) r ON r.queue_id = q.id
LEFT JOIN (SELECT queue_id, max(last_at) AS told_at FROM coordinator_shadowsource GROUP BY queue_id) s
  ON s.queue_id = q.id
WHERE q.name NOT LIKE '%%~shadow'
ORDER BY q.rollout_stage = 'CONDITIONAL_WRITES', s.told_at DESC NULLS LAST, q.name LIMIT %s
"""


def list_shadows() -> list[ShadowRow]:
    """Those that are still on their way first."""
    with connection.cursor() as cursor:
        cursor.execute(_ROWS, [QUEUES_SHOWN])
        return [ShadowRow(*row) for row in cursor.fetchall()]
