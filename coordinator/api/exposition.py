"""The figures in Prometheus' words: names, labels and units by its conventions (contract 14)."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from coordinator.outcomes import Outcome
from coordinator.selectors.coverage import Coverage
from coordinator.selectors.gauges import DownstreamGauges, QueueGauges
from coordinator.selectors.scrape import Progress, Total
from coordinator.states import Intake, RolloutStage
from coordinator.tallies import BUCKETS, INFINITY, SEPARATOR, Name, Used, bucket_label

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


def families_of(
    totals: Sequence[Total],
    gauges: Sequence[QueueGauges],
    downstreams: Sequence[DownstreamGauges],
    coverage: Coverage,
    progress: Progress,
) -> Iterator[Metric]:
    """Every family, those without a sample too, so that rules and panels never name what isn't there."""
    by_name: dict[Name, list[Total]] = defaultdict(list)
    for total in totals:
        by_name[total.name].append(total)
    yield from _counters(by_name)
    yield from _histograms(by_name)
    yield from _queue_gauges(gauges)
    yield from _effect_gauges(gauges, downstreams)
    yield from _coverage(coverage)
    yield from _progress(progress)


# --- counters ---------------------------------------------------------------------------------


def _counter(name: str, told: str, labels: Sequence[str], rows: dict[Any, float]) -> Metric:
    family = CounterMetricFamily(name, told, labels=labels)
    for values, value in sorted(rows.items()):
        family.add_metric(values, value)
    return family


def _counters(by_name: dict[Name, list[Total]]) -> Iterator[Metric]:
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
    claims: dict[Any, float] = defaultdict(float)
    renewals: dict[Any, float] = defaultdict(float)
    fenced: dict[Any, float] = defaultdict(float)
    for each in events:
        if each.label == "CLAIMED":
            claims[each.queue, "granted"] += each.count
    for each, point, outcome, reason in refusals:
        if point == "claim":
            claims[each.queue, "lost" if outcome in LOST else "refused"] += each.count
        elif point == "renew":
            renewals[each.queue, "refused"] += each.count
        elif point == "commit" and outcome == Outcome.FENCED:
            fenced[each.queue, reason] += each.count
    for each in by_name[Name.RENEWALS]:
        renewals[each.queue, "renewed"] += each.count
    told = "Claims: tasks granted, calls by id that found the task taken, calls refused."
    yield _counter("tenure_claims", told, ("queue", "result"), claims)
    told = "Renewals; successful ones are counted when their attempt ends."
    yield _counter("tenure_renewals", told, ("queue", "result"), renewals)
    told = "Commits that a fence kept out."
    yield _counter("tenure_fenced_commits", told, ("queue", "reason"), fenced)
    yield from _usage(by_name)


def _refusal_of(label: str) -> tuple[str, str, str]:
    point, outcome, reason = [*label.split(SEPARATOR), "", ""][:3]
    return point, outcome, reason


def _usage(by_name: dict[Name, list[Total]]) -> Iterator[Metric]:
    """Of attempts that ended: `committed` ones, and `abandoned` ones, whose work was for nothing."""
    rows = [
        ("committed" if name is Name.USED else "abandoned", each)
        for name in (Name.USED, Name.ABANDONED)
        for each in by_name[name]
    ]

    def family(name: str, told: str, label: Used, value: Callable[[Total], float]) -> Metric:
        chosen = {(each.queue, end): value(each) for end, each in rows if each.label == label}
        return _counter(name, told, ("queue", "end"), chosen)

    yield family("tenure_attempts", "Attempts that ended.", Used.ATTEMPTS, lambda t: t.count)
    told = "What they cost."
    yield family("tenure_attempt_cost_usd", told, Used.COST_USD, lambda t: t.total)
    told = "How long they computed."
    yield family("tenure_attempt_compute_seconds", told, Used.COMPUTE_SECONDS, lambda t: t.total)
    told = "Tokens that they were given."
    yield family("tenure_attempt_input_tokens", told, Used.INPUT_TOKENS, lambda t: t.total)
    told = "Tokens that they made."
    yield family("tenure_attempt_output_tokens", told, Used.OUTPUT_TOKENS, lambda t: t.total)


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


def _histograms(by_name: dict[Name, list[Total]]) -> Iterator[Metric]:
    for name, (told_name, told) in _HISTOGRAMS.items():
        family = HistogramMetricFamily(told_name, told, labels=("queue",))
        by_queue: dict[str, list[Total]] = defaultdict(list)
        for each in by_name[name]:
            by_queue[each.queue].append(each)
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


# --- gauges -----------------------------------------------------------------------------------


def _gauge(name: str, told: str, labels: Sequence[str], rows: dict[Any, float]) -> Metric:
    family = GaugeMetricFamily(name, told, labels=labels)
    for values, value in sorted(rows.items()):
        family.add_metric(values, value)
    return family


def _of_queues(
    gauges: Sequence[QueueGauges],
    name: str,
    told: str,
    value: Callable[[QueueGauges], float | None],
) -> Metric:
    values = {(each.queue,): value(each) for each in gauges}
    return _gauge(
        name, told, ("queue",), {key: each for key, each in values.items() if each is not None}
    )


def _queue_gauges(gauges: Sequence[QueueGauges]) -> Iterator[Metric]:
    def told(name: str, text: str, value: Callable[[QueueGauges], float | None]) -> Metric:
        return _of_queues(gauges, name, text, value)

    yield told("tenure_queue_epoch", "The scheduler epoch.", lambda q: q.scheduler_epoch)
    yield told(
        "tenure_queue_intake_open",
        "1 while intake is OPEN, 0 while it is STOPPED.",
        lambda q: q.intake == Intake.OPEN,
    )
    yield _gauge(
        "tenure_queue_stage",
        "1 for the rollout stage that the queue is at.",
        ("queue", "stage"),
        {(each.queue, str(s)): each.rollout_stage == s for each in gauges for s in RolloutStage},
    )
    yield told("tenure_ready_tasks", "Claimable now; at most 10000.", lambda q: q.ready_tasks)
    yield told(
        "tenure_ready_oldest_seconds",
        "Since when the oldest waits.",
        lambda q: q.ready_oldest_seconds,
    )
    yield told("tenure_live_leases", "Leases that run; at most 10000.", lambda q: q.live_leases)
    yield told(
        "tenure_lapsed_leases",
        "Leases that ran out, not yet taken over.",
        lambda q: q.lapsed_leases,
    )
    yield told("tenure_approvals_waiting", "For a person.", lambda q: q.approvals_waiting)
    yield told(
        "tenure_approval_oldest_seconds",
        "Since when it waits.",
        lambda q: q.approvals_oldest_seconds,
    )
    yield told(
        "tenure_approval_next_expiry_seconds",
        "Until the first of those that wait expires; none where nothing waits.",
        lambda q: q.approvals_next_expiry_seconds,
    )


def _effect_gauges(
    gauges: Sequence[QueueGauges], downstreams: Sequence[DownstreamGauges]
) -> Iterator[Metric]:
    def told(name: str, text: str, value: Callable[[QueueGauges], float | None]) -> Metric:
        return _of_queues(gauges, name, text, value)

    yield told("tenure_unknown_effects", "Effects that are UNKNOWN.", lambda q: q.unknown_effects)
    yield told(
        "tenure_unknown_effect_oldest_seconds",
        "Since when the oldest is UNKNOWN.",
        lambda q: q.unknown_oldest_seconds,
    )
    yield told(
        "tenure_unknown_effects_asked_in_vain",
        "UNKNOWN effects whose downstream was asked and told nothing.",
        lambda q: q.asked_in_vain,
    )
    yield _gauge(
        "tenure_downstream_unknown_effects",
        "UNKNOWN effects by downstream, those with the most.",
        ("downstream",),
        {(each.downstream,): each.unknown_effects for each in downstreams},
    )


def _coverage(coverage: Coverage) -> Iterator[Metric]:
    yield _gauge(
        "tenure_coverage_ratio",
        "Rows written after the guard's check, of those that the database counted; the last hour.",
        ("point",),
        {(each.point,): each.percent / 100 for each in coverage.points},
    )
    yield _gauge(
        "tenure_coverage_whole",
        "1 where nothing was written past the guard in the last hour, and everything was counted.",
        (),
        {(): coverage.is_whole},
    )
    yield _gauge(
        "tenure_coverage_refused_writes",
        "Writes that named no acceptance point, which the database refused; the last hour.",
        (),
        {(): coverage.refused_writes},
    )


def _progress(progress: Progress) -> Iterator[Metric]:
    lag, until = progress.lag_seconds, progress.until
    yield _gauge(
        "tenure_roll_up_lag_seconds",
        "How far the counters are behind; they are whole up to that instant.",
        (),
        {} if lag is None else {(): lag},
    )
    yield _gauge(
        "tenure_roll_up_until_timestamp_seconds",
        "The instant up to which everything is counted.",
        (),
        {} if until is None else {(): until.timestamp()},
    )
