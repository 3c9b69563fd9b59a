"""The chain's events as lines of a file, oldest first: what `tenure audit export` writes (adr/0021)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from coordinator.chain_digests import GENESIS
from coordinator.secrets import mask_members

MAX_LINES: Final = 1_000


@dataclass(frozen=True, slots=True)
class LineLink:
    """An event's place in the chain. `complete`: the line has everything that `content` is the digest of."""

    number: int
    previous: str
    content: str
    digest: str
    queue_id: int | None
    run_id: int | None
    complete: bool


@dataclass(frozen=True, slots=True)
class AuditLine:
    """An event as it was sealed. Of a pruned one only the link is left: `at` and what follows are None."""

    id: int
    at: datetime | None
    kind: str | None
    actor: str | None
    task_id: UUID | None
    attempt_id: UUID | None
    state_version: int | None
    request_id: str | None
    data: dict[str, Any] | None
    chain: LineLink


@dataclass(frozen=True, slots=True)
class AuditLinesPage:
    """`next_number` goes on; None at the end of the chain."""

    lines: list[AuditLine]
    next_number: int | None


_READ: Final = """
SELECT l.event_id, e.at, e.kind, e.actor, e.task_id, e.attempt_id, e.state_version, e.request_id, e.data::text,
       l.number, p.digest, l.content, l.digest, e.queue_id, e.run_id
FROM coordinator_auditlink l LEFT JOIN coordinator_auditlink p ON p.number = l.number - 1
LEFT JOIN coordinator_event e ON e.id = l.event_id
WHERE l.number >= %s ORDER BY l.number LIMIT %s
"""


def read_lines(*, first: int, limit: int, masked: bool = True) -> AuditLinesPage:
    """From link `first` on. `masked`: secrets are masked as everywhere, and a line that has one is not complete."""
    with connection.cursor() as cursor:
        cursor.execute(_READ, [first, limit + 1])
        lines = [_line(_Row._make(row), masked) for row in cursor.fetchall()]
    more = lines[limit].chain.number if len(lines) > limit else None
    return AuditLinesPage(lines[:limit], more)


class _Row(NamedTuple):
    id: int
    at: datetime | None
    kind: str | None
    actor: str | None
    task_id: UUID | None
    attempt_id: UUID | None
    state_version: int | None
    request_id: str | None
    data: str | None
    number: int
    previous: str | None
    content: str
    digest: str
    queue_id: int | None
    run_id: int | None


def _line(row: _Row, masked: bool) -> AuditLine:
    data = None if row.data is None else orjson.loads(row.data)
    shown = mask_members(data) if masked and data else data
    return AuditLine(
        id=row.id,
        at=row.at,
        kind=row.kind,
        actor=row.actor,
        task_id=row.task_id,
        attempt_id=row.attempt_id,
        state_version=row.state_version,
        request_id=row.request_id,
        data=shown,
        chain=LineLink(
            number=row.number,
            previous=row.previous or GENESIS,
            content=row.content,
            digest=row.digest,
            queue_id=row.queue_id,
            run_id=row.run_id,
            complete=data is not None and shown == data,
        ),
    )
