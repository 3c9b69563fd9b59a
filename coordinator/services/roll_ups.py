"""Rolling the events up into counters: incrementally, bounded, each event once (contract 14).

Ids of events do not commit in order: a transaction that is still open may have drawn a lower
one. So the order of counting is (transaction, id), and a step goes no further than the oldest
transaction that is still running: whatever is below that is there for good. The counters and
the place reached move in one transaction; a step that fails has counted nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.rounds import Statement, run_round
from coordinator.selectors.gauges import QueueGauges, read_gauges
from coordinator.selectors.scrape import read_progress
from coordinator.shadow.lanes import is_rehearsal
from coordinator.tallies import HOURS_KEPT_DAYS, MINUTES_KEPT_HOURS, Name, Span

from .roll_up_sql import COUNT_BATCH
from .transactions import in_transaction

log = logging.getLogger(__name__)

BATCH: Final = 5_000
#: A call stops after so many batches; the next one goes on.
MAX_STEPS: Final = 20
#: A step at a scrape, where somebody waits for the answer.
SCRAPE_STEPS: Final = 4
#: Twice the background job's cadence: a scrape then counts by itself.
STALE_SECONDS: Final = 8.0
#: An event's instant is read before its transaction ends; no transaction lasts longer than this.
STRAGGLERS: Final = timedelta(seconds=20)
PRUNED_AT_ONCE: Final = 20_000
_START: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


@dataclass(frozen=True, slots=True)
class RolledUp:
    """`events` were counted; everything before `until` is, but for what runs right now."""

    events: int
    until: datetime
    caught_up: bool


class _Place(NamedTuple):
    """How far the roll-up is (models.RollUp)."""

    xid: int = 0
    event_id: int = 0
    floor_id: int = 0
    sampled_xid: int = 0
    sampled_at: datetime = _START
    rolled_until: datetime = _START
    closed_until: datetime = _START
    gauged_at: datetime | None = None


def roll_up(*, batch: int = BATCH, max_steps: int = MAX_STEPS) -> RolledUp | None:
    """Count what has been committed since the last time, at most `max_steps` batches of events.

    None where another process is at it right now. Safe to run anywhere, at any time.
    """
    rolled = None
    for _ in range(max_steps):
        step = _step(batch)
        if step is None:
            return rolled
        rolled = replace(step, events=step.events + (rolled.events if rolled else 0))
        if step.caught_up:
            break
    return rolled


def roll_up_if_stale() -> None:
    """At a scrape: where the background job is late, or does not run, the scrape counts for it."""
    lag = read_progress().lag_seconds
    if lag is None or lag > STALE_SECONDS:
        roll_up(max_steps=SCRAPE_STEPS)


@in_transaction
def _step(batch: int) -> RolledUp | None:
    locked, places, clock_rows, horizons = run_round(_LOCK, _PLACE, CLOCK, _HORIZON)
    if not locked[0][0]:
        return None
    clock, horizon, place = clock_of(clock_rows), int(horizons[0][0]), _place(places)
    if horizon < place.xid:
        place = _begin_anew(place, horizon)
    wanted = (place.xid, place.event_id, horizon, place.floor_id, batch, place.closed_until)
    found, own = run_round(Statement(COUNT_BATCH, wanted), _OWN_XID)
    xid, event_id, size = found[0] if found else ("0", 0, 0)
    if size == batch:
        moved = place._replace(xid=int(xid), event_id=event_id)
    else:
        moved = _caught_up(place, horizon, int(own[0][0]), clock)
        moved = _sample_gauges(moved, clock)
    run_round(_save(moved, clock))
    return RolledUp(size, moved.rolled_until, size < batch)


def _place(rows: list[tuple[object, ...]]) -> _Place:
    if not rows:
        return _Place()
    xid, event_id, floor_id, sampled_xid, *instants = rows[0]
    return _Place(int(str(xid)), event_id, floor_id, int(str(sampled_xid)), *instants)  # type: ignore[arg-type]


def _caught_up(place: _Place, horizon: int, own_xid: int, clock: datetime) -> _Place:
    """Everything below the horizon is counted; what that says of the instants before now.

    Transactions are numbered in the order in which they begin to write. `own_xid` was drawn
    after the clock was read: whatever is numbered higher has written nothing before `clock`.
    """
    place = place._replace(xid=horizon, event_id=0)
    if horizon == own_xid:  # all that were numbered before us had ended
        until = clock
    elif horizon >= place.sampled_xid:
        until = place.sampled_at
    else:
        return place
    minute = (until - STRAGGLERS).replace(second=0, microsecond=0)
    return place._replace(
        rolled_until=max(until, place.rolled_until),
        closed_until=max(minute, place.closed_until),
        sampled_xid=own_xid,
        sampled_at=clock,
    )


def _begin_anew(place: _Place, horizon: int) -> _Place:
    """Transactions are numbered lower than those already counted: the database was loaded from a dump.

    Its old events are counted or lost to the count; only later ones are counted from here on.
    """
    (newest,) = run_round(Statement("SELECT coalesce(max(id), 0) FROM coordinator_event"))
    log.warning("the database's transactions begin anew: what is here is not counted again")
    return place._replace(xid=horizon, event_id=0, floor_id=newest[0][0], sampled_xid=horizon)


# --- samples, and what is no longer wanted --------------------------------------------------------


def _sample_gauges(place: _Place, clock: datetime) -> _Place:
    """Once a minute: the gauges as they stand, for their charts; and rows that are too old go."""
    minute = clock.replace(second=0, microsecond=0)
    if place.gauged_at is not None and minute <= place.gauged_at:
        return place
    gauges = read_gauges()
    samples = [sample for gauge in gauges for sample in _samples(gauge.queue_id, [gauge])]
    samples += _samples(0, [gauge for gauge in gauges if not is_rehearsal(gauge.queue)])
    columns = [list(column) for column in zip(*samples, strict=True)]
    run_round(
        Statement(_ADD_SAMPLES, (minute, *columns)),
        _prune(Span.MINUTE, clock - timedelta(hours=MINUTES_KEPT_HOURS)),
        _prune(Span.HOUR, clock - timedelta(days=HOURS_KEPT_DAYS)),
    )
    return place._replace(gauged_at=minute)


def _samples(queue_id: int, of: Sequence[QueueGauges]) -> list[tuple[int, Name, float]]:
    """What one queue has, or all together: backlogs add up, of ages the oldest counts."""
    ages = [(each.unknown_oldest_seconds, each.approvals_oldest_seconds) for each in of]
    return [
        (queue_id, Name.UNKNOWN_EFFECTS, sum(each.unknown_effects for each in of)),
        (queue_id, Name.UNKNOWN_AGE, max((unknown for unknown, _ in ages), default=0.0)),
        (queue_id, Name.APPROVALS_WAITING, sum(each.approvals_waiting for each in of)),
        (queue_id, Name.APPROVALS_AGE, max((waiting for _, waiting in ages), default=0.0)),
        (queue_id, Name.READY_TASKS, sum(each.ready_tasks for each in of)),
        (queue_id, Name.LIVE_LEASES, sum(each.live_leases for each in of)),
    ]


def _prune(span: Span, before: datetime) -> Statement:
    return Statement(_PRUNE, (str(span), [str(name) for name in Name], before, PRUNED_AT_ONCE))


_ADD_SAMPLES: Final = f"""
INSERT INTO coordinator_tally (span, since, name, queue_id, label, count, total)
SELECT s.span, s.since, g.name, g.queue_id, '', 1, g.value
FROM (SELECT %s::timestamptz) AS c(minute), unnest(%s::int[], %s::text[], %s::numeric[]) AS g(queue_id, name, value)
CROSS JOIN LATERAL (VALUES ('{Span.MINUTE}', c.minute), ('{Span.HOUR}', date_trunc('hour', c.minute, 'UTC')))
  AS s(span, since)
ON CONFLICT (span, name, since, queue_id, label)
  DO UPDATE SET count = coordinator_tally.count + 1, total = coordinator_tally.total + excluded.total
"""  # noqa: S608 (constants of ours)
_PRUNE: Final = """
DELETE FROM coordinator_tally WHERE ctid = ANY(ARRAY(
  SELECT ctid FROM coordinator_tally WHERE span = %s AND name = ANY(%s::text[]) AND since < %s::timestamptz
  LIMIT %s::int))
"""


# --- the place ------------------------------------------------------------------------------------

_LOCK: Final = Statement(f"SELECT pg_try_advisory_xact_lock({int(GateClass.ROLL_UP)}, 0)")
_PLACE: Final = Statement(
    "SELECT xid::text, event_id, floor_id, sampled_xid::text, sampled_at, rolled_until, closed_until, gauged_at"
    " FROM coordinator_rollup WHERE id = 1"
)
#: All transactions below it have ended. We have written nothing yet, so that we are not among the running ones.
_HORIZON: Final = Statement("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
_OWN_XID: Final = Statement("SELECT pg_current_xact_id()::text")
_SAVE_PLACE: Final = """
INSERT INTO coordinator_rollup
  (id, xid, event_id, floor_id, sampled_xid, sampled_at, rolled_until, closed_until, gauged_at, rolled_at)
VALUES (1, %s::xid8, %s::bigint, %s::bigint, %s::xid8, %s::timestamptz, %s::timestamptz, %s::timestamptz,
        %s::timestamptz, %s::timestamptz)
ON CONFLICT (id) DO UPDATE SET
  xid = excluded.xid, event_id = excluded.event_id, floor_id = excluded.floor_id, sampled_xid = excluded.sampled_xid,
  sampled_at = excluded.sampled_at, rolled_until = excluded.rolled_until, closed_until = excluded.closed_until,
  gauged_at = excluded.gauged_at, rolled_at = excluded.rolled_at
"""


def _save(place: _Place, clock: datetime) -> Statement:
    return Statement(_SAVE_PLACE, (*place, clock))
