"""What claims, fences and canonical commits cost, beside the raw SQL ceiling and other queues on the same server.

    python -m bench                  Tenure and the ceiling, some minutes
    python -m bench --quick          a smoke test of the same
    python -m bench --peers PYTHON   the peers too, in a virtual environment of their own (`make bench`)
    python -m bench --json out.json --chart out.svg
    python -m bench --from out.json --chart out.svg   tell and draw again what was measured

Absolute figures move with the machine; what counts are the ratios of one run.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from bench import beside, bumping, ceiling, clients, fans, holding, paced, pages
from bench.chart import draw
from bench.finished import make_finished
from bench.goals import ratios
from bench.place import Place, fdatasync_per_second
from bench.report import show

BATCH = 100
LANES = ((1, 1), (2, 1), (2, 2), (2, 4), (2, 8))  # processes, connections in each
MANY = (2, 32)  # agents that take one task each: calls that arrive at once go together


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
    parser.add_argument("--peers", metavar="PYTHON", help="an interpreter that has the peers")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    parser.add_argument("--chart", type=Path, help="draw tasks a second there, as SVG")
    parser.add_argument(
        "--from", dest="measured", type=Path, help="measure nothing: what --json wrote"
    )
    options = parser.parse_args()
    figures = (
        json.loads(options.measured.read_text())
        if options.measured
        else run(
            seconds=2.0 if options.quick else options.seconds,
            finished=20_000 if options.quick else options.finished,
            peers=options.peers,
            quick=options.quick,
        )
    )
    sys.stdout.write(show(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if options.chart:
        options.chart.write_text(draw(figures))
    return 0


def run(*, seconds: float, finished: int, peers: str | None, quick: bool) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    with Place() as place:
        figures["fdatasync_per_s"] = fdatasync_per_second(place.folder)
        place.stop_web()  # the ceiling and the peers have the machine to themselves
        rows = ceiling.measure(place, seconds=seconds)
        figures["peers"] = (
            beside.measure(place, python=peers, seconds=seconds, quick=quick) if peers else []
        )
        place.start_web()
        _settle(place)  # what those before have left to be written is not ours
        # First: tasks of other kinds that are left over would be work that this fleet can't do.
        figures["start"] = paced.start_latency(place.target, seconds=seconds)
        figures["submit_nodes_per_s"] = round(clients.submit(place.target, nodes=5_000))
        _settle(place)
        rows += _cycles(place, "tenure batch", BATCH, seconds)
        rows += _cycles(place, "tenure single", 1, seconds)
        figures["rows"] = rows
        figures["fans"] = fans.per_edge(place.target, widths=fans.WIDTHS[: 2 if quick else 3])
        figures["renewals"] = holding.renewals(place, leases=1_000 if quick else holding.LEASES)
        figures["reclaims"] = holding.reclaims(place)
        figures["claim_latency"] = _latency(place, finished, seconds)
        figures["pages"] = pages.first_bytes(place)
        figures["web_memory_mib"] = round(place.web_memory_mib())
        figures["bumps"] = bumping.bumps(place, count=10 if quick else 100)
    figures["ratios"] = ratios(figures)
    return figures


def _settle(place: Place) -> None:
    """What autovacuum does within a minute of a bulk load."""
    with place.connect() as connection:
        connection.execute("VACUUM ANALYZE")
        connection.execute("CHECKPOINT")


def _cycles(place: Place, what: str, batch: int, seconds: float) -> list[dict[str, Any]]:
    rows = []
    for processes, lanes in (*LANES, MANY) if batch == 1 else LANES:
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
    """Single claims of one client, before and after so many finished tasks."""
    with place.connect() as connection:
        row = connection.execute(
            "SELECT count(*) FROM coordinator_task WHERE state = 'COMMITTED'"
        ).fetchone()
    already = row[0] if row else 0
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


if __name__ == "__main__":
    sys.exit(main())
