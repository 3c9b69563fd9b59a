"""A soak as text: its verdicts as a table that may be pasted into docs/performance.md as it is."""

from collections import Counter
from typing import Any, Final

from bench.growth import FEWEST, SETTLING, SURE, TOLERANCE
from bench.report import table

SHORTEST_MINUTES: Final = 20


def show(told: dict[str, Any]) -> str:
    outcomes = Counter[str]()
    for sample in told["samples"]:
        outcomes.update(sample["outcomes"])
    head = (
        f"{told['minutes']:g} minutes at {told['paced_per_s']:,} claims/s, {told['share']:.0%} of the"
        f" {told['maximum_per_s']:,} that were measured first ({told['batch']} a claim);"
        f" fdatasync/s {told['fdatasync_per_s']:,}\n\n"
    )
    rule = (
        f"Growing or falling: the fitted line gains or loses more than {TOLERANCE:.0%} of the mean in an hour, and more"
        f" than {SURE:g} of its standard errors; flat otherwise. The first {SETTLING:.0%} of the time is left out, and"
        f" fewer than {FEWEST} values say nothing.\n\n"
    )
    if told["minutes"] < SHORTEST_MINUTES:
        rule += "This was too short to say anything of an hour.\n\n"
    rows = [_cells(trend) for trend in told["trends"]]
    counted = ", ".join(f"{name} {count:,}" for name, count in sorted(outcomes.items()))
    faults = [fault for sample in told["samples"] for fault in sample["page_faults"]]
    return "".join(
        [
            head,
            rule,
            table(("figure", "mean", "first", "last", "an hour adds", "that is"), rows),
            f"\nOutcomes: {counted or 'none'}\n",
            *(f"A page failed: {fault}\n" for fault in faults),
        ]
    )


def _cells(trend: dict[str, Any]) -> tuple[str, ...]:
    slope, share = trend["slope_per_hour"], trend["share"]
    adds = "" if slope is None else f"{slope:+,.2f} ({share:+.1%})"
    numbers = (f"{trend[name]:,.2f}" for name in ("mean", "first", "last"))
    return (trend["name"], *numbers, adds, trend["verdict"])
