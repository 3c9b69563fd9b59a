"""Digests and canonical JSON (contract 5; RFC 8785), and the id of an effect."""

import hashlib
import re
from typing import Any, Final

import orjson
import rfc8785

#: Deeper JSON is refused: every reader downstream has some recursion limit.
MAX_DEPTH: Final = 100

#: orjson sorts keys by code point and prints floats its own way, and RFC 8785 knows no
#: integer beyond 2^53 - 1. Where none of those occur orjson's output *is* the RFC 8785
#: form; else the slow library decides.
_LONG_DIGITS: Final = re.compile(rb"[0-9]{16}")
#: RFC 8785 writes doubles between these two as integers, which no reader would accept.
_MAX_INTEGER: Final = 2**53 - 1
_FIRST_WITH_EXPONENT: Final = 1e21
_FIRST_TO_SORT_DIFFERENTLY: Final = "\ud800"


class NotCanonical(ValueError):
    """The value has no RFC 8785 form; the message says what is wrong with it."""


def canonical(value: Any) -> bytes:
    """The RFC 8785 form of a JSON value, as UTF-8.

    Raises NotCanonical for NaN, infinities, integers beyond ±(2^53 - 1), NUL characters,
    lone surrogates, and nesting deeper than MAX_DEPTH.
    """
    has_float = _survey(value)
    try:
        fast = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
        if b"\\u0000" in fast.replace(b"\\\\", b""):
            raise NotCanonical("a string has a NUL character; remove it")
        if not has_float and not _LONG_DIGITS.search(fast) and _sorts_alike(fast):
            return fast
        return rfc8785.dumps(value)
    except (TypeError, rfc8785.CanonicalizationError) as error:
        raise NotCanonical(str(error)) from error


def _survey(value: Any) -> bool:
    """Whether a float stands anywhere in the value; refuses what is nested too deep."""
    level, has_float = [value], False
    for _ in range(MAX_DEPTH):
        floats = [node for node in level if type(node) is float]
        if any(_MAX_INTEGER < abs(number) < _FIRST_WITH_EXPONENT for number in floats):
            raise NotCanonical(
                "a number beyond ±(2^53 - 1) would be read back as another; send it as a string"
            )
        has_float = has_float or bool(floats)
        level = [
            child
            for node in level
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return has_float
    raise NotCanonical(f"nested deeper than {MAX_DEPTH} levels; flatten it")


def _sorts_alike(encoded: bytes) -> bool:
    return encoded.isascii() or max(encoded.decode()) < _FIRST_TO_SORT_DIFFERENTLY


def sha256(data: bytes) -> str:
    """`sha256:<64 hex>` of some bytes (contract 2)."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def effect_id(*, task_id: str, node_id: str, slot: str) -> str:
    """The stable id of an effect: no attempt, generation, payload or time in it (contract 5)."""
    state = hashlib.sha256(b"claim.v1")
    for part in (task_id, node_id, slot):
        encoded = part.encode()
        state.update(len(encoded).to_bytes(4, "big") + encoded)
    return state.hexdigest()
