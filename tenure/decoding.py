"""From the coordinator's JSON to frozen records, by their field types.

Members that a record does not know are left out: a newer coordinator may add some. A missing one is an error that
names it.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime
from functools import cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from tenure.errors import UnexpectedAnswer

Record = TypeVar("Record")


def decode(kind: type[Record], body: Any, /, **own: Any) -> Record:
    """A record from an answer's body; `own` are fields that the answer does not carry."""
    if not isinstance(body, Mapping):
        raise UnexpectedAnswer(f"{kind.__name__}: expected an object, got {type(body).__name__}")
    values = dict(own)
    shape: Any = kind
    for spec, hint in _layout(shape):
        if spec.name in values:
            continue
        if spec.name in body:
            values[spec.name] = _value(hint, body[spec.name], f"{kind.__name__}.{spec.name}")
        elif spec.default is MISSING and spec.default_factory is MISSING:
            raise UnexpectedAnswer(f"{kind.__name__}: the answer has no {spec.name!r}")
    return kind(**values)


@cache
def _layout(kind: type[Any]) -> tuple[tuple[Field[Any], Any], ...]:
    hints = get_type_hints(kind)
    return tuple((spec, hints[spec.name]) for spec in fields(kind))


def _value(hint: Any, value: Any, where: str) -> Any:
    origin = get_origin(hint)
    if origin in {Union, types.UnionType}:
        if value is None:
            return None
        [hint] = [option for option in get_args(hint) if option is not type(None)]
        return _value(hint, value, where)
    if origin is tuple:
        if not isinstance(value, list):
            raise UnexpectedAnswer(f"{where}: expected a list, got {type(value).__name__}")
        return tuple(_value(get_args(hint)[0], item, where) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise UnexpectedAnswer(f"{where}: expected an object, got {type(value).__name__}")
        inner = get_args(hint)[1]
        return {name: _value(inner, item, f"{where}.{name}") for name, item in value.items()}
    if is_dataclass(hint) and isinstance(hint, type):
        return decode(hint, value)
    if hint is datetime:
        return _instant(value, where)
    if hint in {int, float} and not isinstance(value, int | float):
        raise UnexpectedAnswer(f"{where}: expected a number, got {type(value).__name__}")
    return value


def _instant(value: Any, where: str) -> datetime:
    try:
        return datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise UnexpectedAnswer(f"{where}: {value!r} is not an instant") from error
