"""A day after years: millions of finished tasks, and what claims and the console's pages feel of them (field case C24).

    python -m bench.millions                      one million finished, some minutes
    python -m bench.millions --finished 5000000   five million; some 6 GB of disk

50,000 tasks are open and 200 run meanwhile. Claims are measured beside 10,000 finished tasks first, then beside all of
them, then while ten people refresh the list every two seconds.
"""

import argparse
import json
import re
import sys
import threading
import time
from itertools import chain
from pathlib import Path
from typing import Any, Final

from bench import clients, pages
from bench.clients import Api, percentile
from bench.finished import make_finished
from bench.place import Place, fdatasync_per_second

FEW, OPEN, RUNNING = 10_000, 50_000, 200
PEOPLE, EVERY_SECONDS, DEEP = 10, 2.0, 100
LIST: Final = "/tasks?state=COMMITTED"
_OLDER: Final = re.compile(r'href="(/tasks\?[^"]*\bbefore=[^"]*)"')


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.millions", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--finished", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="how long claims are measured")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    options = parser.parse_args()
    figures = run(finished=options.finished, seconds=options.seconds)
    told = json.dumps(figures, indent=2)
    sys.stdout.write(told + "\n")
    if options.json:
        options.json.write_text(told + "\n")
    return 0


def run(*, finished: int, seconds: float) -> dict[str, Any]:
    figures: dict[str, Any] = {"finished": finished, "open": OPEN, "running": RUNNING}
    with Place() as place:
        figures["fdatasync_per_s"] = fdatasync_per_second(place.folder)
        clients.submit(place.target, nodes=OPEN)
        _start(place)
        make_finished(place, min(FEW, finished))
        figures["claim_beside_few_ms"] = _claims(place, seconds)
        begin = time.perf_counter()
        make_finished(place, finished - min(FEW, finished))
        figures["seeding_s"] = round(time.perf_counter() - begin)
        figures["database_gb"] = _size(place)
        figures["claim_beside_all_ms"] = _claims(place, seconds)
        figures["pages"] = pages.first_bytes(place)
        browser = pages.signed_in(place, "bench-reader")
        figures["first_and_deep_page_ms"] = _cursor(browser)
        figures["claim_beside_readers_ms"] = _beside_readers(place, seconds)
    return figures


def _start(place: Place) -> None:
    """Leases that run while everything else is measured."""
    clients.submit(place.target, nodes=RUNNING, kind="held")
    api = Api(place.target)
    for _ in range(RUNNING // 100):
        api.claim("holder", 100, ttl_seconds=3600, kinds=["held"])


def _claims(place: Place, seconds: float) -> dict[str, float]:
    """Single claims of one client, each followed by its commit."""
    count = clients.cycles(place.target, batch=1, processes=1, lanes=1, seconds=seconds)
    return {
        "p50": round(percentile(count.claim_ms, 0.5), 2),
        "p95": round(percentile(count.claim_ms, 0.95), 2),
        "max": round(max(count.claim_ms, default=0.0), 1),
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
        told = _claims(place, seconds)
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
