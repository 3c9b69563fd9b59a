"""The axis of the attempt timeline: time to pixels, with long rests drawn short."""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

LEFT, RIGHT = 168, 850  # left of it stand the lanes' names, right of it is room for words
_TICK_GAP: Final = 92
_STEPS: Final = (
    *(0.1, 0.5, 1, 2, 5, 10, 15, 30),
    *(60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 14_400, 28_800, 86_400, 604_800),
)


@dataclass(slots=True)
class Axis:
    """Time to pixels, piece by piece; a stretch in which nothing happens may be drawn short."""

    knots: list[tuple[datetime, float]] = field(default_factory=list)
    breaks: list[tuple[datetime, datetime]] = field(default_factory=list)

    @classmethod
    def over(cls, instants: Iterable[datetime]) -> "Axis":
        ordered = sorted(set(instants))
        gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(ordered)]
        broken = _broken(gaps)
        plain = sum(gap for index, gap in enumerate(gaps) if index not in broken) or 1.0
        drawn = [plain * 0.16 if index in broken else gap for index, gap in enumerate(gaps)]
        scale, x, axis = (RIGHT - LEFT) / (sum(drawn) or 1.0), float(LEFT), cls()
        axis.knots.append((ordered[0], x))
        for index, length in enumerate(drawn):
            x += length * scale
            axis.knots.append((ordered[index + 1], x))
            if index in broken:
                axis.breaks.append((ordered[index], ordered[index + 1]))
        return axis

    def x(self, moment: datetime) -> int:
        if moment <= self.knots[0][0]:
            return LEFT
        for (t0, x0), (t1, x1) in zip(self.knots, self.knots[1:], strict=False):
            if moment <= t1:
                share = (moment - t0) / (t1 - t0)
                return round(x0 + share * (x1 - x0))
        return RIGHT

    @property
    def first(self) -> datetime:
        return self.knots[0][0]

    @property
    def last(self) -> datetime:
        return self.knots[-1][0]

    def ticks(self) -> list[tuple[int, datetime]]:
        """Round instants, none within a broken stretch, none too near to another."""
        whole = sum((later - earlier).total_seconds() for earlier, later in self._unbroken()) or 1.0
        step = next((each for each in _STEPS if whole / each <= 8), _STEPS[-1])
        ticks: list[tuple[int, datetime]] = []
        for earlier, later in self._unbroken():
            second = (earlier.timestamp() // step + 1) * step
            while second <= later.timestamp() and len(ticks) < 60:
                moment = datetime.fromtimestamp(second, tz=earlier.tzinfo)
                x = self.x(moment)
                if (not ticks or x - ticks[-1][0] >= _TICK_GAP) and x <= RIGHT - 20:
                    ticks.append((x, moment))
                second += step
        # A stretch too short for any round instant is still told where it begins.
        return ticks or [(LEFT, self.first)]

    def _unbroken(self) -> list[tuple[datetime, datetime]]:
        stretches, start = [], self.first
        for earlier, later in self.breaks:
            stretches.append((start, earlier))
            start = later
        return [*stretches, (start, self.last)]


def _broken(gaps: Sequence[float]) -> set[int]:
    """The stretches that would crowd out everything else: a minute or more, and most of what is left."""
    broken: set[int] = set()
    if len(gaps) < 3:
        return broken
    for index in sorted(range(len(gaps)), key=gaps.__getitem__, reverse=True):
        rest = sum(gap for other, gap in enumerate(gaps) if other not in broken and other != index)
        if gaps[index] < 60 or gaps[index] < rest * 0.8:
            break
        broken.add(index)
    return broken
