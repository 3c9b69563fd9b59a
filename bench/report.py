"""One run as text: tables that may be pasted into docs/performance.md as they are."""

from typing import Any

from bench.goals import is_reached


def show(figures: dict[str, Any]) -> str:
    parts = [
        f"fdatasync/s: {figures['fdatasync_per_s']}\n",
        table(
            ("what", "clients", "cycles/s", "claim p50 / p95 ms", "commit p50 ms"),
            [_cycle_cells(row) for row in figures["rows"]],
        ),
    ]
    if figures["peers"]:
        parts.append(
            table(
                (
                    "peer",
                    "processes, settings",
                    "tasks/s",
                    "start p50 / p95 ms",
                    "a late completion is",
                ),
                [
                    _peer_cells(row, figures["peers"])
                    for row in figures["peers"]
                    if "late_completion" not in row
                ],
            )
        )
    parts += [
        table(
            ("width", "fan-in µs per edge", "without edges", "fan-out µs per edge"),
            [tuple(str(value) for value in row.values()) for row in figures["fans"]],
        ),
        table(
            ("page", "p50 / p95 ms to its first byte"),
            [(row["page"], f"{row['p50_ms']} / {row['p95_ms']}") for row in figures["pages"]],
        ),
        table(("figure", "goal", "reached"), [_goal_cells(row) for row in figures["ratios"]]),
    ]
    return "\n".join(parts)


def _cycle_cells(row: dict[str, Any]) -> tuple[str, ...]:
    waits = (
        (f"{row['claim_p50_ms']} / {row['claim_p95_ms']}", str(row["commit_p50_ms"]))
        if "claim_p50_ms" in row
        else ("", "")
    )
    return (row["what"], str(row["clients"]), f"{row['cycles_per_s']:,}", *waits)


def _peer_cells(row: dict[str, Any], rows: list[dict[str, Any]]) -> tuple[str, ...]:
    if "error" in row:
        return (row["peer"], "", "not measured", "", row["error"])
    told = ", ".join(f"{name} {value}" for name, value in row["settings"].items())
    late = next(
        (
            each["late_completion"]
            for each in rows
            if each["peer"] == row["peer"] and "late_completion" in each
        ),
        "",
    )
    waits = f"{row['start_p50_ms']} / {row['start_p95_ms']}" if "start_p50_ms" in row else ""
    return (row["peer"], f"{row['procs']}, {told}", f"{row['jobs_per_s']:,}", waits, late)


def _goal_cells(row: dict[str, Any]) -> tuple[str, ...]:
    bound = f"≥ {row['at_least']:g}" if row["at_least"] is not None else f"≤ {row['at_most']:g}"
    match is_reached(row):
        case None:
            return (row["goal"], bound, "not measured")
        case True:
            return (row["goal"], bound, f"**{row['reached']:g}**")
        case _:
            return (row["goal"], bound, f"{row['reached']:g} — not reached")


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Markdown."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
