"""Whether a figure stayed flat while it was watched: a line through its values, and a rule that is stated.

A figure is **growing** where the fitted line rises by more than TOLERANCE of the figure's mean in an hour, and by more
than SURE times its own standard error, so that noise alone is no growth; **falling** is the same downwards. Anything
else is **flat**. The first SETTLING of the time is left out: caches fill and plans are made then.
"""

import math
from dataclasses import dataclass
from typing import Any, Final

TOLERANCE: Final = 0.1
SURE: Final = 3.0
SETTLING: Final = 1 / 6
#: Fewer values than these say nothing.
FEWEST: Final = 8


@dataclass(frozen=True, slots=True)
class Trend:
    """`share`: what the line gains in an hour, of the mean. `verdict`: flat, growing, falling, too few values."""

    name: str
    mean: float
    first: float
    last: float
    slope_per_hour: float | None
    share: float | None
    verdict: str


def trend(name: str, at: list[float], values: list[float]) -> Trend:
    """Of values taken `at` so many seconds."""
    begin = at[0] + SETTLING * (at[-1] - at[0]) if at else 0.0
    points = [(x / 3600, y) for x, y in zip(at, values, strict=True) if x >= begin]
    if len(points) < FEWEST:
        mean = sum(values) / len(values) if values else 0.0
        first, last = (values[0], values[-1]) if values else (0.0, 0.0)
        return Trend(name, mean, first, last, None, None, "too few values")
    slope, error = _line(points)
    mean = sum(y for _, y in points) / len(points)
    share = slope / mean if mean else 0.0
    clear = abs(share) > TOLERANCE and abs(slope) > SURE * error
    verdict = "flat" if not clear else "growing" if slope > 0 else "falling"
    return Trend(name, mean, points[0][1], points[-1][1], slope, share, verdict)


def _line(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Least squares: the slope and its standard error."""
    count = len(points)
    mean_x, mean_y = (sum(values) / count for values in zip(*points, strict=True))
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0
    left = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in points)
    error = math.sqrt(left / (count - 2) / spread) if spread and count > 2 else 0.0
    return slope, error


def trends(samples: list[dict[str, Any]]) -> list[Trend]:
    """Of each figure that the samples have; where one lacks it, the others count."""
    names = dict.fromkeys(name for sample in samples for name in sample["figures"])
    told = []
    for name in names:
        known = [
            (sample["at_s"], sample["figures"][name])
            for sample in samples
            if sample["figures"].get(name) is not None
        ]
        told.append(trend(name, [at for at, _ in known], [value for _, value in known]))
    return told
