"""How records are printed: for people as text, for scripts as one JSON document."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

#: Control characters could move the cursor or recolour a terminal; names and details come from other people.
_CONTROLS = {
    code: "\ufffd" for code in (*range(0x20), *range(0x7F, 0xA0)) if code not in {0x09, 0x0A}
}

STATE_STYLES = {
    "ACTIVE": "cyan",
    "BLOCKED": "dim",
    "READY": "blue",
    "CLAIMED": "cyan",
    "AWAITING_APPROVAL": "magenta",
    "AWAITING_RECONCILIATION": "magenta",
    "COMMITTED": "green",
    "CANCELLED": "yellow",
    "SUPERSEDED": "dim",
    "FAILED": "red",
    "PREPARED": "blue",
    "ACCEPTED": "cyan",
    "UNKNOWN": "magenta",
    "RESENDABLE": "magenta",
    "PENDING": "magenta",
    "APPROVED": "green",
    "REJECTED": "red",
}


def printable(value: object) -> str:
    """Text that is only text, whatever it was made of."""
    return ("" if value is None else str(value)).translate(_CONTROLS)


def say(text: str) -> None:
    """One line for people."""
    print(printable(text))


def complain(text: str) -> None:
    """What went wrong, on standard error."""
    print(f"tenure: {printable(text)}", file=sys.stderr)


def confirmed(question: str) -> bool:
    """Whether the answer on standard input is yes. No answer is none."""
    print(f"{question} ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def print_json(value: Any) -> None:
    """One document, keys as in the API."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """A record as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {spec.name: plain(getattr(value, spec.name)) for spec in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return value


def print_record(record: Any) -> None:
    """Name and value of each field that has one, aligned."""
    values = {
        name: value for name, value in plain(record).items() if value not in (None, "", {}, [])
    }
    width = max(map(len, values), default=0)
    for name, value in values.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        say(f"{name:<{width}}  {shown}")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns for people; tab-separated where nobody looks, so that `cut` and `awk` have an easy time."""
    if not sys.stdout.isatty():
        for row in rows:
            say("\t".join(printable(cell).replace("\t", " ").replace("\n", " ") for cell in row))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(styled(printable(cell)) for cell in row))
    Console().print(table)


def styled(word: str) -> Text:
    """A word, coloured where it is a state."""
    return Text(word, style=STATE_STYLES.get(word, ""))
