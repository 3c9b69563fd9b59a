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
#: So many uses of a break-glass are told, the last ones, for so long.
MAX_USED_GLASS: Final = 3
USED_GLASS_TOLD_HOURS: Final = 24
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
    #: Per cent that its canary lets in; whether the watch has held that, and when.
    share: int = 0
    held_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class UsedBreakGlass:
    """A rule was passed by: a session past the guard (`session`), or an epoch raised alone (`bump`)."""

    kind: str
    ref: str
    who: str
    why: str
    at: datetime


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
    #: Told for a day after it was over.
    used_glass: tuple[UsedBreakGlass, ...] = ()

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
       JOIN coordinator_queue named ON named.id = l.queue_id WHERE l.incident_id = i.incident_id) AS queues,
       (SELECT max(named.intake_share) FROM coordinator_incidentqueue l
        JOIN coordinator_queue named ON named.id = l.queue_id WHERE l.incident_id = i.incident_id) AS share,
       (SELECT CASE WHEN c.fenced IS NOT NULL THEN c.at END FROM coordinator_incidentcanary c
        WHERE c.incident_id = i.incident_id ORDER BY c.id DESC LIMIT 1) AS held_at
     FROM coordinator_incident i
     WHERE i.incident_id IN (SELECT incident_id FROM coordinator_incidentqueue WHERE is_open)
     ORDER BY i.incident_id LIMIT %s) AS open),
  (SELECT json_agg(used)::text FROM (
     SELECT 'session' AS kind, id::text AS ref, opened_by AS who, reason AS why, opened_at AS at
     FROM coordinator_breakglass WHERE coalesce(closed_at, expires_at) <= clock.now
       AND coalesce(closed_at, expires_at) > clock.now - make_interval(hours => %s)
     UNION ALL
     SELECT 'bump', incident_id::text, actor, reason, at FROM coordinator_incidentstep
     WHERE step = 'BUMPED' AND at > clock.now - make_interval(hours => %s) AND (receipt ->> 'alone')::boolean
     ORDER BY at DESC LIMIT %s) AS used)
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
        told = (USED_GLASS_TOLD_HOURS, USED_GLASS_TOLD_HOURS, MAX_USED_GLASS)
        cursor.execute(_READ, (COUNTED + 1, COUNTED + 1, MAX_INCIDENTS, *told, MAX_QUEUE_NAMES))
        row = cursor.fetchone()
    assert row is not None
    now, names, total, stopped, epoch, hold, *session, asked, unknown, incidents, used = row
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
        incidents=tuple(
            OpenIncident(**each | {"held_at": _instant(each["held_at"])})
            for each in orjson.loads(incidents or "[]")
        ),
        used_glass=tuple(
            UsedBreakGlass(**each | {"at": _instant(each["at"])})
            for each in orjson.loads(used or "[]")
        ),
    )


def _instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
