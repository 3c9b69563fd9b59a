"""Links beside their events, as a verification reads them; and the links that prunings say they took (adr/0021)."""

from bisect import bisect_right
from collections.abc import Iterator
from datetime import datetime
from typing import Final, NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from coordinator.chain_digests import content_digest

_BATCH: Final = 1_000


class LinkRow(NamedTuple):
    number: int
    event_id: int
    content: str
    digest: str
    pruned: bool
    found: int | None
    at: datetime
    last_at: datetime | None
    kind: str
    actor: str
    queue_id: int | None
    run_id: int | None
    task_id: UUID | None
    attempt_id: UUID | None
    state_version: int | None
    request_id: str
    data: str

    def content_now(self) -> str:
        return content_digest(
            event_id=self.event_id,
            at=self.at,
            kind=self.kind,
            actor=self.actor,
            queue_id=self.queue_id,
            run_id=self.run_id,
            task_id=self.task_id,
            attempt_id=self.attempt_id,
            state_version=self.state_version,
            request_id=self.request_id,
            data=orjson.loads(self.data),
        )


class PrunedLinks:
    """The links that prunings say they took, as ranges."""

    def __init__(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute(_PRUNINGS)
            ranges = sorted(
                tuple(each) for (told,) in cursor.fetchall() for each in orjson.loads(told)
            )
        self._firsts = [first for first, _ in ranges]
        self._lasts = [last for _, last in ranges]

    def __contains__(self, number: int) -> bool:
        at = bisect_right(self._firsts, number) - 1
        return at >= 0 and number <= self._lasts[at]


def read_links(first: int, end: int) -> Iterator[LinkRow]:
    with connection.cursor() as cursor:
        at = first
        while at <= end:
            cursor.execute(_ROWS, [at, min(end, at + _BATCH - 1)])
            yield from (LinkRow._make(row) for row in cursor.fetchall())
            at += _BATCH


_EVENT: Final = (
    "e.id, e.at, e.last_at, e.kind, e.actor, e.queue_id, e.run_id, e.task_id, e.attempt_id, e.state_version,"
    " e.request_id, e.data::text"
)
_ROWS: Final = f"""
SELECT l.number, l.event_id, l.content, l.digest, l.pruned, {_EVENT}
FROM coordinator_auditlink l LEFT JOIN coordinator_event e ON e.id = l.event_id
WHERE l.number BETWEEN %s AND %s ORDER BY l.number
"""  # noqa: S608 (constants of ours)
_PRUNINGS: Final = """
SELECT (data -> 'links')::text FROM coordinator_event
WHERE task_id IS NULL AND kind = 'PRUNED' AND data ? 'links' ORDER BY id DESC
"""
