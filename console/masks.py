"""Stored payloads as pages show them: masked as a whole, and only then cut."""

from dataclasses import dataclass

from coordinator.secrets import Hidden, mask_text
from coordinator.selectors.console_task import PAYLOAD_SHOWN, Payload


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
