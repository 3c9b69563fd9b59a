"""The figures in Prometheus' words: names, labels and units by its conventions (contract 14)."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.outcomes import Outcome, Reason
from coordinator.selectors.scrape import Total
from coordinator.tallies import BUCKETS, INFINITY, SEPARATOR, Name, Used, bucket_label

from .exposition_gauges import Reading, gauge_families

#: A claim by id that came too late: somebody else had got the task (docs/monitoring.md).
LOST: Final = frozenset({Outcome.NOT_CLAIMABLE, Outcome.STATE_VERSION_MISMATCH})


def expose(families: Iterable[Metric], accept: str) -> tuple[bytes, str]:
    """The text and its content type: OpenMetrics for who asks for it, else Prometheus' own."""
    encode, content_type = choose_encoder(accept)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Ready(list(families)))
    return encode(registry), content_type


class _Ready(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families

    def describe(self) -> list[Metric]:
        return []


def families_of(read: Reading) -> Iterator[Metric]:
    """Every family, those without a sample too, so that rules and panels never name what isn't there."""
    by_name: dict[Name, list[Total]] = defaultdict(list)
    for total in read.totals:
        by_name[total.name].append(total)
    queues = [each.queue for each in read.queues]
    yield from _counters(by_name, queues)
    yield from _usage(by_name, queues)
    yield from _histograms(by_name, queues)
    yield from gauge_families(read)


# --- counters ---------------------------------------------------------------------------------

#: By label values. Those that are known beforehand begin at 0: Prometheus sees no rise in a
#: counter that appears with its first 1.
Rows = dict[tuple[str, ...], float]


def _zeros(queues: Sequence[str], values: Iterable[str]) -> Rows:
    return {(queue, value): 0.0 for queue in queues for value in values}


def _counter(name: str, told: str, labels: Sequence[str], rows: Rows) -> Metric:
    family = CounterMetricFamily(name, told, labels=labels)
    for values, value in sorted(rows.items()):
        family.add_metric(values, value)
    return family


def _counters(by_name: dict[Name, list[Total]], queues: Sequence[str]) -> Iterator[Metric]:
    events = by_name[Name.EVENTS]
    refusals = [(each, *_refusal_of(each.label)) for each in by_name[Name.REFUSALS]]
    yield _counter(
        "tenure_events",
        "Facts of the history, equal refusals each time.",
        ("queue", "kind"),
        {(each.queue, each.label): each.count for each in events},
    )
    yield _counter(
        "tenure_refusals",
        "Refused calls.",
        ("queue", "point", "outcome", "reason"),
        {(each.queue, *told): each.count for each, *told in refusals},
    )
    claims = _zeros(queues, ("granted", "lost", "refused"))
    renewals = _zeros(queues, ("renewed", "refused"))
    fenced = _zeros(queues, (Reason.STALE_GENERATION, Reason.STALE_EPOCH, Reason.AHEAD))
    ahead: Rows = {(queue,): 0.0 for queue in queues}

    def add(rows: Rows, count: int, *values: str) -> None:
        rows[values] = rows.get(values, 0.0) + count

    for each in events:
        if each.label == "CLAIMED":
            add(claims, each.count, each.queue, "granted")
    for each in by_name[Name.RENEWALS]:
        add(renewals, each.count, each.queue, "renewed")
    for each, point, outcome, reason in refusals:
        if point == "claim":
            add(claims, each.count, each.queue, "lost" if outcome in LOST else "refused")
        elif point == "renew":
            add(renewals, each.count, each.queue, "refused")
        elif point == "commit" and outcome == Outcome.FENCED:
            add(fenced, each.count, each.queue, reason)
        if reason == Reason.AHEAD:
            add(ahead, each.count, each.queue)
    told = "Claims: tasks granted, calls by id that found the task taken, calls refused."
    yield _counter("tenure_claims", told, ("queue", "result"), claims)
    told = "Renewals; successful ones are counted when their attempt ends."
    yield _counter("tenure_renewals", told, ("queue", "result"), renewals)
    told = "Commits that a fence kept out."
    yield _counter("tenure_fenced_commits", told, ("queue", "reason"), fenced)
    told = "Calls whose fence was ahead of the database."
    yield _counter("tenure_fence_ahead", told, ("queue",), ahead)


def _refusal_of(label: str) -> tuple[str, str, str]:
    point, outcome, reason = [*label.split(SEPARATOR), "", ""][:3]
    return point, outcome, reason


#: Of attempts that ended: `committed` ones, and `abandoned` ones, whose work was for nothing.
_ENDS: Final = {Name.USED: "committed", Name.ABANDONED: "abandoned"}
_USAGE: Final = (
    ("tenure_attempts", "Attempts that ended.", Used.ATTEMPTS),
    ("tenure_attempt_cost_usd", "What they cost.", Used.COST_USD),
    ("tenure_attempt_compute_seconds", "How long they computed.", Used.COMPUTE_SECONDS),
    ("tenure_attempt_input_tokens", "Tokens that they were given.", Used.INPUT_TOKENS),
    ("tenure_attempt_output_tokens", "Tokens that they made.", Used.OUTPUT_TOKENS),
)


def _usage(by_name: dict[Name, list[Total]], queues: Sequence[str]) -> Iterator[Metric]:
    for name, told, used in _USAGE:
        rows = _zeros(queues, _ENDS.values())
        for counted, end in _ENDS.items():
            for each in by_name[counted]:
                if each.label == used:
                    value = each.count if used is Used.ATTEMPTS else each.total
                    rows[each.queue, end] = float(value)
        yield _counter(name, told, ("queue", "end"), rows)


# --- histograms -------------------------------------------------------------------------------

_HISTOGRAMS: Final = {
    Name.RECLAIM_SECONDS: (
        "tenure_reclaim_latency_seconds",
        "From the lapse of a lease to the grant that took the task over.",
    ),
    Name.COMMIT_SECONDS: (
        "tenure_ready_to_commit_seconds",
        "From READY to the canonical commit.",
    ),
    Name.TASK_ATTEMPTS: ("tenure_task_attempts", "Grants that a committed task took."),
}


def _histograms(by_name: dict[Name, list[Total]], queues: Sequence[str]) -> Iterator[Metric]:
    for name, (told_name, told) in _HISTOGRAMS.items():
        family = HistogramMetricFamily(told_name, told, labels=("queue",))
        by_queue: dict[str, list[Total]] = {queue: [] for queue in queues}
        for each in by_name[name]:
            by_queue.setdefault(each.queue, []).append(each)
        for queue, rows in sorted(by_queue.items()):
            family.add_metric((queue,), cumulative(name, rows), sum(row.total for row in rows))
        yield family


def cumulative(name: Name, rows: Sequence[Total]) -> list[tuple[str, float]]:
    """Prometheus' buckets: each holds what is at or below its bound."""
    counts: dict[str, int] = defaultdict(int)
    for row in rows:
        counts[row.label] += row.count
    bounds = sorted(
        {*(bucket_label(bound) for bound in BUCKETS[name]), *counts, INFINITY}, key=float
    )
    so_far, buckets = 0, []
    for bound in bounds:
        so_far += counts[bound]
        buckets.append((bound, float(so_far)))
    return buckets
