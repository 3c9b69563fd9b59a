"""RFC 8785 canonical JSON, so that the digest which a worker sends is the one that the coordinator computes.

Written out here because the SDK has no dependency for it: sorting by UTF-16 code units and the number format of
ECMAScript are the two places where `json.dumps(sort_keys=True)` differs.
"""

from __future__ import annotations

import hashlib
import json
import math
from decimal import Decimal
from typing import Any

from tenure.errors import NotEncodable

#: The integers that every JSON reader keeps exactly (RFC 7493); beyond them, send a string.
LARGEST_INTEGER = 2**53 - 1
#: Nested deeper than this, a value is refused here instead of by a stack overflow somewhere else.
DEEPEST_NESTING = 64


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value. Raises NotEncodable, naming the part at fault by a JSON pointer."""
    pieces: list[str] = []
    _write(value, "", 0, pieces)
    return "".join(pieces).encode()


def digest(data: bytes) -> str:
    """`sha256:<64 hex>` over bytes (contract 2)."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _write(value: Any, pointer: str, depth: int, out: list[str]) -> None:
    if depth > DEEPEST_NESTING:
        raise NotEncodable(f"nested deeper than {DEEPEST_NESTING} levels", pointer=pointer)
    match value:
        case None:
            out.append("null")
        case bool():
            out.append("true" if value else "false")
        case str():
            out.append(_string(value, pointer))
        case int():
            out.append(_integer(value, pointer))
        case float():
            out.append(_number(value, pointer))
        case dict():
            _write_object(value, pointer, depth, out)
        case list() | tuple():
            _write_array(value, pointer, depth, out)
        case _:
            raise NotEncodable(f"{type(value).__name__} is not a JSON type", pointer=pointer)


def _write_object(value: dict[Any, Any], pointer: str, depth: int, out: list[str]) -> None:
    names: list[tuple[bytes, str]] = []
    for name in value:
        if not isinstance(name, str):
            raise NotEncodable(f"member name {name!r} is not a string", pointer=pointer)
        _string(name, pointer)
        names.append((name.encode("utf-16-be"), name))
    out.append("{")
    for position, (_, name) in enumerate(sorted(names)):
        if position:
            out.append(",")
        out.append(_string(name, pointer))
        out.append(":")
        _write(value[name], f"{pointer}/{_escaped(name)}", depth + 1, out)
    out.append("}")


def _write_array(
    value: list[Any] | tuple[Any, ...], pointer: str, depth: int, out: list[str]
) -> None:
    out.append("[")
    for position, item in enumerate(value):
        if position:
            out.append(",")
        _write(item, f"{pointer}/{position}", depth + 1, out)
    out.append("]")


def _string(text: str, pointer: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotEncodable("a lone surrogate is not text", pointer=pointer) from error
    return json.dumps(text, ensure_ascii=False)


def _integer(number: int, pointer: str) -> str:
    if abs(number) > LARGEST_INTEGER:
        raise NotEncodable(
            f"integer beyond ±{LARGEST_INTEGER}; send it as a string", pointer=pointer
        )
    return int.__repr__(number)


def _number(number: float, pointer: str) -> str:
    """ECMAScript's Number::toString: Python's shortest digits, in its own places for point and exponent."""
    if not math.isfinite(number):
        raise NotEncodable(f"{number} is not a JSON number", pointer=pointer)
    if number == 0:
        return "0"
    _, digits, exponent = Decimal(repr(abs(number))).as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0")
    point = len(digits) + exponent
    sign = "-" if number < 0 else ""
    if 0 < point <= 21:
        whole, rest = text[:point].ljust(point, "0"), text[point:]
        return f"{sign}{whole}.{rest}" if rest else f"{sign}{whole}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{text}"
    mantissa = f"{text[0]}.{text[1:]}" if len(text) > 1 else text
    return f"{sign}{mantissa}e{point - 1:+d}"


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
