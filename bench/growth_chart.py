"""A soak's samples as one SVG: small panels over the same time, each with its scale from zero."""

from html import escape
from typing import Any, Final

from bench.svg import opening

WIDTH, COLUMNS = 760, 2
PANEL_WIDTH, PANEL_HEIGHT = 370, 168
SMALL: Final = 'class="quiet" font-size="11"'
LEFT, RIGHT, TOP, BOTTOM = 52, 10, 40, 22
#: Titles, and the figures of each: one line apiece, named by what differs.
PANELS: Final = (
    ("Committed tasks a second", ("tasks/s",)),
    ("Claim, ms", ("claim p50 ms", "claim p95 ms", "claim p99 ms")),
    ("Commit, ms", ("commit p50 ms", "commit p95 ms", "commit p99 ms")),
    ("Pages, p95 ms", ("page / p95 ms", "page /tasks p95 ms", "page /tasks?state=READY p95 ms")),
    (
        "Memory, MiB",
        ("web 1 RSS MiB", "web 2 RSS MiB", "Celery worker PSS MiB", "PostgreSQL PSS MiB"),
    ),
    (
        "Dead rows, %",
        ("task dead rows %", "attempt dead rows %", "run dead rows %", "storedanswer dead rows %"),
    ),
    ("HOT updates, %", ("task HOT updates %", "attempt HOT updates %")),
    ("Kilobytes a task", ("disk kB a task", "WAL kB a task")),
)


def draw(told: dict[str, Any]) -> str:
    samples = told["samples"]
    rows = -(-len(PANELS) // COLUMNS)
    height = rows * PANEL_HEIGHT + 56
    title = f"{told['minutes']:g} minutes at {told['paced_per_s']:,} claims a second"
    parts = [
        opening(width=WIDTH, height=height, title=escape(title)),
        f'<text x="10" y="24" class="ink" font-size="15">{escape(title)}</text>',
    ]
    for number, (name, figures) in enumerate(PANELS):
        x = 5 + number % COLUMNS * (PANEL_WIDTH + 10)
        y = 34 + number // COLUMNS * PANEL_HEIGHT
        parts.append(f'<g transform="translate({x} {y})">{_panel(name, figures, samples)}</g>')
    foot = (
        f"{told['share']:.0%} of the {told['maximum_per_s']:,} claims/s measured first; fdatasync/s"
        f" {told['fdatasync_per_s']:,}; PostgreSQL, servers and clients share the machine"
    )
    parts.append(
        f'<text x="10" y="{height - 8}" class="quiet" font-size="11">{escape(foot)}</text></svg>\n'
    )
    return "".join(parts)


def _panel(name: str, figures: tuple[str, ...], samples: list[dict[str, Any]]) -> str:
    lines = {
        figure: [
            (sample["at_s"] / 60, sample["figures"][figure])
            for sample in samples
            if figure in sample["figures"]
        ]
        for figure in figures
    }
    top = _round_up(max((value for line in lines.values() for _, value in line), default=1.0))
    last = max((at for line in lines.values() for at, _ in line), default=1.0)
    parts = [f'<text x="{LEFT}" y="12" class="ink">{escape(name)}</text>', _frame(top, last)]
    legend = float(LEFT)
    for number, (figure, line) in enumerate(lines.items()):
        points = " ".join(f"{_x(at, last):.1f},{_y(value, top):.1f}" for at, value in line)
        parts.append(f'<polyline class="s{number}" points="{points}"/>')
        if len(lines) > 1:
            told = _short(figure)
            parts.append(
                f'<text x="{legend:g}" y="28" class="f{number}" font-size="11">{escape(told)}</text>'
            )
            legend += 6.4 * len(told) + 14
    return "".join(parts)


def _frame(top: float, last: float) -> str:
    """Zero, half and the top of the scale; the beginning and the end of the time."""
    parts = []
    for share in (0.0, 0.5, 1.0):
        y = _y(share * top, top)
        parts.append(
            f'<line x1="{LEFT}" x2="{PANEL_WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" class="rule"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end" {SMALL}>{share * top:,g}</text>'
        )
    floor = PANEL_HEIGHT - BOTTOM + 15
    parts.append(
        f'<text x="{LEFT}" y="{floor}" {SMALL}>0</text>'
        f'<text x="{PANEL_WIDTH - RIGHT}" y="{floor}" text-anchor="end" {SMALL}>{last:.3g} min</text>'
    )
    return "".join(parts)


def _x(at: float, last: float) -> float:
    return LEFT + (PANEL_WIDTH - LEFT - RIGHT) * at / last


def _y(value: float, top: float) -> float:
    return PANEL_HEIGHT - BOTTOM - (PANEL_HEIGHT - TOP - BOTTOM) * value / top


def _round_up(value: float) -> float:
    """The next of 1, 2, 4, 5, 10 times a power of ten."""
    power = 10.0 ** (len(str(int(value))) - 1) if value >= 1 else 1.0
    return next((power * step for step in (1, 2, 4, 5, 10) if value <= power * step), 1.0)


def _short(figure: str) -> str:
    """What tells it from the others of its panel."""
    if figure.startswith("page "):
        return figure.removeprefix("page ").removesuffix(" p95 ms")
    for word in (
        "claim ",
        "commit ",
        " RSS MiB",
        " PSS MiB",
        " dead rows %",
        " HOT updates %",
        " kB a task",
        " ms",
    ):
        figure = figure.replace(word, "")
    return figure
