"""Parameters as PostgreSQL reads them: text without a type, whatever the statement casts it to.

Arrays are what batches are made of; psycopg's own dumpers cost 4 µs an element, a list of
ids or plain text through orjson 0.04.
"""

from collections.abc import Sequence
from datetime import datetime
from types import NoneType
from typing import Final
from uuid import UUID

import orjson


def literal(value: object) -> bytes | None:
    """The text form of one parameter; None is NULL. A list becomes an array literal.

    Raises TypeError for a type that no statement of ours sends: nothing is guessed.
    """
    if value is None:
        return None
    return array(value) if isinstance(value, list | tuple) else _text(value).encode()


def _text(value: object) -> str:
    match value:
        case bool():
            return "t" if value else "f"
        case str() | UUID():
            return str(value)  # of an enum member too: its value
        case int() | float():
            return str(value + 0)  # an enum member's number
        case datetime() if value.tzinfo is not None:
            return value.isoformat()
        case list() | tuple():
            return array(value).decode()
        case _:
            raise TypeError(f"no literal for {type(value).__name__} (an instant needs a zone)")


#: What JSON and an array literal write alike: quoted or bare, with `null` for NULL.
_ALIKE: Final = frozenset({UUID, int, bool, NoneType})
_TEXTS: Final = frozenset({str, NoneType})


def array(values: Sequence[object]) -> bytes:
    """`{a,"b c",NULL}`: strings are quoted, and their quotes and backslashes escaped."""
    types = set(map(type, values))
    if types <= _ALIKE or (types <= _TEXTS and _is_printable(values)):
        return b"{" + orjson.dumps(values)[1:-1] + b"}"
    return ("{" + ",".join([_element(value) for value in values]) + "}").encode()


def _is_printable(texts: Sequence[object]) -> bool:
    """No control characters, the only ones that JSON escapes in another way than an array literal."""
    return "".join([text for text in texts if isinstance(text, str)]).isprintable()


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return _text(value)
