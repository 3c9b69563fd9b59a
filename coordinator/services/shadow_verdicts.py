"""The shadow judge: settles rounds whose window has passed, in bounded batches (contract 13).

Restartable and safe to run twice at once: a batch is one transaction under the queue's shadow
gate, and a verdict never changes once it is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson
from django.db import connection

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import shadow_gate
from coordinator.ids import new_id
from coordinator.rounds import Statement, close_with_round, name_point, run_round
from coordinator.shadow.play import Play
from coordinator.shadow.rounds import PlayedRound, Policy, play_rounds
from coordinator.shadow.words import LegacyEvent, RoundVerdict

from .events import EventKind, Fact, record
from .transactions import in_transaction

MAX_ROUNDS: Final = 500  # a batch
MAX_BATCHES: Final = 200  # a call, over all queues
MAX_MISMATCHES: Final = 20  # of one round; the first ones stand with it


def settle_rounds(*, actor: Actor, max_batches: int = MAX_BATCHES) -> int:
    """Judge every round whose window has passed; how many were settled. Bounded; the rest is for the next call.

    A round that turns out to be open still (its lease runs, or it may yet be handed out again)
    is looked at again when it can be over. The first mismatch of a class in a queue raises an alarm.
    """
    settled = 0
    for _ in range(max_batches):
        due = _due_queue()
        if due is None:
            return settled
        settled += _settle_batch(due, actor)
    return settled


def _due_queue() -> int | None:
    """A queue with a round to look at; none where there is nothing to do."""
    with connection.cursor() as cursor:
        cursor.execute(_DUE_QUEUE)
        found = cursor.fetchone()
    return found[0] if found else None


@in_transaction
def _settle_batch(queue_id: int, actor: Actor) -> int:
    _, _, queues, due, clock_rows = run_round(
        name_point("shadow"),
        shadow_gate(queue_id),
        Statement(_POLICY, (queue_id,)),
        Statement(_DUE, (queue_id, MAX_ROUNDS)),
        CLOCK,
    )
    if not due or not queues:
        return 0
    clock = clock_of(clock_rows)
    batch = _Batch(queue_id, Policy(*map(float, queues[0])), clock)
    ids = [row[0] for row in due]
    told, earlier = run_round(Statement(_EVENTS, (ids,)), Statement(_EARLIER, (ids,)))
    events, history = _by_round(told), _by_round(earlier)
    for row in due:
        batch.judge(_Due._make(row), events[row[0]], history.get(row[0], []))
    close_with_round(*batch.statements(actor))
    return len(batch.settled)


class _Due(NamedTuple):
    round_id: UUID
    number: int
    origin: int  # of the round before, where there is one
    source: str
    task_key: str


@dataclass(slots=True)
class _Batch:
    """What the judge found out about the due rounds of one queue."""

    queue_id: int
    policy: Policy
    clock: datetime
    settled: list[tuple[Any, ...]] = field(default_factory=list)
    waiting: list[tuple[Any, ...]] = field(default_factory=list)
    moved: list[tuple[str, str, UUID]] = field(default_factory=list)
    classes: dict[RoundVerdict, UUID] = field(default_factory=dict)

    def judge(
        self, due: _Due, events: Sequence[LegacyEvent], history: Sequence[LegacyEvent]
    ) -> None:
        """Settle each round that the events make; the last one only once it can't go on any more.

        The due row is the first of them; each further one gets a row of its own.
        """
        played = list(play_rounds(events, self.policy, history=history))
        origin = due.origin
        for index, one in enumerate(played):
            number = due.number + index
            origin = origin if one.is_straggler else number
            round_id = due.round_id if index == 0 else new_id()
            if index:
                self.moved.extend((due.source, event.event_id, round_id) for event in one.events)
            place = (round_id, due.source, due.task_key, number, origin)
            if index == len(played) - 1 and one.closes_at > self.clock:
                self.waiting.append((*place, *_span(one), *[None] * 9))
            else:
                self.settled.append((*place, *_span(one), *_finding(one.play)))
                if one.play.mismatches:
                    self.classes.setdefault(one.play.verdict, round_id)

    def statements(self, actor: Actor) -> list[Statement]:
        """What is settled first: a key has at most one open round at a time."""
        alarms = [_alarm(self.queue_id, *found) for found in self.classes.items()]
        written = [
            Statement(_WRITE, (self.queue_id, self.clock, *_columns(rows, 17)))
            for rows in (self.settled, self.waiting)
            if rows
        ]
        moved = [Statement(_MOVE, tuple(_columns(self.moved, 3)))] if self.moved else []
        told = [record(alarms, actor=actor, at=self.clock)] if alarms else []
        return [*written, *moved, *told]


def _span(one: PlayedRound) -> tuple[datetime, datetime, int]:
    return one.events[0].at, one.closes_at, len(one.events)


def _finding(play: Play) -> tuple[Any, ...]:
    legacy, claimed = play.legacy, play.claimed
    told = [mismatch._asdict() for mismatch in play.mismatches[:MAX_MISMATCHES]]
    return (
        play.verdict,
        play.is_counted,
        orjson.dumps(told).decode(),
        legacy.winner,
        legacy.owner,
        legacy.result_digest,
        claimed.winner,
        claimed.owner,
        claimed.result_digest,
    )


def _alarm(queue_id: int, verdict: RoundVerdict, round_id: UUID) -> Fact:
    """One a class and queue; further rounds of the class only raise its counter."""
    return Fact(
        EventKind.ALARM,
        queue_id=queue_id,
        data={"alarm": "SHADOW_MISMATCH", "verdict": verdict, "round_id": round_id},
        refusal_key=f"alarm:shadow:{queue_id}:{verdict}",
    )


def _by_round(rows: Sequence[tuple[Any, ...]]) -> dict[UUID, list[LegacyEvent]]:
    found: dict[UUID, list[LegacyEvent]] = {}
    for round_id, *event in rows:
        found.setdefault(round_id, []).append(LegacyEvent._make(event))
    return found


def _columns(rows: Sequence[tuple[Any, ...]], count: int) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in range(count)]


_DUE_QUEUE: Final = """
SELECT q.id FROM coordinator_queue q WHERE EXISTS (
  SELECT 1 FROM coordinator_shadowround r
  WHERE r.queue_id = q.id AND r.verdict IS NULL AND r.check_at <= clock_timestamp()) ORDER BY q.id LIMIT 1
"""
_POLICY: Final = (
    "SELECT shadow_settle_seconds, default_ttl_seconds FROM coordinator_queue WHERE id = %s"
)
_DUE: Final = """
SELECT r.round_id, r.number, coalesce(b.origin, r.number), r.source, r.task_key FROM coordinator_shadowround r
LEFT JOIN coordinator_shadowround b
  ON b.source = r.source AND b.task_key = r.task_key AND b.number = r.number - 1
WHERE r.queue_id = %s AND r.verdict IS NULL AND r.check_at <= clock_timestamp() ORDER BY r.check_at LIMIT %s
"""
_EVENT: Final = (
    "e.event_id, e.event, e.owner, e.at, e.lease_seconds, e.result_digest, e.input_digest"
)
_EVENTS: Final = f"""
SELECT e.round_id, {_EVENT} FROM coordinator_shadowevent e
WHERE e.round_id = ANY(%s::uuid[]) AND NOT e.is_too_late
"""  # noqa: S608 (a constant of ours)
#: Of the settled rounds before, back to the last fresh one.
_EARLIER: Final = f"""
SELECT r.round_id, {_EVENT} FROM coordinator_shadowround r
JOIN coordinator_shadowround b
  ON b.source = r.source AND b.task_key = r.task_key AND b.number = r.number - 1
JOIN coordinator_shadowround h
  ON h.source = r.source AND h.task_key = r.task_key AND h.number BETWEEN b.origin AND b.number
JOIN coordinator_shadowevent e ON e.round_id = h.round_id AND NOT e.is_too_late
WHERE r.round_id = ANY(%s::uuid[]) AND r.number > 1
"""  # noqa: S608 (a constant of ours)
_WRITE: Final = """
INSERT INTO coordinator_shadowround AS r
  (queue_id, settled_at, check_at, too_late, round_id, source, task_key, number, origin, opened_at, closes_at, events,
   verdict, is_counted, mismatches, legacy_end, legacy_owner, legacy_result, claim_end, claim_owner, claim_result)
SELECT %s::int, CASE WHEN w.verdict IS NOT NULL THEN %s::timestamptz END, w.closes_at, 0, w.round_id, w.source,
       w.task_key, w.number, w.origin, w.opened_at, w.closes_at, w.events, w.verdict, coalesce(w.is_counted, false),
       coalesce(w.mismatches, '[]'), w.legacy_end, coalesce(w.legacy_owner, ''), w.legacy_result, w.claim_end,
       coalesce(w.claim_owner, ''), w.claim_result
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::int[], %s::int[], %s::timestamptz[], %s::timestamptz[], %s::int[],
            %s::text[], %s::bool[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[])
  AS w(round_id, source, task_key, number, origin, opened_at, closes_at, events, verdict, is_counted, mismatches,
       legacy_end, legacy_owner, legacy_result, claim_end, claim_owner, claim_result)
ON CONFLICT (round_id) DO UPDATE SET settled_at = excluded.settled_at, check_at = excluded.check_at,
  origin = excluded.origin, opened_at = excluded.opened_at, closes_at = excluded.closes_at, events = excluded.events,
  verdict = excluded.verdict, is_counted = excluded.is_counted, mismatches = excluded.mismatches,
  legacy_end = excluded.legacy_end, legacy_owner = excluded.legacy_owner, legacy_result = excluded.legacy_result,
  claim_end = excluded.claim_end, claim_owner = excluded.claim_owner, claim_result = excluded.claim_result
WHERE r.verdict IS NULL
"""
_MOVE: Final = """
UPDATE coordinator_shadowevent e SET round_id = m.round_id
FROM unnest(%s::text[], %s::text[], %s::uuid[]) AS m(source, event_id, round_id)
WHERE e.source = m.source AND e.event_id = m.event_id
"""
