"""Tasks a second of Tenure, its peers and the ceiling, as one SVG of bars that needs no script."""

from html import escape
from typing import Any, Final

from bench.beside import best as best_of_peers
from bench.goals import best
from bench.svg import opening

WIDTH: Final = 760
LABEL: Final = 250
ROW: Final = 26
CLASSES: Final = {"tenure": "f0", "ceiling": "f4", "peer": "f5"}


def draw(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    bars = [
        ("Tenure, batches of 100", best(rows, "tenure batch"), "tenure"),
        ("Tenure, one task a call", best(rows, "tenure single"), "tenure"),
        *sorted(
            ((name, value, "peer") for name, value in best_of_peers(figures["peers"]).items()),
            key=lambda bar: -bar[1],
        ),
        ("raw SQL, one task", best(rows, "ceiling single"), "ceiling"),
        ("raw SQL, batches of 50", best(rows, "ceiling batch"), "ceiling"),
    ]
    largest = max(value for _, value, _ in bars)
    height = ROW * len(bars) + 34
    title = "Finished tasks a second, each one's best setting, in one run on one server"
    parts = [opening(width=WIDTH, height=height, title=escape(title))]
    for number, (name, value, kind) in enumerate(bars):
        top = 8 + number * ROW
        length = max(1, round((WIDTH - LABEL - 80) * value / largest))
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end" class="ink">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{top + 2}" width="{length}" height="{ROW - 8}" rx="2" class="{CLASSES[kind]}"/>'
            f'<text x="{LABEL + length + 6}" y="{top + 15}" class="ink">{value:,}</text>'
        )
    foot = (
        f"fdatasync/s {figures['fdatasync_per_s']:,}; raw SQL: no ledger, no HTTP;"
        " PostgreSQL, clients and servers share the machine"
    )
    parts.append(
        f'<text x="8" y="{height - 8}" font-size="11" class="quiet">{escape(foot)}</text></svg>\n'
    )
    return "".join(parts)
