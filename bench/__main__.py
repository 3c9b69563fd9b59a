"""Claim → commit cycles through the HTTP API, beside the raw SQL ceiling of the same server.

    python -m bench                  the whole run, a few minutes
    python -m bench --quick          a smoke test of the same
    python -m bench --json out.json  the figures as JSON too

Absolute figures move with the machine; what counts are the ratios of one run.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench import ceiling, clients
from bench.finished import make_finished
from bench.place import Place, fdatasync_per_second

BATCH = 100
LANES = ((1, 1), (2, 1), (2, 2), (2, 8))  # processes, connections in each
GOALS = {"batch": 0.5, "single": 0.35, "claim_p95": 1.2}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--quick", action="store_true", help="seconds instead of minutes; the figures mean little"
    )
    parser.add_argument(
        "--seconds", type=float, default=6.0, help="how long each figure is measured"
    )
    parser.add_argument(
        "--finished", type=int, default=1_000_000, help="finished tasks for the claim latency"
    )
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    seconds = 2.0 if options.quick else options.seconds
    finished = 20_000 if options.quick else options.finished
    figures = run(seconds=seconds, finished=finished)
    show(figures)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def run(*, seconds: float, finished: int) -> dict[str, Any]:
    with Place() as place:
        disk = fdatasync_per_second(place.folder)
        place.stop_web()  # the ceiling has the machine to itself
        rows = ceiling.measure(place, seconds=seconds)
        place.start_web()
        submitted = clients.submit(place.target, nodes=5_000)
        _settle(place)
        rows += _cycles(place, "tenure batch", BATCH, seconds)
        rows += _cycles(place, "tenure single", 1, seconds)
        latency = _latency(place, finished, seconds)
        memory = place.web_memory_mib()
    return {
        "fdatasync_per_s": disk,
        "rows": rows,
        "submit_nodes_per_s": round(submitted),
        "claim_latency": latency,
        "web_memory_mib": round(memory),
        "ratios": _ratios(rows, latency),
    }


def _settle(place: Place) -> None:
    """What autovacuum does within a minute of a bulk load."""
    with place.connect() as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _cycles(place: Place, what: str, batch: int, seconds: float) -> list[dict[str, Any]]:
    rows = []
    for processes, lanes in LANES:
        shape = {"batch": batch, "processes": processes, "lanes": lanes}
        clients.submit(place.target, nodes=int((seconds + 0.5) * (16_000 if batch > 1 else 1_500)))
        clients.cycles(place.target, **shape, seconds=0.5)  # warm
        count = clients.cycles(place.target, **shape, seconds=seconds)
        rows.append(
            {
                "what": what,
                "clients": processes * lanes,
                "cycles_per_s": round(count.committed / count.seconds),
                "claim_p50_ms": round(clients.percentile(count.claim_ms, 0.5), 2),
                "claim_p95_ms": round(clients.percentile(count.claim_ms, 0.95), 2),
                "commit_p50_ms": round(clients.percentile(count.commit_ms, 0.5), 2),
            }
        )
    return rows


def _latency(place: Place, finished: int, seconds: float) -> dict[str, Any]:
    """Single claims of one client, before and after so many finished tasks; in turns, so that drift cancels out."""
    with place.connect() as connection:
        already = (
            connection.execute(
                "SELECT count(*) FROM coordinator_task WHERE state = 'COMMITTED'"
            ).fetchone()
            or (0,)
        )[0]
    before = clients.cycles(place.target, batch=1, processes=1, lanes=1, seconds=seconds)
    make_finished(place, finished)
    after = clients.cycles(place.target, batch=1, processes=1, lanes=1, seconds=seconds)
    low, high = (clients.percentile(count.claim_ms, 0.95) for count in (before, after))
    return {
        "finished_before": already,
        "finished_after": already + finished,
        "p95_before_ms": round(low, 2),
        "p95_after_ms": round(high, 2),
        "ratio": round(high / low, 2) if low else None,
    }


def _best(rows: list[dict[str, Any]], what: str) -> int:
    return max(int(row["cycles_per_s"]) for row in rows if row["what"] == what)


def _ratios(rows: list[dict[str, Any]], latency: dict[str, Any]) -> dict[str, Any]:
    return {
        "batch": round(_best(rows, "tenure batch") / _best(rows, "ceiling batch"), 2),
        "single": round(_best(rows, "tenure single") / _best(rows, "ceiling single"), 2),
        "claim_p95": latency["ratio"],
    }


def show(figures: dict[str, Any]) -> None:
    write = sys.stdout.write
    write(
        f"fdatasync/s: {figures['fdatasync_per_s']}\n\n"
        f"{'what':<16}{'clients':>8}{'cycles/s':>10}  claim p50/p95, commit p50 ms\n"
    )
    for row in figures["rows"]:
        waits = (
            f"{row['claim_p50_ms']} / {row['claim_p95_ms']}, {row['commit_p50_ms']}"
            if "claim_p50_ms" in row
            else ""
        )
        write(f"{row['what']:<16}{row['clients']:>8}{row['cycles_per_s']:>10}  {waits}\n")
    latency, ratios = figures["claim_latency"], figures["ratios"]
    write(
        f"\nsubmit: {figures['submit_nodes_per_s']} nodes/s (runs of 1,000)\n"
        f"claim p95 at {latency['finished_before']} and {latency['finished_after']} finished tasks:"
        f" {latency['p95_before_ms']} and {latency['p95_after_ms']} ms\n"
        f"web process: {figures['web_memory_mib']} MiB\n\n"
        f"of the batch ceiling:  {ratios['batch']}  (goal {GOALS['batch']})\n"
        f"of the single ceiling: {ratios['single']}  (goal {GOALS['single']})\n"
        f"claim p95 ratio:       {ratios['claim_p95']}  (goal at most {GOALS['claim_p95']})\n"
    )


if __name__ == "__main__":
    sys.exit(main())
