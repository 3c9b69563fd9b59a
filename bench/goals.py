"""The goals as ratios of one run: what must be reached, and what was."""

from dataclasses import dataclass
from typing import Any, Final

from bench.beside import best as best_of_peers


@dataclass(frozen=True, slots=True)
class Goal:
    """`at_least` or `at_most` a value; `value` is None where the run did not measure it."""

    name: str
    at_least: float | None = None
    at_most: float | None = None


GOALS: Final = (
    Goal("batched, of the raw batch ceiling", at_least=0.5),
    Goal("batched, of PgQueuer's best", at_least=1.0),
    Goal("batched, of Oban's best", at_least=2.0),
    Goal("one task a call, of the raw single ceiling", at_least=0.35),
    Goal("one task a call, of Procrastinate's best", at_least=1.5),
    Goal("one task a call, of django-tasks-db's best", at_least=2.0),
    Goal("one task a call, of DBOS's best", at_least=1.0),
    Goal("submit, nodes/s in runs of 1,000", at_least=5_000),
    Goal("READY to start at 50/s, p50 ms", at_most=15),
    Goal("READY to start at 50/s, p95 ms", at_most=40),
    Goal("10,000 leases renewed every 10 s, share of one core", at_most=0.3),
    Goal("renewals that are HOT updates", at_least=0.95),
    Goal("lease expiry to next grant, p95 ms", at_most=1_000),
    Goal("claim p95 after a million finished tasks, of before", at_most=1.2),
    Goal("bump beside 16 committing clients, p99 ms", at_most=1_000),
    Goal("writes of an old epoch after its bump", at_most=0),
    Goal("fan-in, time per edge at the widest, of the narrowest", at_most=1.5),
    Goal("fan-out, time per edge at the widest, of the narrowest", at_most=1.5),
    Goal("the slowest page of the console, p95 ms", at_most=200),
    Goal("web process, MiB", at_most=150),
)


def ratios(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Each goal with what this run reached, `None` where it was not measured."""
    values = _values(figures)
    return [
        {
            "goal": goal.name,
            "at_least": goal.at_least,
            "at_most": goal.at_most,
            "reached": values.get(goal.name),
        }
        for goal in GOALS
    ]


def is_reached(row: dict[str, Any]) -> bool | None:
    if row["reached"] is None:
        return None
    if row["at_least"] is not None:
        return bool(row["reached"] >= row["at_least"])
    return bool(row["reached"] <= row["at_most"])


def _values(figures: dict[str, Any]) -> dict[str, float | None]:
    rows, peers = figures["rows"], best_of_peers(figures["peers"])
    batch, single = best(rows, "tenure batch"), best(rows, "tenure single")
    narrow, wide = figures["fans"][0], figures["fans"][-1]
    values: list[float | None] = [
        _of(batch, best(rows, "ceiling batch")),
        _of(batch, peers.get("pgqueuer")),
        _of(batch, peers.get("oban")),
        _of(single, best(rows, "ceiling single")),
        _of(single, peers.get("procrastinate")),
        _of(single, peers.get("django-tasks-db")),
        _of(single, peers.get("dbos")),
        figures["submit_nodes_per_s"],
        figures["start"]["p50_ms"],
        figures["start"]["p95_ms"],
        figures["renewals"]["core_share"],
        figures["renewals"]["hot_share"],
        figures["reclaims"]["p95_ms"],
        figures["claim_latency"]["ratio"],
        figures["bumps"]["p99_ms"],
        figures["bumps"]["old_epoch_writes_after"],
        _of(wide["fan_in_us"], narrow["fan_in_us"]),
        _of(wide["fan_out_us"], narrow["fan_out_us"]),
        max(row["p95_ms"] for row in figures["pages"]),
        figures["web_memory_mib"],
    ]
    return dict(zip((goal.name for goal in GOALS), values, strict=True))


def best(rows: list[dict[str, Any]], what: str) -> int:
    return max(int(row["cycles_per_s"]) for row in rows if row["what"] == what)


def _of(value: float, base: float | None) -> float | None:
    return round(value / base, 2) if base else None
