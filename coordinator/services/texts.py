"""Names, reasons and JSON values of requests: bounded, and made canonical (contract 5, 6)."""

from typing import Any, Final

from coordinator import digests
from coordinator.outcomes import FieldError

MAX_NAME_CHARS: Final = 200  # of a node, a kind, a slot, a serial key, a run
MAX_REASON_CHARS: Final = 2_000
MAX_INPUT_BYTES: Final = 1_048_576
MAX_METADATA_BYTES: Final = 65_536


def check_text(
    pointer: str, text: str, *, most: int = MAX_NAME_CHARS, least: int = 1
) -> list[FieldError]:
    """Faults of a text: its length, and characters that PostgreSQL's text or UTF-8 cannot hold."""
    if not least <= len(text) <= most:
        return [
            FieldError(pointer, f"It has {len(text)} characters; {least} to {most} are allowed.")
        ]
    if not is_storable(text):
        return [FieldError(pointer, "It has a NUL character or half a surrogate pair; remove it.")]
    return []


def is_storable(text: str) -> bool:
    """Whether PostgreSQL can hold it, or be asked for it: no NUL, no lone surrogate."""
    if text.isascii():
        return "\x00" not in text
    return not any(char == "\x00" or "\ud800" <= char <= "\udfff" for char in text)


def check_reason(reason: str) -> list[FieldError]:
    """Every operator action says why (contract 15)."""
    if not reason.strip():
        return [FieldError("/reason", "Say why; it stands in the history.")]
    return check_text("/reason", reason, most=MAX_REASON_CHARS)


def canonical_text(
    pointer: str, value: Any, most: int, errors: list[FieldError]
) -> tuple[str, str]:
    """RFC 8785 text of a JSON value and its digest; a fault is added to `errors`."""
    try:
        encoded = digests.canonical(value)
    except digests.NotCanonical as error:
        errors.append(FieldError(pointer, f"It has no canonical JSON form: {error}."))
        return "null", ""
    if len(encoded) > most:
        told = f"{len(encoded)} bytes of JSON; at most {most}. Put the bulk where a name can point to it."
        errors.append(FieldError(pointer, told))
    return encoded.decode(), digests.sha256(encoded)
