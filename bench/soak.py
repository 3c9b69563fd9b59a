"""An hour of load at a share of the maximum, and whether memory, latency, bloat and disk stay flat meanwhile.

    python -m bench.soak --minutes 60 --json soak.json --chart soak.svg
    python -m bench.soak --reuse DIR              on what `bench.millions --keep DIR` has left

The maximum is measured first, by the same load without a pace. Then the load is open-loop; people look at the overview
and the list of tasks; Celery's jobs run as in `up`, with things to take away for `prune` from the first minute. Ctrl-C
or SIGTERM ends it early, with the figures of what there was.
"""

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench import growth_chart, load, retention, seeds
from bench.background import Background
from bench.growth import trends
from bench.load import Load, Pace
from bench.place import Place, fdatasync_per_second
from bench.readers import Readers
from bench.soak_report import show
from bench.watching import Watch

FINISHED, OPEN = 200_000, 2_000


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.soak", description=__doc__.splitlines()[0]
    )
    seeds.add_arguments(parser, finished=FINISHED, waiting=OPEN)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--share", type=float, default=0.7, help="of the maximum")
    parser.add_argument("--batch", type=int, default=1, help="tasks a claim")
    parser.add_argument("--every", type=float, default=30.0, help="seconds between samples")
    parser.add_argument(
        "--maximum-seconds", type=float, default=20.0, help="how long that is measured"
    )
    parser.add_argument("--json", type=Path, help="write the samples and figures there")
    parser.add_argument("--chart", type=Path, help="draw their growth there, as SVG")
    parser.add_argument(
        "--from", dest="measured", type=Path, help="measure nothing: what --json wrote"
    )
    options = parser.parse_args()
    told = json.loads(options.measured.read_text()) if options.measured else measure(options)
    sys.stdout.write(show(told))
    if options.json:
        options.json.write_text(json.dumps(told, indent=1) + "\n")
    if options.chart:
        options.chart.write_text(growth_chart.draw(told))
    return 0


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """A soak in the place that was asked for."""
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell's `&` has it ignored
        signal.signal(number, signal.default_int_handler)
    os.environ |= retention.SETTINGS  # all processes of the place inherit it
    chosen = seeds.chosen(options)
    with chosen.place() as place:
        chosen.sow(place)
        return soak(place, options)


def soak(place: Place, options: argparse.Namespace) -> dict[str, Any]:
    """Everything that was asked for, or as much as there was until Ctrl-C."""
    fsyncs = fdatasync_per_second(place.folder)
    load.prepare(place)
    maximum = measure_maximum(place, batch=options.batch, seconds=options.maximum_seconds)
    aged = retention.age(place)
    pace = Pace(options.batch, max(1.0, options.share * maximum))
    sys.stderr.write(
        f"At most {maximum:,.0f} claims/s; going on with {pace.claims_per_second:,.0f}\n"
    )
    samples: list[dict[str, Any]] = []
    with Background(place) as jobs, Readers(place) as readers:
        watch = Watch(place, jobs, readers, pace)
        with Load(place.target, pace) as working:
            try:
                for sample in watch.samples(
                    working, seconds=60 * options.minutes, every=options.every
                ):
                    samples.append(sample)
                    sys.stderr.write(line_of(sample))
            except KeyboardInterrupt:
                sys.stderr.write("Stopping; what there is is written.\n")
    return {
        "minutes": round(samples[-1]["at_s"] / 60, 1) if samples else 0.0,
        "fdatasync_per_s": fsyncs,
        "batch": options.batch,
        "maximum_per_s": round(maximum, 1),
        "share": options.share,
        "paced_per_s": round(pace.claims_per_second or 0.0, 1),
        "aged_for_prune": aged,
        "trends": [asdict(each) for each in trends(samples)],
        "samples": samples,
    }


def measure_maximum(place: Place, *, batch: int, seconds: float) -> float:
    """Claims a second of the same load without a pace, second attempts included; the first quarter warms up."""
    with Load(place.target, Pace(batch)) as working:
        time.sleep(seconds / 4)
        working.take()
        begin = time.monotonic()
        time.sleep(seconds * 3 / 4)
        window, taken = working.take(), time.monotonic() - begin
    return window.outcomes["claimed"] / taken


def line_of(sample: dict[str, Any]) -> str:
    figures = sample["figures"]
    return (
        f"{sample['at_s'] / 60:6.1f} min  {figures['tasks/s']:8,.1f} tasks/s"
        f"  claim p95 {figures.get('claim p95 ms', 0):.1f} ms  web {figures.get('web 1 RSS MiB', 0)} MiB"
        f"  late {figures['late s']} s\n"
    )


if __name__ == "__main__":
    sys.exit(main())
