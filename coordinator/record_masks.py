"""Records of ours with what people and agents wrote in them masked, wherever people are told them (adr/0022)."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar, cast

from coordinator.secrets import mask_members, mask_value

T = TypeVar("T")

#: Fields that hold what somebody wrote: why they did it, what they saw, where it is told.
FREE_TEXT: Final = frozenset(
    {
        *("reason", "end_reason", "comment", "note", "assigned_note", "statement", "because"),
        *("detail", "message", "probe", "link", "changes_asked"),
    }
)
#: Fields that hold JSON of others.
_JSON: Final = frozenset({"data", "detail", "metadata", "error"})


def masked_text(text: str) -> str:
    """Free text without what looks like a secret in it."""
    return str(mask_value(text)[0])


def masked_record(record: T) -> T:
    """A record with everything masked: each text by its shape, JSON by its names as well."""
    return cast(T, _masked(record))


def _masked(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _masked(getattr(value, each.name)) for each in fields(value)}
        return replace(value, **parts)
    if isinstance(value, list | tuple):
        return type(value)(_masked(each) for each in value)
    if isinstance(value, dict):
        return mask_members(value)
    return masked_text(value) if type(value) is str else value


def words_masked(record: T) -> T:
    """The record with its fields of free text masked, at any depth; the rest as it is, tokens and ids among it."""
    return cast(T, _told(record))


def _told(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = _changed(((each.name, getattr(value, each.name)) for each in fields(value)), _field)
        return replace(value, **parts) if parts else value
    if isinstance(value, dict):
        parts = _changed(value.items(), _field)
        return {**value, **parts} if parts else value
    if isinstance(value, list | tuple):
        moved = _changed(enumerate(value), lambda _, each: _told(each))
        told = [moved.get(place, each) for place, each in enumerate(value)]
        return type(value)(told) if moved and type(value) in (list, tuple) else value
    return value


def _field(name: Any, value: Any) -> Any:
    if isinstance(value, str):
        return masked_text(value) if name in FREE_TEXT and type(value) is str else value
    if name in _JSON and isinstance(value, dict | list):
        return mask_value(value)[0]
    return _told(value)


def _changed(parts: Any, told: Callable[[Any, Any], Any]) -> dict[Any, Any]:
    """What is told otherwise; most of an answer is not, and is left alone."""
    found = ((name, value, told(name, value)) for name, value in parts)
    return {name: shown for name, value, shown in found if shown is not value and shown != value}
