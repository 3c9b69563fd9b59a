"""Taking in the events of a legacy scheduler: each once, into the round that it belongs to (contract 13).

Two round trips a batch, whatever its size. One writer at a time in each queue's shadow; it
takes no lock that live work could wait for.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple
from uuid import UUID

from coordinator.actors import Worker
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import shadow_gate
from coordinator.ids import new_ids
from coordinator.outcomes import FieldError, Refusal, not_found
from coordinator.rounds import Statement, close_with_round, name_point, run_round
from coordinator.shadow.words import LegacyEvent

from . import queue_ids
from .transactions import in_transaction

MAX_EVENTS: Final = 1_000
#: A round with more events than these is one that nobody will look through; further ones are refused.
MAX_ROUND_EVENTS: Final = 10_000
#: A legacy clock may run ahead by so much.
MAX_AHEAD_SECONDS: Final = 3_600
#: So many faults stand in the answer; all of them are counted.
MAX_FAULTS: Final = 100


class Told(NamedTuple):
    """One event as it was sent."""

    source: str
    task_key: str
    event: LegacyEvent

    @property
    def name(self) -> tuple[str, str]:
        return self.source, self.event.event_id

    @property
    def key(self) -> tuple[str, str]:
        return self.source, self.task_key


@dataclass(frozen=True, slots=True)
class ShadowReceived:
    """What became of a batch: `received` = `new` + `duplicate` + `refused`.

    `conflicting` of the duplicates came with another body, which changes nothing; `too_late` of the
    new ones belong to a round that has been settled, and are kept beside it.
    """

    queue: str
    received: int
    new: int
    duplicate: int
    conflicting: int
    too_late: int
    refused: int
    faults: list[FieldError] = field(default_factory=list)
    outcome: str = "RECEIVED"


def take_events(
    *, queue: str, events: Sequence[Told], worker: Worker, lost: int = 0
) -> ShadowReceived | Refusal:
    """Keep each event of the batch that is not known yet, and have its round judged in due time.

    The same (source, event_id) again changes nothing, with whatever body. An event whose round
    has been settled is kept as too late. Refused one by one, with a pointer: an `at` too far
    ahead of the database's clock, a source that belongs to another queue, a round that is full.
    `lost` is how many events the feed had to drop since its last batch; it is added to the
    source of the batch's first event, unless all of the batch is known. NOT_FOUND where the
    queue is unknown, or not the worker's.
    """
    assert 0 < len(events) <= MAX_EVENTS, "the body's model allows no other batch"
    if queue not in worker.queues:
        return not_found("queue")
    for queue_id in queue_ids.candidates(queue):
        answer = _take(queue_id, queue, events, lost)
        if answer is not None:
            return answer
    return not_found("queue")


class _Round(NamedTuple):
    """The newest round of a key."""

    source: str
    task_key: str
    round_id: UUID
    number: int
    events: int
    closes_at: datetime | None
    is_open: bool


@in_transaction
def _take(queue_id: int, queue: str, events: Sequence[Told], lost: int) -> ShadowReceived | None:
    sources = sorted({told.source for told in events})
    keys = sorted({told.key for told in events})
    _, _, queues, _, owned, known, rounds, clock_rows = run_round(
        name_point("shadow"),
        shadow_gate(queue_id),
        Statement(_QUEUE, (queue_id,)),
        Statement(_ENTER, (sources, queue_id, queue)),
        Statement(_SOURCES, (sources,)),
        Statement(_KNOWN, _columns([told.name for told in events], 2)),
        Statement(_NEWEST, _columns(keys, 2)),
        CLOCK,
    )
    if not queues or queues[0][0] != queue:
        return None
    intake = _Intake(
        queue_id=queue_id,
        clock=clock_of(clock_rows),
        settle=timedelta(seconds=queues[0][1]),
        foreign={name for name, owner in owned if owner != queue_id},
        known={(source, event_id): digest for source, event_id, digest in known},
        rounds={row[:2]: _Round._make(row) for row in rounds},
    )
    for index, told in enumerate(events):
        intake.take(index, told)
    close_with_round(*intake.statements(lost, lost_at=events[0].source))
    return intake.answer(queue, len(events))


@dataclass(slots=True)
class _Intake:
    """Where each event of one batch goes."""

    queue_id: int
    clock: datetime
    settle: timedelta
    foreign: set[str]
    known: dict[tuple[str, str], int]
    rounds: dict[tuple[str, str], _Round]
    opened: dict[tuple[str, str], datetime] = field(default_factory=dict)
    grown: dict[UUID, int] = field(default_factory=dict)
    belated: dict[UUID, int] = field(default_factory=dict)
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    counts: dict[str, list[int]] = field(default_factory=dict)  # new, duplicate, conflict, too late
    faults: list[FieldError] = field(default_factory=list)
    refused: int = 0

    def take(self, index: int, told: Told) -> None:
        fault = self._fault(told)
        if fault is not None:
            self.refused += 1
            if len(self.faults) < MAX_FAULTS:
                self.faults.append(FieldError(f"/events/{index}/{fault[0]}", fault[1]))
            return
        counts = self.counts.setdefault(told.source, [0, 0, 0, 0])
        digest = _digest(told)
        if told.name in self.known:
            counts[1] += 1
            counts[2] += self.known[told.name] != digest
            return
        self.known[told.name] = digest
        counts[0] += 1
        counts[3] += self._place(told, digest)

    def _fault(self, told: Told) -> tuple[str, str] | None:
        if told.source in self.foreign:
            return "source", f"`{told.source}` belongs to another queue; name yours differently."
        ahead = told.event.at - self.clock
        if ahead > timedelta(seconds=MAX_AHEAD_SECONDS):
            return "at", f"It is {ahead.total_seconds():.0f} s ahead of this clock; mend yours."
        row = self.rounds.get(told.key)
        if row is not None and row.events + self.grown.get(row.round_id, 0) >= MAX_ROUND_EVENTS:
            return "task_key", f"Its round has {MAX_ROUND_EVENTS} events, which is the most."
        return None

    def _place(self, told: Told, digest: int) -> bool:
        """Put the event into its key's newest round, or open the next one; whether it is too late."""
        row, at = self.rounds.get(told.key), told.event.at
        too_late = (
            row is not None
            and not row.is_open
            and row.closes_at is not None
            and at <= row.closes_at
        )
        if row is None or not (row.is_open or too_late):
            row = _Round(
                *told.key, new_ids(1)[0], row.number + 1 if row else 1, 0, None, is_open=True
            )
            self.rounds[told.key] = row
        if row.is_open and row.events == 0:
            self.opened[told.key] = min(at, self.opened.get(told.key, at))
        if too_late:
            self.belated[row.round_id] = self.belated.get(row.round_id, 0) + 1
        else:
            self.grown[row.round_id] = self.grown.get(row.round_id, 0) + 1
        event = told.event
        self.rows.append(
            (
                told.source,
                event.event_id,
                row.round_id,
                told.task_key,
                event.event,
                event.owner,
                at,
                event.lease_seconds,
                event.result_digest,
                event.input_digest,
                digest,
                too_late,
            )
        )
        return too_late

    def statements(self, lost: int, *, lost_at: str) -> list[Statement]:
        if not self.rows:
            lost = 0  # a repeat of a batch whose answer was lost
        sources = [
            (name, *counts, lost if name == lost_at else 0) for name, counts in self.counts.items()
        ]
        if not sources:
            return []
        check_at = self.clock + self.settle
        opened = [
            (*key, row.round_id, row.number, at, self.grown[row.round_id])
            for key, at in self.opened.items()
            for row in [self.rounds[key]]
        ]
        fresh = {row[2] for row in opened}
        grown = [(one, count) for one, count in self.grown.items() if one not in fresh]
        return [
            Statement(_COUNT, (self.clock, *_columns(sources, 6))),
            *(
                [Statement(_OPEN, (self.queue_id, check_at, *_columns(opened, 6)))]
                if opened
                else []
            ),
            *([Statement(_GROW, (check_at, *_columns(grown, 2)))] if grown else []),
            *(
                [Statement(_BELATE, tuple(_columns(list(self.belated.items()), 2)))]
                if self.belated
                else []
            ),
            *([Statement(_KEEP, (self.clock, *_columns(self.rows, 12)))] if self.rows else []),
        ]

    def answer(self, queue: str, received: int) -> ShadowReceived:
        new, duplicate, conflicting, too_late = (
            sum(counts[place] for counts in self.counts.values()) for place in range(4)
        )
        return ShadowReceived(
            queue, received, new, duplicate, conflicting, too_late, self.refused, self.faults
        )


def _digest(told: Told) -> int:
    """64 bits that tell another body under the same id; not evidence, only a count."""
    event = told.event._replace(event_id=told.task_key)
    parts = [part.timestamp() if isinstance(part, datetime) else part for part in event]
    text = "\x1f".join("" if part is None else str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    """Rows turned into the arrays that `unnest` takes."""
    return [[row[column] for row in rows] for column in range(count)]


_QUEUE: Final = "SELECT name, shadow_settle_seconds FROM coordinator_queue WHERE id = %s"
_SOURCES: Final = "SELECT name, queue_id FROM coordinator_shadowsource WHERE name = ANY(%s::text[])"
_KNOWN: Final = """
SELECT e.source, e.event_id, e.body_digest FROM unnest(%s::text[], %s::text[]) AS w(source, event_id)
JOIN coordinator_shadowevent e ON e.source = w.source AND e.event_id = w.event_id
"""
_NEWEST: Final = """
SELECT r.source, r.task_key, r.round_id, r.number, r.events, r.closes_at, r.verdict IS NULL
FROM unnest(%s::text[], %s::text[]) AS w(source, task_key)
CROSS JOIN LATERAL (
  SELECT * FROM coordinator_shadowround n WHERE n.source = w.source AND n.task_key = w.task_key
  ORDER BY n.number DESC LIMIT 1) r
"""
_ENTER: Final = """
INSERT INTO coordinator_shadowsource (name, queue_id, events, duplicates, conflicts, too_late, lost, first_at, last_at)
SELECT s.name, q.id, 0, 0, 0, 0, 0, clock_timestamp(), clock_timestamp()
FROM coordinator_queue q CROSS JOIN unnest(%s::text[]) AS s(name) WHERE q.id = %s AND q.name = %s ORDER BY s.name
ON CONFLICT (name) DO NOTHING
"""
_COUNT: Final = """
UPDATE coordinator_shadowsource s SET last_at = %s::timestamptz, events = s.events + c.events,
  duplicates = s.duplicates + c.duplicates, conflicts = s.conflicts + c.conflicts, too_late = s.too_late + c.too_late,
  lost = s.lost + c.lost
FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[])
  AS c(name, events, duplicates, conflicts, too_late, lost) WHERE s.name = c.name
"""
_OPEN: Final = """
INSERT INTO coordinator_shadowround
  (queue_id, check_at, source, task_key, round_id, number, origin, opened_at, events, too_late, is_counted, mismatches,
   legacy_owner, claim_owner)
SELECT %s::int, %s::timestamptz, r.source, r.task_key, r.round_id, r.number, r.number, r.opened_at, r.events, 0, false,
       '[]', '', ''
FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::int[], %s::timestamptz[], %s::int[])
  AS r(source, task_key, round_id, number, opened_at, events)
"""
_GROW: Final = """
UPDATE coordinator_shadowround r SET events = r.events + g.events, check_at = greatest(r.check_at, %s::timestamptz)
FROM unnest(%s::uuid[], %s::int[]) AS g(round_id, events) WHERE r.round_id = g.round_id
"""
_BELATE: Final = """
UPDATE coordinator_shadowround r SET too_late = r.too_late + b.events
FROM unnest(%s::uuid[], %s::int[]) AS b(round_id, events) WHERE r.round_id = b.round_id
"""
_KEEP: Final = """
INSERT INTO coordinator_shadowevent
  (received_at, source, event_id, round_id, task_key, event, owner, at, lease_seconds, result_digest, input_digest,
   body_digest, is_too_late)
SELECT %s::timestamptz, e.* FROM unnest(%s::text[], %s::text[], %s::uuid[], %s::text[], %s::text[], %s::text[],
  %s::timestamptz[], %s::float8[], %s::text[], %s::text[], %s::bigint[], %s::bool[])
  AS e(source, event_id, round_id, task_key, event, owner, at, lease_seconds, result_digest, input_digest, body_digest,
       is_too_late)
"""
