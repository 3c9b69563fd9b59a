"""What stands right now, in Prometheus' words (contract 14)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from coordinator.selectors.audit_watch import Watched
from coordinator.selectors.coverage import Coverage
from coordinator.selectors.drills import QueueDrill
from coordinator.selectors.gauges import MAX_QUEUES, DownstreamGauges, QueueGauges
from coordinator.selectors.scrape import Progress, Total
from coordinator.states import Intake, RolloutStage


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a scrape reads."""

    totals: Sequence[Total]
    queues: Sequence[QueueGauges]
    downstreams: Sequence[DownstreamGauges]
    coverage: Coverage
    drills: Sequence[QueueDrill]
    progress: Progress
    watched: Watched | None


def gauge_families(read: Reading) -> Iterator[Metric]:
    yield from _queue_gauges(read.queues)
    yield from _effect_gauges(read.queues, read.downstreams)
    yield from _coverage(read.coverage)
    yield from _drills(read.drills)
    yield from _progress(read.progress)
    yield from _chain(read.watched)


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
    yield told(
        "tenure_queue_intake_share",
        "Per cent of the tasks that are let in although intake is STOPPED: the canary of an incident.",
        lambda q: q.intake_share,
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


def _drills(drills: Sequence[QueueDrill]) -> Iterator[Metric]:
    told = drills[:MAX_QUEUES]
    yield _gauge(
        "tenure_drill_last_success_timestamp_seconds",
        "When the queue's fence drill last passed; none where it never has.",
        ("queue",),
        {(each.queue,): each.last_passed_at.timestamp() for each in told if each.last_passed_at},
    )
    yield _gauge(
        "tenure_drill_passed",
        "1 where the last fence drill was refused as it must be, 0 where not.",
        ("queue",),
        {(each.queue,): each.passed for each in told if each.passed is not None},
    )
    yield _gauge(
        "tenure_drill_overdue",
        "1 where none has passed within the hour.",
        ("queue",),
        {(each.queue,): each.is_overdue for each in told},
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


def _chain(watched: Watched | None) -> Iterator[Metric]:
    def told(name: str, text: str, value: Callable[[Watched], float]) -> Metric:
        return _gauge(name, text, (), {(): value(watched)} if watched else {})

    yield told(
        "tenure_audit_chain_holds",
        "1 where every row of the audit that was looked at fits its chain, 0 where one does not.",
        lambda w: w.fault is None,
    )
    yield told(
        "tenure_audit_chain_looked_timestamp_seconds",
        "When the chain was last looked at.",
        lambda w: w.looked_at.timestamp(),
    )
    yield told(
        "tenure_audit_chain_unverified_links",
        "Links that the look which is under way has not come to.",
        lambda w: max(0, w.newest - w.number),
    )
