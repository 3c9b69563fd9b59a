"""A payload to be decided on, read in three ways; each of them is the whole of it, never a part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from console.visible import compact
from coordinator.secrets import Hidden, mask_text

WAYS: Final = ("rendered", "json", "raw")
#: Deeper or wider than this a table says less than the JSON does; then the JSON is shown instead.
MAX_ROWS: Final = 4_000


@dataclass(frozen=True, slots=True)
class Row:
    """One value of a payload with the path that leads to it."""

    path: str
    value: str


@dataclass(frozen=True, slots=True)
class Reading:
    """`rows` for `rendered`; `text` is the stored text for the two others."""

    way: str
    text: str
    rows: tuple[Row, ...] = ()
    hidden: tuple[Hidden, ...] = ()
    revealed: bool = False


def read_payload(
    text: str, way: str, pointers: Sequence[str] = (), *, revealed: bool = False
) -> Reading:
    """`way` is one of WAYS; anything else is the first of them. Secrets are masked, unless `revealed`."""
    wanted, masked = way if way in WAYS else WAYS[0], mask_text(text, pointers)
    shown = text if revealed else masked.text
    rows = tuple(_rows(orjson.loads(shown), "")) if wanted == "rendered" else ()
    if len(rows) > MAX_ROWS:
        wanted, rows = "json", ()
    return Reading(wanted, shown, rows, masked.hidden, revealed)


def _rows(value: Any, path: str) -> Iterator[Row]:
    """Leaves in the order of the stored text; empty lists and objects are leaves too."""
    stack: list[tuple[str, Any]] = [(path, value)]
    while stack:
        at, each = stack.pop()
        if isinstance(each, dict) and each:
            stack += [(f"{at}.{key}" if at else key, part) for key, part in reversed(each.items())]
        elif isinstance(each, list) and each:
            stack += [(f"{at}[{n}]", part) for n, part in reversed([*enumerate(each)])]
        else:
            yield Row(at or "·", compact(each))
