"""Values that JSON allows and the contract doesn't: NUL, deep nesting, integers beyond 2^53 - 1 (contract 5)."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pydantic_core import from_json

from coordinator import digests
from coordinator.outcomes import FieldError

LARGEST_INTEGER: Final = 2**53 - 1
#: A number begins after one of these; the digits within a hex digest mostly don't.
_LONG_DIGITS: Final = re.compile(rb"[:,\[\s-][0-9]{16}")


def pointer_of(loc: Sequence[int | str]) -> str:
    """A JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in loc)


def faults_beyond_json(raw: bytes, document: Any) -> Iterator[FieldError]:
    """Faults of values that JSON allows and the contract doesn't: NUL, deep nesting, integers beyond 2^53 - 1.

    The bytes tell cheaply that there is none; only where they don't, the values are looked through.
    """
    brackets = raw.count(b"{") + raw.count(b"[")
    if brackets > digests.MAX_DEPTH and _depth(document) > digests.MAX_DEPTH:
        yield from _walk(document)
    elif b"\\u0000" in raw or _LONG_DIGITS.search(raw):
        # orjson makes floats of integers that need more than 64 bits; this one keeps them.
        yield from _walk(from_json(raw))


def _depth(document: Any) -> int:
    depth, level = 0, [document]
    while level and depth <= digests.MAX_DEPTH:
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        depth += 1
    return depth


def _walk(document: Any) -> Iterator[FieldError]:
    waiting: list[tuple[tuple[int | str, ...], Any]] = [((), document)]
    while waiting:
        path, node = waiting.pop()
        match node:
            case dict() | list() if len(path) >= digests.MAX_DEPTH:
                yield FieldError(
                    pointer_of(path), f"Nested deeper than {digests.MAX_DEPTH} levels; flatten it."
                )
            case dict():
                for key, value in reversed(node.items()):
                    if "\x00" in key:
                        yield FieldError(pointer_of(path), "A name has a NUL character; remove it.")
                    waiting.append(((*path, key), value))
            case list():
                waiting += [
                    ((*path, index), value) for index, value in reversed(list(enumerate(node)))
                ]
            case str() if "\x00" in node:
                yield FieldError(pointer_of(path), "The text has a NUL character; remove it.")
            case int() if abs(node) > LARGEST_INTEGER:
                yield FieldError(
                    pointer_of(path),
                    "Integers go up to ±(2^53 - 1) here; send a larger one as a string.",
                )
