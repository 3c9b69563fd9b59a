"""The canary of an incident as it is read: what was let in when, and how its commits fared (contract 12)."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final
from uuid import UUID

from django.db import connection

from coordinator.models import IncidentCanary
from coordinator.tallies import Name, Span

#: So many of the newest attempts, and of the newest refusals, are looked at.
LOOKED_AT: Final = 10_000
#: It is held where so many commits were fenced, and they are more than this part of all.
MIN_FENCED: Final = 3
MAX_FENCED_PART: Final = 0.05
#: An attempt's id tells the time of the server that made it, not the database's.
_CLOCKS_APART: Final = timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class CanaryRecord:
    """From `at` on `share` per cent were let in. `commits` and `fenced` tell what the watch held it for."""

    share: int
    version: int
    by: str
    address: str
    at: datetime
    reason: str
    held: bool
    commits: int | None
    fenced: int | None


@dataclass(frozen=True, slots=True)
class CanaryPulse:
    """What became of the commits of attempts that began after the part was let in."""

    commits: int
    fenced: int

    @property
    def part(self) -> float:
        """The part of the commits that was fenced, 0 to 1."""
        return self.fenced / max(1, self.commits + self.fenced)

    @property
    def is_bad(self) -> bool:
        return self.fenced >= MIN_FENCED and self.part > MAX_FENCED_PART


def canary_record(row: IncidentCanary) -> CanaryRecord:
    return CanaryRecord(
        share=row.share,
        version=row.version,
        by=row.actor,
        address=row.address,
        at=row.at,
        reason=row.reason,
        held=row.fenced is not None,
        commits=row.commits,
        fenced=row.fenced,
    )


def was_held(incident_id: UUID) -> bool:
    """Whether the newest word about its canary is the watch's."""
    newest = IncidentCanary.objects.filter(incident_id=incident_id).order_by("-id").first()
    return newest is not None and newest.fenced is not None


#: Late calls of the old epoch are not in it: their attempts began before. Commits are counted by the roll-up; what it
#: has not come to yet is among the newest attempts. Each of the three parts looks at a bounded number of rows.
_PULSE: Final = f"""
SELECT greatest(
  (SELECT coalesce(sum(count), 0) FROM coordinator_tally
   WHERE span = '{Span.MINUTE}' AND name = '{Name.EVENTS}' AND label = 'COMMITTED'
     AND since >= date_trunc('minute', %(since)s::timestamptz) AND queue_id = ANY(%(queues)s::int[])),
  (SELECT count(*) FROM (
     SELECT attempt_id, task_id, state, started_at FROM coordinator_attempt
     WHERE attempt_id >= %(first)s::uuid ORDER BY attempt_id DESC LIMIT {LOOKED_AT}) a
   JOIN coordinator_task t ON t.task_id = a.task_id
   WHERE a.state = 'COMMITTED' AND a.started_at > %(since)s AND t.queue_id = ANY(%(queues)s::int[]))),
  (SELECT count(*) FROM (
     SELECT queue_id, attempt_id, at, data FROM coordinator_event
     WHERE refusal_key IS NOT NULL ORDER BY id DESC LIMIT {LOOKED_AT}) e
   JOIN coordinator_attempt a ON a.attempt_id = e.attempt_id
   WHERE e.at > %(since)s AND e.queue_id = ANY(%(queues)s::int[])
     AND e.data ->> 'point' = 'commit' AND e.data ->> 'outcome' = 'FENCED' AND a.started_at > %(since)s)
"""  # noqa: S608 (constants of ours)


def read_pulse(since: datetime, queue_ids: Sequence[int]) -> CanaryPulse:
    first = UUID(int=int((since - _CLOCKS_APART).timestamp() * 1000) << 80)
    with connection.cursor() as cursor:
        cursor.execute(_PULSE, {"since": since, "queues": list(queue_ids), "first": first})
        row = cursor.fetchone()
    assert row is not None
    return CanaryPulse(int(row[0]), row[1])
