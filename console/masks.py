"""Stored payloads and records as pages show them: masked as a whole, and only then cut."""

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from console.visible import masked
from coordinator.secrets import Hidden, mask_members, mask_text
from coordinator.selectors.console_task import PAYLOAD_SHOWN, Payload

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shown:
    """`size_bytes` is of the whole as it is stored."""

    text: str
    size_bytes: int
    cut: bool
    hidden: tuple[Hidden, ...]


def shown_masked(payload: Payload | None) -> Shown | None:
    """`payload` was read whole: a text that is cut first can't be read, and its secrets not be found."""
    if payload is None:
        return None
    whole = mask_text(payload.text)
    is_cut = len(whole.text) > PAYLOAD_SHOWN
    return Shown(whole.text[:PAYLOAD_SHOWN], payload.size_bytes, is_cut, whole.hidden)


def masked_record(record: T) -> T:
    """A record of ours with what others wrote in it masked: texts by their shape, JSON by its names as well."""
    return cast(T, _masked(record))


def _masked(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = {each.name: _masked(getattr(value, each.name)) for each in fields(value)}
        return replace(value, **parts)
    if isinstance(value, list | tuple):
        return type(value)(_masked(each) for each in value)
    if isinstance(value, dict):
        return mask_members(value)
    return masked(value) if type(value) is str else value
