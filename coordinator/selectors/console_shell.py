"""What every page of the console shows around its content, in one round trip."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

import orjson
from django.db import connection

#: More queues than this are not offered in a filter by name.
MAX_QUEUE_NAMES: Final = 200
#: So many open incidents are named in the banner; their list has all.
MAX_INCIDENTS: Final = 5
#: What waits for people is counted so far; beyond it stands "99+".
COUNTED: Final = 99


@dataclass(frozen=True, slots=True)
class OpenBreakGlass:
    """A break-glass session that is open now: every page says so (contract 16)."""

    opened_by: str
    reason: str
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class OpenIncident:
    """An incident that is under way: every page says so (contract 12)."""

    incident_id: str
    state: str
    opened_by: str
    queues: str


@dataclass(frozen=True, slots=True)
class Shell:
    """The database's time, the queues in short, the break-glass session that ends last, why intake is held."""

    now: datetime
    queue_names: tuple[str, ...]
    queues: int
    stopped: int
    epoch: int | None
    break_glass: OpenBreakGlass | None
    hold: str = ""
    #: Requests that wait for a person's word, and effects whose outcome nobody knows; capped.
    asked: int = 0
    unknown: int = 0
    incidents: tuple[OpenIncident, ...] = ()

    @property
    def asked_shown(self) -> str:
        return shown_count(self.asked)

    @property
    def unknown_shown(self) -> str:
        return shown_count(self.unknown)


def shown_count(count: int) -> str:
    return f"{COUNTED}+" if count > COUNTED else str(count)


_READ: Final = """
WITH clock AS (SELECT clock_timestamp() AS now)
SELECT clock.now, q.names, q.total, q.stopped, q.epoch,
  (SELECT held_because FROM coordinator_installation), b.opened_by, b.reason, b.expires_at,
  (SELECT count(*) FROM (
     SELECT 1 FROM coordinator_approval WHERE state IN ('PENDING', 'APPROVED') AND state = 'PENDING'
       AND expires_at > clock.now LIMIT %s) AS asked),
  (SELECT count(*) FROM (
     SELECT 1 FROM coordinator_effectslot WHERE state IN ('ACCEPTED', 'RESENDABLE', 'UNKNOWN')
       AND state <> 'ACCEPTED' LIMIT %s) AS unknown),
  (SELECT json_agg(open)::text FROM (
     SELECT i.incident_id, i.state, i.opened_by, (
       SELECT left(string_agg(named.name, ', ' ORDER BY named.name), 300) FROM coordinator_incidentqueue l
       JOIN coordinator_queue named ON named.id = l.queue_id WHERE l.incident_id = i.incident_id) AS queues
     FROM coordinator_incident i
     WHERE i.incident_id IN (SELECT incident_id FROM coordinator_incidentqueue WHERE is_open)
     ORDER BY i.incident_id LIMIT %s) AS open)
FROM clock
CROSS JOIN (
  SELECT (array_agg(name ORDER BY name))[1:%s] AS names, count(*) AS total,
         count(*) FILTER (WHERE intake = 'STOPPED') AS stopped, max(scheduler_epoch) AS epoch
  FROM coordinator_queue
) q
LEFT JOIN LATERAL (
  SELECT opened_by, reason, expires_at FROM coordinator_breakglass
  WHERE closed_at IS NULL AND expires_at > clock.now ORDER BY expires_at DESC LIMIT 1
) b ON true
"""


def read_shell() -> Shell:
    """`epoch` is the highest of all queues, None without any."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, (COUNTED + 1, COUNTED + 1, MAX_INCIDENTS, MAX_QUEUE_NAMES))
        row = cursor.fetchone()
    assert row is not None
    now, names, total, stopped, epoch, hold, *session, asked, unknown, incidents = row
    return Shell(
        now=now,
        queue_names=tuple(names or ()),
        queues=total,
        stopped=stopped,
        epoch=epoch,
        break_glass=OpenBreakGlass(*session) if session[0] is not None else None,
        hold=hold or "",
        asked=asked,
        unknown=unknown,
        incidents=tuple(OpenIncident(**each) for each in orjson.loads(incidents or "[]")),
    )
