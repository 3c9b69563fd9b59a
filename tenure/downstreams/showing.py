"""Contents as people compare them: small ones whole, in the payload's own form; others by their size and digest."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from typing import Final

from tenure.records import Json

#: Of one content; a larger one says by its digest whether it is the same.
LARGEST_SHOWN_BYTES: Final = 16_384


def form_of(value: Json) -> str:
    """The member in which a payload gives this content: `text` or `base64`."""
    return "base64" if isinstance(value, Mapping) and "base64" in value else "text"


def shown(content: bytes, form: str) -> dict[str, Json]:
    """`{"text"}` or `{"base64"}` as `form` says, else `{"bytes", "sha256"}`: never in the other form."""
    if len(content) <= LARGEST_SHOWN_BYTES:
        if form == "base64":
            return {"base64": base64.b64encode(content).decode()}
        try:
            return {"text": content.decode()}
        except UnicodeDecodeError:
            pass
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
