"""Tasks a second of Tenure, its peers and the ceiling, as one SVG of bars that needs no script."""

from html import escape
from typing import Any, Final

from bench.beside import best as best_of_peers
from bench.goals import best

WIDTH: Final = 760
LABEL: Final = 250
ROW: Final = 26
COLOURS: Final = {"tenure": "#2f86e5", "ceiling": "#7d8794", "peer": "#b7a26a"}


def draw(figures: dict[str, Any]) -> str:
    rows = figures["rows"]
    bars = [
        ("Tenure, batches of 100", best(rows, "tenure batch"), "tenure"),
        ("Tenure, one task a call", best(rows, "tenure single"), "tenure"),
        *sorted(
            ((name, value, "peer") for name, value in best_of_peers(figures["peers"]).items()),
            key=lambda bar: -bar[1],
        ),
        ("raw SQL, one task (no ledger, no HTTP)", best(rows, "ceiling single"), "ceiling"),
        ("raw SQL, batches of 50", best(rows, "ceiling batch"), "ceiling"),
    ]
    largest = max(value for _, value, _ in bars)
    height = ROW * len(bars) + 34
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
            ' role="img" aria-labelledby="title" font-family="system-ui, sans-serif" font-size="13">'
        ),
        '<title id="title">Finished tasks a second, each one\'s best setting, in one run on one server</title>',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, (name, value, kind) in enumerate(bars):
        top = 8 + number * ROW
        length = max(1, round((WIDTH - LABEL - 80) * value / largest))
        parts.append(
            f'<text x="{LABEL - 8}" y="{top + 15}" text-anchor="end" fill="#1f2328">{escape(name)}</text>'
            f'<rect x="{LABEL}" y="{top + 2}" width="{length}" height="{ROW - 8}" rx="2" fill="{COLOURS[kind]}"/>'
            f'<text x="{LABEL + length + 6}" y="{top + 15}" fill="#1f2328">{value:,}</text>'
        )
    foot = f"fdatasync/s {figures['fdatasync_per_s']:,}; PostgreSQL, clients and servers share the machine"
    parts.append(
        f'<text x="8" y="{height - 8}" font-size="11" fill="#57606a">{escape(foot)}</text></svg>\n'
    )
    return "".join(parts)
