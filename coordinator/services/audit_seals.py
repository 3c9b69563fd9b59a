"""Sealing the audit: each event that tells what people did, or what was refused, gets its link (adr/0021).

In the background, behind the events: what workers do is neither chained nor slowed down. The
order is (transaction, id) and goes no further than the oldest transaction that still runs, as
the roll-up's does; so no event turns up in front of one that is sealed.
"""

import logging
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from coordinator.chain_digests import GENESIS, content_digest, link_digest
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import GateClass
from coordinator.rounds import Statement, name_point, run_round
from coordinator.selectors.audit_chain import IS_CHAINED

from .transactions import in_transaction

log = logging.getLogger(__name__)

#: Events that one transaction looks at, and transactions of one call.
BATCH: Final = 5_000
MAX_STEPS: Final = 20
#: An event's instant is read before its transaction ends; no transaction lasts longer than this.
STRAGGLERS: Final = timedelta(seconds=20)


class _Place(NamedTuple):
    """How far the chain is (models.AuditChain)."""

    number: int
    digest: str
    xid: int
    event_id: int
    sampled_xid: int
    sampled_at: datetime
    sealed_until: datetime


class _Looked(NamedTuple):
    """An event that was looked at; without its columns where it is not chained, or is already."""

    xid: int
    event_id: int
    at: datetime | None
    kind: str
    actor: str
    queue_id: int | None
    run_id: int | None
    task_id: UUID | None
    attempt_id: UUID | None
    state_version: int | None
    request_id: str
    data: str


def seal_events(*, batch: int = BATCH, max_steps: int = MAX_STEPS) -> int:
    """Seal what has been committed since the last time; how many links were added.

    Safe to run anywhere, at any time, and twice at once: the second finds the place taken and leaves.
    """
    sealed = 0
    for _ in range(max_steps):
        added = _step(batch)
        if added is None:
            break
        more, links = added
        sealed += links
        if not more:
            break
    return sealed


@in_transaction
def _step(batch: int) -> tuple[bool, int] | None:
    """Whether there is more, and the links added; None where another one is at it."""
    _, locked, places, clocks, horizons = run_round(
        name_point("audit"), _LOCK, _PLACE, CLOCK, _HORIZON
    )
    if not locked[0][0]:
        return None
    clock, horizon = clock_of(clocks), int(horizons[0][0])
    place = _place(places, clock)
    if horizon < place.xid:
        # Loaded from a dump: transactions are numbered anew. Links tell what is sealed; all is looked through once.
        log.warning("the database's transactions begin anew: the audit is looked through again")
        place = place._replace(xid=0, event_id=0, sampled_xid=0)
    wanted = (place.xid, place.event_id, horizon, batch)
    found, own = run_round(Statement(_LOOK, wanted), _OWN_XID)
    looked = [_Looked(int(row[0]), *row[1:]) for row in found]
    numbers, digests, moved = _chain(place, [each for each in looked if each.at is not None])
    if len(looked) == batch:
        moved = moved._replace(xid=looked[-1].xid, event_id=looked[-1].event_id)
    else:
        moved = _caught_up(moved, horizon, int(own[0][0]), clock)
    run_round(*_links(numbers, digests, clock), Statement(_SAVE, moved))
    return len(looked) == batch, len(numbers)


class _Link(NamedTuple):
    number: int
    event_id: int


def _chain(
    place: _Place, events: list[_Looked]
) -> tuple[list[_Link], list[tuple[str, str]], _Place]:
    """Each event's number, and its content's and its link's digest; and the place behind the last."""
    links, digests = [], []
    number, digest = place.number, place.digest
    for event in events:
        assert event.at is not None, "only those are passed"
        number += 1
        content = content_digest(
            event_id=event.event_id,
            at=event.at,
            kind=event.kind,
            actor=event.actor,
            queue_id=event.queue_id,
            run_id=event.run_id,
            task_id=event.task_id,
            attempt_id=event.attempt_id,
            state_version=event.state_version,
            request_id=event.request_id,
            data=orjson.loads(event.data),
        )
        digest = link_digest(number=number, previous=digest, content=content)
        links.append(_Link(number, event.event_id))
        digests.append((content, digest))
    return links, digests, place._replace(number=number, digest=digest)


def _links(links: list[_Link], digests: list[tuple[str, str]], clock: datetime) -> list[Statement]:
    if not links:
        return []
    columns: list[list[Any]] = [
        [link.number for link in links],
        [link.event_id for link in links],
        [content for content, _ in digests],
        [digest for _, digest in digests],
    ]
    return [Statement(_ADD, (clock, *columns))]


def _place(rows: list[tuple[Any, ...]], clock: datetime) -> _Place:
    if not rows:
        start = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
        return _Place(0, GENESIS, 0, 0, 0, clock, start)
    number, digest, xid, event_id, sampled_xid, *instants = rows[0]
    return _Place(number, digest, int(xid), event_id, int(sampled_xid), *instants)


def _caught_up(place: _Place, horizon: int, own_xid: int, clock: datetime) -> _Place:
    """Everything below the horizon is sealed; what that says of the instants before now (roll_ups)."""
    place = place._replace(xid=horizon, event_id=0)
    if horizon == own_xid:
        until = clock
    elif horizon >= place.sampled_xid:
        until = place.sampled_at
    else:
        return place
    until = max(until - STRAGGLERS, place.sealed_until)
    return place._replace(sealed_until=until, sampled_xid=own_xid, sampled_at=clock)


_LOCK: Final = Statement(f"SELECT pg_try_advisory_xact_lock({int(GateClass.AUDIT_CHAIN)}, 0)")
_PLACE: Final = Statement(
    "SELECT number, digest, xid::text, event_id, sampled_xid::text, sampled_at, sealed_until"
    " FROM coordinator_auditchain WHERE id = 1"
)
_HORIZON: Final = Statement("SELECT pg_snapshot_xmin(pg_current_snapshot())::text")
_OWN_XID: Final = Statement("SELECT pg_current_xact_id()::text")
#: One statement, so that a refusal which is repeated meanwhile, and moves on, can't shift the end of the batch.
_LOOK: Final = f"""
WITH stretch AS MATERIALIZED (
  SELECT id, xid, {IS_CHAINED.format("coordinator_event")} AS is_chained FROM coordinator_event
  WHERE (xid, id) > (%s::xid8, %s::bigint) AND xid < %s::xid8 ORDER BY xid, id LIMIT %s::int
)
SELECT s.xid::text, s.id, e.at, e.kind, e.actor, e.queue_id, e.run_id, e.task_id, e.attempt_id, e.state_version,
       e.request_id, e.data::text
FROM stretch s LEFT JOIN coordinator_event e ON s.is_chained AND e.id = s.id
  AND NOT EXISTS (SELECT FROM coordinator_auditlink l WHERE l.event_id = s.id)
ORDER BY s.xid, s.id
"""  # noqa: S608 (constants of ours)
_ADD: Final = """
INSERT INTO coordinator_auditlink (number, event_id, content, digest, sealed_at)
SELECT l.number, l.event_id, l.content, l.digest, %s::timestamptz
FROM unnest(%s::bigint[], %s::bigint[], %s::text[], %s::text[]) AS l(number, event_id, content, digest)
"""
_SAVE: Final = """
INSERT INTO coordinator_auditchain
  (id, number, digest, xid, event_id, sampled_xid, sampled_at, sealed_until)
VALUES (1, %s::bigint, %s, %s::xid8, %s::bigint, %s::xid8, %s::timestamptz, %s::timestamptz)
ON CONFLICT (id) DO UPDATE SET
  number = excluded.number, digest = excluded.digest, xid = excluded.xid, event_id = excluded.event_id,
  sampled_xid = excluded.sampled_xid, sampled_at = excluded.sampled_at, sealed_until = excluded.sealed_until
"""
