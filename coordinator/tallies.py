"""What is counted, under which names, and in which buckets (contract 14).

The roll-up writes these names, the scrape and the console read them; docs/monitoring.md says how
each figure is got.
"""

from enum import StrEnum
from typing import Final


class Span(StrEnum):
    MINUTE = "minute"
    HOUR = "hour"
    EVER = "ever"  # what /metrics answers: it only rises


class Name(StrEnum):
    EVENTS = "events"  # label: the event's kind
    REFUSALS = "refusals"  # label: point, outcome, reason
    RECLAIM_SECONDS = "reclaim_seconds"  # histogram: lapse of a lease → the grant that takes over
    COMMIT_SECONDS = "commit_seconds"  # histogram: READY → canonical commit
    TASK_ATTEMPTS = "task_attempts"  # histogram: grants that a committed task took
    RENEWALS = "renewals"  # count: successful renewals of attempts that have ended
    ABANDONED = "abandoned"  # label: what was used up; of attempts that did not commit
    USED = "used"  # label: what was used up; of attempts that committed
    # Samples of gauges, one a minute: `total` ÷ `count` is their mean.
    UNKNOWN_EFFECTS = "unknown_effects"
    UNKNOWN_AGE = "unknown_age"
    APPROVALS_WAITING = "approvals_waiting"
    APPROVALS_AGE = "approvals_age"
    READY_TASKS = "ready_tasks"
    LIVE_LEASES = "live_leases"


#: Of these there is also a row of queue 0: that of all queues together.
SAMPLED: Final = frozenset(
    {
        Name.UNKNOWN_EFFECTS,
        Name.UNKNOWN_AGE,
        Name.APPROVALS_WAITING,
        Name.APPROVALS_AGE,
        Name.READY_TASKS,
        Name.LIVE_LEASES,
    }
)


class Used(StrEnum):
    """The labels of ABANDONED and USED."""

    ATTEMPTS = "attempts"
    COST_USD = "cost_usd"
    COMPUTE_SECONDS = "compute_seconds"
    INPUT_TOKENS = "input_tokens"
    OUTPUT_TOKENS = "output_tokens"


#: Upper bounds of the histograms' buckets; what is above the last is in `+Inf`.
BUCKETS: Final[dict[Name, tuple[float, ...]]] = {
    Name.RECLAIM_SECONDS: (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800),
    Name.COMMIT_SECONDS: (
        *(0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800),
        *(3600, 7200, 21600, 86400),
    ),
    Name.TASK_ATTEMPTS: (1, 2, 3, 4, 5, 7, 10, 20, 50),
}
INFINITY: Final = "+Inf"

#: Between the parts of a label. No point, outcome or reason has a space in it.
SEPARATOR: Final = " "

MINUTES_KEPT_HOURS: Final = 49
HOURS_KEPT_DAYS: Final = 92


def bucket_label(bound: float) -> str:
    """As Prometheus writes it: `0.25`, `1.0`."""
    return repr(float(bound))
