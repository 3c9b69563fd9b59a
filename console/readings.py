"""A payload to be decided on, read in three ways; each of them is the whole of it, never a part."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from console.visible import compact

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


def read_payload(text: str, way: str) -> Reading:
    """`way` is one of WAYS; anything else is the first of them."""
    wanted = way if way in WAYS else WAYS[0]
    if wanted != "rendered":
        return Reading(wanted, text)
    rows = tuple(_rows(orjson.loads(text), ""))
    return Reading("rendered", text, rows) if len(rows) <= MAX_ROWS else Reading("json", text)


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
