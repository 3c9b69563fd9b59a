"""The nine figures that people look at: what each means, its unit, and from where on it is a matter (contract 14).

`docs/monitoring.md` says the same in prose. The thresholds are the house's defaults; whoever wants
others changes them here, where everybody sees it.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from typing import Final

from coordinator.outcomes import Outcome
from coordinator.tallies import INFINITY, SEPARATOR, Name, Used


class Figure(StrEnum):
    CLAIM_CONTENTION = "claim_contention"
    RECLAIM_LATENCY = "reclaim_latency"
    RENEW_FAILURES = "renew_failures"
    FENCED_COMMITS = "fenced_commits"
    TASK_ATTEMPTS = "task_attempts"
    UNKNOWN_EFFECTS = "unknown_effects"
    ABANDONED_COST = "abandoned_cost"
    READY_TO_COMMIT = "ready_to_commit"
    COVERAGE = "coverage"


class Unit(StrEnum):
    RATIO = "ratio"  # 0 … 1
    SECONDS = "seconds"
    COUNT = "count"
    USD = "usd"


class State(StrEnum):
    OK = "ok"
    WARN = "warn"
    BAD = "bad"
    NONE = "none"  # nothing happened that could be measured
    FEW = "few"  # too few things to tell by: `Definition.enough`
    STALE = "stale"  # the roll-up is behind: what is told may be old


@dataclass(frozen=True, slots=True)
class Slo:
    """`goal` is kept up to and including it; past `limit` somebody should look. `at_most`: less is better."""

    goal: float
    limit: float
    at_most: bool = True

    def judge(self, value: float | None) -> State:
        if value is None:
            return State.NONE
        sign = 1 if self.at_most else -1
        if sign * value <= sign * self.goal:
            return State.OK
        return State.WARN if sign * value <= sign * self.limit else State.BAD


#: A ratio, a mean and a percentile are judged from so many things on: then a single one is 5 % of them, and the
#: highest twentieth has somebody in it. Below that they are shown, and called what they are: too few.
ENOUGH: Final = 20

#: One span's counters: by name, then label.
Counters = Mapping[Name, Mapping[str, tuple[int, Decimal]]]


@dataclass(frozen=True, slots=True)
class Definition:
    """`read` gives the value of a span and how many things it was measured on.

    Fewer than `enough` of them are not judged. What is counted itself is judged from the first one on.
    """

    figure: Figure
    unit: Unit
    told: str
    formula: str
    slo: Slo
    names: tuple[Name, ...]
    read: Callable[[Counters], tuple[float | None, int]]
    enough: int = 0
    #: Who is asked where the threshold is in doubt.
    owner: str = "on call"

    def judge(self, value: float | None, measured: int) -> State:
        """How the value stands, where it says anything."""
        if value is not None and measured < self.enough:
            return State.FEW
        return self.slo.judge(value)


def percentile(buckets: Mapping[str, tuple[int, Decimal]], share: float) -> float | None:
    """Interpolated in its bucket, as Prometheus does it; None where nothing was measured.

    What lies above the last bound counts as that bound.
    """
    counts = sorted((float(label), count) for label, (count, _) in buckets.items())
    total = sum(count for _, count in counts)
    if not total:
        return None
    rank, below, lower = share * total, 0, 0.0
    for bound, count in counts:
        if below + count >= rank and count:
            if bound == float(INFINITY):
                return lower
            return lower + (bound - lower) * (rank - below) / count
        below, lower = below + count, bound if bound != float(INFINITY) else lower
    return lower


def _sum(counters: Counters, name: Name, matches: Callable[[Sequence[str]], bool]) -> int:
    rows = counters.get(name, {})
    return sum(count for label, (count, _) in rows.items() if matches(label.split(SEPARATOR)))


def _at(point: str, *outcomes: Outcome) -> Callable[[Sequence[str]], bool]:
    return lambda told: told[0] == point and (not outcomes or told[1] in outcomes)


def _contention(counters: Counters) -> tuple[float | None, int]:
    granted = _sum(counters, Name.EVENTS, lambda told: told[0] == "CLAIMED")
    late = (Outcome.NOT_CLAIMABLE, Outcome.STATE_VERSION_MISMATCH)
    lost = _sum(counters, Name.REFUSALS, _at("claim", *late))
    return _ratio(lost, granted + lost)


def _renew_failures(counters: Counters) -> tuple[float | None, int]:
    renewed = _sum(counters, Name.RENEWALS, lambda _: True)
    refused = _sum(counters, Name.REFUSALS, _at("renew"))
    return _ratio(refused, renewed + refused)


def _ratio(part: int, whole: int) -> tuple[float | None, int]:
    return (part / whole if whole else None), whole


def _fenced(counters: Counters) -> tuple[float | None, int]:
    fenced = _sum(counters, Name.REFUSALS, _at("commit", Outcome.FENCED))
    return float(fenced), fenced


def _p95(name: Name) -> Callable[[Counters], tuple[float | None, int]]:
    def read(counters: Counters) -> tuple[float | None, int]:
        buckets = counters.get(name, {})
        return percentile(buckets, 0.95), sum(count for count, _ in buckets.values())

    return read


def _mean(name: Name) -> Callable[[Counters], tuple[float | None, int]]:
    def read(counters: Counters) -> tuple[float | None, int]:
        rows = counters.get(name, {}).values()
        count, total = sum(count for count, _ in rows), sum((t for _, t in rows), Decimal(0))
        return (float(total / count) if count else None), count

    return read


def _abandoned(counters: Counters) -> tuple[float | None, int]:
    rows = counters.get(Name.ABANDONED, {})
    cost, attempts = rows.get(Used.COST_USD), rows.get(Used.ATTEMPTS)
    return float(cost[1]) if cost else 0.0, attempts[0] if attempts else 0


def _not_rolled_up(_counters: Counters) -> tuple[float | None, int]:
    """Coverage is read where the database counted it (selectors/coverage.py)."""
    return None, 0


def _define(*definitions: Definition) -> dict[Figure, Definition]:
    return {each.figure: each for each in definitions}


DEFINITIONS: Final = _define(
    Definition(
        Figure.CLAIM_CONTENTION,
        Unit.RATIO,
        "How often a claim by id came too late: another worker had got the task.",
        "claims that found the task taken ÷ (tasks granted + those claims)",
        Slo(goal=0.05, limit=0.2),
        (Name.EVENTS, Name.REFUSALS),
        _contention,
        ENOUGH,
    ),
    Definition(
        Figure.RECLAIM_LATENCY,
        Unit.SECONDS,
        "How long a task lay idle after its worker was lost.",
        "p95 of the time from the lapse of a lease to the grant that took it over",
        Slo(goal=5, limit=30),
        (Name.RECLAIM_SECONDS,),
        _p95(Name.RECLAIM_SECONDS),
        ENOUGH,
    ),
    Definition(
        Figure.RENEW_FAILURES,
        Unit.RATIO,
        "How often a worker was refused when it asked for more time.",
        "refused renewals ÷ (renewals of attempts that ended + refused ones)",
        Slo(goal=0.01, limit=0.05),
        (Name.RENEWALS, Name.REFUSALS),
        _renew_failures,
        ENOUGH,
    ),
    Definition(
        Figure.FENCED_COMMITS,
        Unit.COUNT,
        "Results of workers that had been replaced, kept out by their fence.",
        "commits refused as FENCED, repeats counted",
        Slo(goal=10, limit=100),
        (Name.REFUSALS,),
        _fenced,
    ),
    Definition(
        Figure.TASK_ATTEMPTS,
        Unit.COUNT,
        "How many grants a committed task took, on average.",
        "grants of the committed tasks ÷ committed tasks",
        Slo(goal=1.2, limit=2),
        (Name.TASK_ATTEMPTS,),
        _mean(Name.TASK_ATTEMPTS),
        ENOUGH,
    ),
    Definition(
        Figure.UNKNOWN_EFFECTS,
        Unit.COUNT,
        "Effects that nobody knows the outcome of; their tasks can't commit.",
        "effects in state UNKNOWN, as sampled each minute",
        Slo(goal=0, limit=20),
        (Name.UNKNOWN_EFFECTS,),
        _mean(Name.UNKNOWN_EFFECTS),
    ),
    Definition(
        Figure.ABANDONED_COST,
        Unit.USD,
        "What was paid for work that came to nothing.",
        "cost of attempts that ended without a commit, what late calls reported included",
        Slo(goal=1, limit=10),
        (Name.ABANDONED,),
        _abandoned,
    ),
    Definition(
        Figure.READY_TO_COMMIT,
        Unit.SECONDS,
        "How long a task takes once it may run.",
        "p95 of the time from READY to the canonical commit",
        Slo(goal=300, limit=1800),
        (Name.COMMIT_SECONDS,),
        _p95(Name.COMMIT_SECONDS),
        ENOUGH,
    ),
    Definition(
        Figure.COVERAGE,
        Unit.RATIO,
        "Which share of the writes at acceptance points had passed the guard.",
        "rows written after the guard's check ÷ rows that the database counted",
        Slo(goal=1, limit=1, at_most=False),
        (),
        _not_rolled_up,
    ),
)


def grouped(rows: Sequence[tuple[str, str, int, Decimal]]) -> Counters:
    """Rows of (name, label, count, total) as Counters."""
    counters: dict[Name, dict[str, tuple[int, Decimal]]] = defaultdict(dict)
    for name, label, count, total in rows:
        counters[Name(name)][label] = count, total
    return counters
