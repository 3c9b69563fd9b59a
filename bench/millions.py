"""A day after years: millions of finished tasks, and what claims and the console's pages feel of them (field case C24).

    python -m bench.millions                      one million finished, some minutes
    python -m bench.millions --finished 10000000 --open 1000000 --keep DIR --seed-only
    python -m bench.millions --reuse DIR          measure there; some 16 GB of disk

200 tasks run meanwhile. Claims are measured on two servers in turns: one with these tasks, and one with as many open
ones and 10,000 finished; then while ten people refresh the list every two seconds.
"""

import argparse
import json
import re
import sys
import threading
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bench import clients, pages, seeds
from bench.clients import Api, percentile
from bench.finished import count_in
from bench.place import Place, fdatasync_per_second
from bench.seeds import Seeds

FEW, OPEN, RUNNING = 10_000, 50_000, 200
TURNS: Final = 5
PEOPLE, EVERY_SECONDS, DEEP = 10, 2.0, 100
LIST: Final = "/tasks?state=COMMITTED"
_OLDER: Final = re.compile(r'href="(/tasks\?[^"]*\bbefore=[^"]*)"')


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.millions", description=__doc__.splitlines()[0]
    )
    seeds.add_arguments(parser, finished=1_000_000, waiting=OPEN)
    parser.add_argument("--seed-only", action="store_true", help="with --keep: measure nothing")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long claims are measured")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    chosen = seeds.chosen(options)
    with chosen.place() as place:
        chosen.sow(place)
        if options.seed_only:
            return 0
        figures = measure(place, seconds=options.seconds)
    told = json.dumps(figures, indent=2)
    sys.stdout.write(told + "\n")
    if options.json:
        options.json.write_text(told + "\n")
    return 0


def measure(place: Place, *, seconds: float) -> dict[str, Any]:
    """What claims and pages feel, beside what stands in the place."""
    _hold(place)
    figures: dict[str, Any] = {
        "finished": count_in(place, state="COMMITTED"),
        "open": count_in(place, state="READY"),
        "running": count_in(place, state="CLAIMED"),
        "database_gb": _size(place),
        "fdatasync_per_s": fdatasync_per_second(place.folder),
    }
    few = Seeds(finished=FEW, open=figures["open"])
    with few.place() as beside_few:
        few.sow(beside_few)
        _hold(beside_few)
        figures |= _compared(beside_few, place, seconds)
    figures["pages"] = pages.first_bytes(place)
    browser = pages.signed_in(place, "bench-reader")
    figures["first_and_deep_page_ms"] = _cursor(browser)
    figures["claim_beside_readers_ms"] = _beside_readers(place, seconds)
    return figures


def _hold(place: Place) -> None:
    """Leases that run while everything else is measured."""
    clients.submit(place.target, nodes=RUNNING, kind="held")
    api = Api(place.target)
    for _ in range(RUNNING // 100):
        api.claim("holder", 100, ttl_seconds=3600, kinds=["held"])


def _compared(few: Place, all_: Place, seconds: float) -> dict[str, Any]:
    """The same claims on both servers in turns: what the machine does meanwhile meets both."""
    found: dict[str, list[float]] = {"few": [], "all": []}
    for place in (few, all_):
        _claims(place, 1.0)  # plans and caches
    for _ in range(TURNS):
        found["few"] += _claims(few, seconds / TURNS)
        found["all"] += _claims(all_, seconds / TURNS)
    low, high = (percentile(sorted(found[which]), 0.95) for which in ("few", "all"))
    return {
        "claim_beside_few_ms": _told(found["few"]),
        "claim_beside_all_ms": _told(found["all"]),
        "claim_p95_ratio": round(high / low, 2) if low else None,
    }


def _claims(place: Place, seconds: float) -> list[float]:
    """Milliseconds of single claims of one client, each followed by its commit."""
    return clients.cycles(place.target, batch=1, processes=1, lanes=1, seconds=seconds).claim_ms


def _told(waits: list[float]) -> dict[str, float]:
    waits = sorted(waits)
    return {
        "p50": round(percentile(waits, 0.5), 2),
        "p95": round(percentile(waits, 0.95), 2),
        "max": round(max(waits, default=0.0), 1),
    }


def _cursor(browser: pages.Browser) -> dict[str, float]:
    """The first page of a list, and the hundredth by its cursor; medians of five."""
    address, waits = LIST, dict[str, float]()
    for depth in range(DEEP):
        found = _OLDER.findall(browser.read(address))
        if depth in (0, DEEP - 1):
            name = "first" if depth == 0 else "deep"
            waits[name] = round(sorted(browser.get(address) for _ in range(5))[2], 1)
        if not found:
            break
        address = found[-1].replace("&amp;", "&")
    return waits


def _beside_readers(place: Place, seconds: float) -> dict[str, float]:
    """The same claims while people look at the list again and again."""
    over = threading.Event()
    browsers = [pages.signed_in(place, f"bench-reader-{number}") for number in range(PEOPLE)]
    waits: list[list[float]] = [[] for _ in browsers]

    def refresh(browser: pages.Browser, own: list[float]) -> None:
        while not over.wait(EVERY_SECONDS):
            own.append(browser.get("/tasks"))

    readers = [
        threading.Thread(target=refresh, args=pair) for pair in zip(browsers, waits, strict=True)
    ]
    for reader in readers:
        reader.start()
    try:
        told = _told(_claims(place, seconds))
    finally:
        over.set()
        for reader in readers:
            reader.join()
    told["page_p95"] = round(percentile(sorted(chain.from_iterable(waits)), 0.95), 1)
    return told


def _size(place: Place) -> float:
    with place.connect() as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
    return round((row[0] if row else 0) / 1024**3, 1)


if __name__ == "__main__":
    sys.exit(main())
