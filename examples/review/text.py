"""What any text file tells: its size, its long lines, its markers, and fingerprints of its blocks."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

LONG_LINE = 120
#: A block is this many lines that say something; of so many neighbouring blocks, one is kept (winnowing: a copy of
#: at least BLOCK_LINES + WINDOW - 1 such lines is always found).
BLOCK_LINES = 6
WINDOW = 8
MOST_MARKERS = 40

CODE = frozenset(
    {
        ".py",
        ".js",
        ".ts",
        ".jsx",
        ".tsx",
        ".css",
        ".scss",
        ".html",
        ".c",
        ".h",
        ".cc",
        ".cpp",
        ".go",
        ".rs",
    }
    | {".java", ".kt", ".rb", ".php", ".sh", ".sql", ".swift", ".cs", ".lua", ".vue", ".svelte"}
)
# The words are spelled with a class each, so that this line is no marker itself.
_MARKER = re.compile(
    r"(?:#|//|/\*|<!--|--|\{#|\*)\s*([T]ODO|[F]IXME|[X]XX|[H]ACK)\b[:\s(]*(.{0,100})"
)
_EMPTY = re.compile(r"^\s*(?:#|//|/\*|\*|<!--).*$|^[\s\W_]*$")
_IMPORT = re.compile(r"^\s*(?:import|from|use|using|require|#include|@import)\b")


def measure(text: str, path: str) -> dict[str, Any]:
    """The facts of one file, whatever it is written in."""
    lines = text.splitlines()
    lengths = [len(line) for line in lines]
    code = PurePosixPath(path).suffix in CODE
    return {
        "lines": len(lines),
        "blank": sum(1 for line in lines if not line.strip()),
        "longest_line": max(lengths, default=0),
        "long_lines": sum(1 for length in lengths if length > LONG_LINE) if code else 0,
        "trailing_space": sum(1 for line in lines if line != line.rstrip()) if code else 0,
        "markers": _markers(lines)[:MOST_MARKERS],
        "blocks": fingerprints(lines) if code else [],
    }


def fingerprints(lines: list[str]) -> list[list[Any]]:
    """`[hash, line]` of the blocks that are kept. Indentation, blank lines, comments and imports do not count."""
    said = [(number, " ".join(line.split())) for number, line in _said(lines)]
    hashes = []
    for start in range(len(said) - BLOCK_LINES + 1):
        block = "\n".join(line for _, line in said[start : start + BLOCK_LINES])
        hashes.append(
            (
                hashlib.blake2b(block.encode(errors="replace"), digest_size=6).hexdigest(),
                said[start][0],
            )
        )
    kept: dict[int, str] = {}
    for start in range(max(1, len(hashes) - WINDOW + 1)) if hashes else ():
        # Of equal hashes the last: then neighbouring windows agree on one.
        name, line = min(hashes[start : start + WINDOW], key=lambda item: (item[0], -item[1]))
        kept[line] = name
    return [[name, line] for line, name in kept.items()]


def _said(lines: list[str]) -> Iterator[tuple[int, str]]:
    """The lines that say something of their own, with their numbers."""
    inside_import = False
    for number, line in enumerate(lines, start=1):
        if inside_import:
            inside_import = ")" not in line
        elif _IMPORT.match(line):
            inside_import = "(" in line and ")" not in line
        elif not _EMPTY.match(line):
            yield number, line


def _markers(lines: list[str]) -> list[dict[str, Any]]:
    found = []
    for number, line in enumerate(lines, start=1):
        if marker := _MARKER.search(line):
            found.append({"line": number, "word": marker[1], "text": marker[2].strip(" */->#}")})
    return found
