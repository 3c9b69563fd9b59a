"""What a downstream answered a look-up, made fit to be kept: its words are bounded, and hold what a database can.

The adapter is an operator's code and the words are a stranger's. What can't be kept is said so, and settles nothing.
"""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from coordinator import digests
from tenure.downstreams.base import Absent, DontKnow, Happened

HAPPENED, ABSENT, DONT_KNOW = "HAPPENED", "NOT_HAPPENED", "DONT_KNOW"
#: What a downstream says beyond this is cut; the digest is over the whole.
MAX_TOLD_CHARS: Final = 20_000
#: A larger receipt is a document, and not what names one.
MAX_RECEIPT_BYTES: Final = 65_536
_REPLACED: Final = "\ufffd"


@dataclass(frozen=True, slots=True)
class Heard:
    """`receipt` is None where it did not happen, and where there is none that can be kept, which `detail` says then."""

    said: str
    detail: str
    receipt: Any
    digest: str

    @property
    def settles(self) -> bool:
        """Whether an effect may be settled by it; an unreadable receipt is a person's to look at."""
        return self.said == ABSENT or (self.said == HAPPENED and self.receipt is not None)


def hear(found: object) -> Heard:
    """`found` is whatever the adapter gave back."""
    match found:
        case Happened(receipt=receipt):
            return _happened(receipt)
        case Absent(detail=detail):
            return _heard(ABSENT, detail)
        case DontKnow(detail=detail):
            return _heard(DONT_KNOW, detail)
        case _:
            return _heard(DONT_KNOW, f"the look-up gave no answer but a {type(found).__name__}")


def plain_text(told: object, *, most: int = MAX_TOLD_CHARS) -> str:
    """Text that PostgreSQL and JSON can hold: NUL characters and halves of surrogate pairs are replaced."""
    text = str(told).replace("\x00", _REPLACED)[:most]
    return text if text.isascii() else text.encode(errors="replace").decode()


def _happened(receipt: Any) -> Heard:
    if receipt is None:
        return _heard(HAPPENED, "it says that it happened, and gives no receipt")
    try:
        text = digests.canonical(receipt)
    except (digests.NotCanonical, RecursionError) as error:
        return _heard(
            HAPPENED, f"it says that it happened, with a receipt that can't be kept: {error}"
        )
    if len(text) > MAX_RECEIPT_BYTES:
        told = f"{len(text)} bytes, {digests.sha256(text)}"
        return _heard(
            HAPPENED, f"it says that it happened, with a receipt that is too large: {told}"
        )
    return Heard(HAPPENED, "", orjson.loads(text), _digest(HAPPENED, "", receipt))


def _heard(said: str, detail: object) -> Heard:
    return Heard(said, plain_text(detail), None, _digest(said, str(detail), None))


def _digest(said: str, detail: str, receipt: Any) -> str:
    whole = detail.encode(errors="backslashreplace").decode()
    return digests.sha256(orjson.dumps([said, whole, receipt]))
