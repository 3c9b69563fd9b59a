"""Samples of a place under load, one after the other: what its callers feel, and what it is made of."""

import time
from collections.abc import Iterator
from typing import Any, Final

from bench.background import Background
from bench.clients import percentile
from bench.load import Load, Pace, Window
from bench.place import Place
from bench.readers import Readers
from bench.sampling import Processes, Sampler

VERBS: Final = ("claim", "commit", "renew", "submit")
SHARES: Final = (0.5, 0.95, 0.99)


class Watch:
    """`samples` goes on for so long. Raises RuntimeError where something that should run has ended."""

    def __init__(self, place: Place, jobs: Background, readers: Readers, pace: Pace) -> None:
        assert place.web is not None
        assert place.postgres.process is not None
        roots = {"web": place.web.pid, **jobs.roots, "PostgreSQL": place.postgres.process.pid}
        self._jobs, self._readers, self._pace = jobs, readers, pace
        self._sampler = Sampler(place, Processes(roots))

    def samples(self, working: Load, *, seconds: float, every: float) -> Iterator[dict[str, Any]]:
        begin = last = time.monotonic()
        self._sampler.take(committed=0)  # what the first interval is compared with
        for number in range(1, max(1, round(seconds / every)) + 1):
            time.sleep(max(0.0, begin + number * every - time.monotonic()))
            if ended := self._jobs.ended() or (["the load"] if working.ended() else []):
                raise RuntimeError(f"{', '.join(ended)} has ended")
            window, now = working.take(), time.monotonic()
            yield self._sample(window, at=now - begin, taken=now - last)
            last = now

    def _sample(self, window: Window, *, at: float, taken: float) -> dict[str, Any]:
        committed = window.outcomes["COMMITTED"]
        figures = {"tasks/s": round(committed / taken, 1), "late s": round(window.late, 2)}
        for verb in VERBS:
            figures |= _percentiles(verb, window.waits.get(verb, []), SHARES)
        pages, faults = self._readers.take()
        for path, waits in pages.items():
            figures |= _percentiles(f"page {path}", waits, (0.5, 0.95))
        told, raw = self._sampler.take(committed=committed)
        return {
            "at_s": round(at, 1),
            "figures": figures | told,
            "outcomes": dict(window.outcomes),
            "page_faults": faults,
            "database": raw,
        }


def _percentiles(name: str, waits: list[float], shares: tuple[float, ...]) -> dict[str, float]:
    if not waits:
        return {}
    ordered = sorted(waits)
    return {
        f"{name} p{round(100 * share)} ms": round(percentile(ordered, share), 2) for share in shares
    }
