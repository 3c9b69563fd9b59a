"""A figure's course as a drawing: a line with gaps where nothing was measured, and what was done meanwhile."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from coordinator.selectors.figures import Slo
from coordinator.selectors.markers import Marker
from coordinator.selectors.numbers import Point

SPARK_WIDTH, SPARK_HEIGHT = 120, 28
WIDTH, HEIGHT = 960, 240
LEFT, RIGHT, TOP, BOTTOM = 76, 16, 16, 28
_TICKS: Final = 6
_GOAL_WITHIN: Final = 4
#: Tops whose quarters are round too: of numbers by powers of ten, of times by the units that people read.
_NICE: Final = (1, 2, 4, 8, 10)
_NICE_SECONDS: Final = (
    *(60 * minutes for minutes in (1, 2, 4, 8, 20, 40)),
    *(3_600 * hours for hours in (1, 2, 4, 8, 12, 24, 48, 96)),
)


@dataclass(frozen=True, slots=True)
class Chart:
    """Pixels of an SVG. `dots` are values that stand alone, with nothing measured beside them."""

    width: int
    height: int
    paths: tuple[str, ...]
    dots: tuple[tuple[float, float], ...]
    levels: tuple[tuple[float, float], ...]  # (y, value) of the horizontal lines
    times: tuple[tuple[float, datetime], ...]
    goal_y: float | None
    markers: tuple[tuple[float, Marker], ...]


def draw_spark(points: Sequence[Point]) -> Chart:
    """Without axes: its shape alone."""
    top = _top([point.value for point in points if point.value is not None], at_least=0.0)
    lines, dots = _lines(points, (1, SPARK_WIDTH - 1), (2, SPARK_HEIGHT - 2), top)
    return Chart(SPARK_WIDTH, SPARK_HEIGHT, lines, dots, (), (), None, ())


def draw_chart(
    points: Sequence[Point], slo: Slo, markers: Iterable[Marker], *, of_time: bool = False
) -> Chart:
    """`of_time`: the values are seconds, and the lines stand at minutes and hours."""
    values = [point.value for point in points if point.value is not None]
    # A goal that lies far above the course would press it flat; then it is told in words alone.
    drawn = slo.at_most and slo.goal <= _GOAL_WITHIN * max(values, default=slo.goal)
    top = _top(values, at_least=slo.goal if drawn else 0.0, of_time=of_time)
    across, down = (LEFT, WIDTH - RIGHT), (TOP, HEIGHT - BOTTOM)
    lines, dots = _lines(points, across, down, top)
    return Chart(
        WIDTH,
        HEIGHT,
        lines,
        dots,
        levels=tuple((_y(top * part / 4, down, top), top * part / 4) for part in range(5)),
        times=_times(points, across),
        goal_y=_y(slo.goal, down, top) if drawn else None,
        markers=tuple(_placed(markers, points, across)),
    )


def _lines(
    points: Sequence[Point], across: tuple[int, int], down: tuple[int, int], top: float
) -> tuple[tuple[str, ...], tuple[tuple[float, float], ...]]:
    """Connected stretches; one point alone is a dot."""
    paths, dots = [], []
    stretch: list[tuple[float, float]] = []
    for place, point in enumerate([*points, None]):
        if point is not None and point.value is not None:
            stretch.append((_x(place, points, across), _y(point.value, down, top)))
        elif stretch:
            if len(stretch) == 1:
                dots.append(stretch[0])
            else:
                paths.append("M" + "L".join(f"{x} {y}" for x, y in stretch))
            stretch = []
    return tuple(paths), tuple(dots)


def _x(place: int, points: Sequence[Point], across: tuple[int, int]) -> float:
    first, last = across
    return round(first + (last - first) * place / max(1, len(points) - 1), 1)


def _y(value: float, down: tuple[int, int], top: float) -> float:
    first, last = down
    return round(last - (last - first) * min(value, top) / top, 1)


def _times(points: Sequence[Point], across: tuple[int, int]) -> tuple[tuple[float, datetime], ...]:
    every = max(1, len(points) // _TICKS)
    return tuple(
        (_x(place, points, across), point.at)
        for place, point in enumerate(points)
        if place % every == every // 2
    )


def _placed(
    markers: Iterable[Marker], points: Sequence[Point], across: tuple[int, int]
) -> Iterable[tuple[float, Marker]]:
    if len(points) < 2:
        return
    first, length = points[0].at, points[-1].at - points[0].at
    for marker in markers:
        share = (marker.at - first) / length
        if 0 <= share <= 1:
            yield round(across[0] + (across[1] - across[0]) * share, 1), marker


def _top(values: Sequence[float], *, at_least: float, of_time: bool = False) -> float:
    """The least round number that nothing goes beyond."""
    highest = max([*values, at_least])
    if of_time and 40 < highest <= _NICE_SECONDS[-1]:
        return float(next(top for top in _NICE_SECONDS if top >= highest * 0.999))
    if highest <= 0:
        return 1.0
    power = 1.0
    while power * 10 <= highest:
        power *= 10
    while power > highest:
        power /= 10
    return next(power * step for step in _NICE if power * step >= highest * 0.999)
