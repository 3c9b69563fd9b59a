"""The same figures as the roll-up's, counted from the tables at once, by other queries."""

from collections import Counter, defaultdict
from decimal import Decimal
from typing import Any

from django.db import connection

from coordinator.tallies import BUCKETS, Name

Figures = dict[tuple[str, int, str], tuple[int, Decimal]]


def _rows(sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def recount() -> Figures:
    """Everything that Span.EVER should hold."""
    counts: Counter[tuple[str, int, str]] = Counter()
    totals: defaultdict[tuple[str, int, str], Decimal] = defaultdict(Decimal)

    def add(name: Name, queue: int, label: str, count: int, total: Any = 0) -> None:
        counts[str(name), queue, label] += count
        totals[str(name), queue, label] += Decimal(str(total))

    for queue, kind, data, repeats in _rows(
        "SELECT coalesce(queue_id, 0), kind, data::text::json, repeats FROM coordinator_event"
    ):
        add(Name.EVENTS, queue, kind, 1 + repeats)
        if kind == "REFUSED":
            told = [data.get(part) for part in ("point", "outcome", "reason")]
            add(Name.REFUSALS, queue, " ".join(part for part in told if part), 1 + repeats)
    for queue, late in _rows(
        "SELECT t.queue_id, a.reclaim_seconds FROM coordinator_attempt a JOIN coordinator_task t USING (task_id)"
        " WHERE a.reclaim_seconds IS NOT NULL"
    ):
        add(Name.RECLAIM_SECONDS, queue, bucket(Name.RECLAIM_SECONDS, late), 1, round(late, 6))
    for queue, waited, attempts in _rows(
        "SELECT t.queue_id, extract(epoch FROM c.committed_at - t.ready_at)::numeric,"
        " c.claim_generation FROM coordinator_canonicalcommit c JOIN coordinator_task t USING (task_id)"
    ):
        add(Name.COMMIT_SECONDS, queue, bucket(Name.COMMIT_SECONDS, float(waited)), 1, waited)
        add(Name.TASK_ATTEMPTS, queue, bucket(Name.TASK_ATTEMPTS, attempts), 1, attempts)
    for queue, state, renewals, *used in _rows(
        "SELECT t.queue_id, a.state, a.renewals, a.input_tokens, a.output_tokens, a.compute_seconds, a.cost_usd"
        " FROM coordinator_attempt a JOIN coordinator_task t USING (task_id) WHERE a.ended_at IS NOT NULL"
    ):
        name = Name.USED if state == "COMMITTED" else Name.ABANDONED
        add(Name.RENEWALS, queue, "", renewals)
        add(name, queue, "attempts", 1)
        labels = ("input_tokens", "output_tokens", "compute_seconds", "cost_usd")
        for label, value in zip(labels, used, strict=True):
            add(name, queue, label, 0, value)
    return {key: (counts[key], totals[key]) for key in counts if counts[key] or totals[key]}


def bucket(name: Name, value: float) -> str:
    return next((repr(float(bound)) for bound in BUCKETS[name] if value <= bound), "+Inf")
