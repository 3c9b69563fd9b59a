"""The difference between a candidate and the canonical result, line by line."""

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
    canonical: str, candidate: str, pointers: Sequence[str] = ()
) -> tuple[DiffLine, ...] | None:
    """None where either is too long; empty where they are the same.

    Secrets are masked on both sides, `pointers` too: a mask that differs says that the value does.
    """
    before, after = (
        pretty_json(mask_text(text, pointers).text).splitlines() for text in (canonical, candidate)
    )
    if max(len(before), len(after)) > MAX_LINES:
        return None
    lines = list(difflib.unified_diff(before, after, n=_CONTEXT, lineterm=""))[2:]
    return tuple(_line(line) for line in lines)


def _line(line: str) -> DiffLine:
    if line.startswith("@@"):
        return DiffLine(GAP, line)
    return DiffLine({"+": PLUS, "-": MINUS}.get(line[:1], ""), line[1:])
