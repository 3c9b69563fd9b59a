"""The difference between two stored values, line by line, with what is secret in them masked."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from console.visible import pretty_json
from coordinator.secrets import mask_text

#: Longer texts are not compared line by line: both can be downloaded.
MAX_LINES: Final = 3_000
_CONTEXT: Final = 3
PLUS, MINUS, GAP = "+", "\u2212", "\u22ef"


@dataclass(frozen=True, slots=True)
class DiffLine:
    """`sign` is PLUS (only in the candidate), MINUS (only canonical), GAP (lines left out) or empty."""

    sign: str
    text: str

    @property
    def css(self) -> str:
        return {PLUS: "added", MINUS: "removed", GAP: "skip"}.get(self.sign, "")


def compare(
    canonical: str, candidate: str, pointers: Sequence[str] = (), *, by_line: bool = False
) -> tuple[DiffLine, ...] | None:
    """None where either is too long; empty where they are the same.

    Secrets are masked on both sides, `pointers` too: a mask that differs says that the value does.
    With `by_line` a text of several lines is compared by its own lines, each of them a line of a list.
    """
    masked = (mask_text(text, pointers).text for text in (canonical, candidate))
    before, after = (
        pretty_json(_by_line(text) if by_line else text).splitlines() for text in masked
    )
    if max(len(before), len(after)) > MAX_LINES:
        return None
    lines = list(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]
    return tuple(_line(line) for line in lines)


def _by_line(text: str) -> str:
    return orjson.dumps(_spread(orjson.loads(text))).decode()


def _spread(value: Any) -> Any:
    """A copy in which a text of several lines is the list of them; as deep as JSON was read."""
    if isinstance(value, str):
        return value.split("\n") if "\n" in value else value
    if isinstance(value, list):
        return [_spread(each) for each in value]
    if isinstance(value, dict):
        return {name: _spread(each) for name, each in value.items()}
    return value


def _line(line: str) -> DiffLine:
    if line.startswith("@@"):
        return DiffLine(GAP, line)
    return DiffLine({"+": PLUS, "-": MINUS}.get(line[:1], ""), line[1:])
