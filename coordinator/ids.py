"""Time-ordered ids (UUID version 7, RFC 9562), many at a time: a batch asks the kernel once."""

import os
import threading
import time
from typing import Final
from uuid import UUID

_STEP_BITS: Final = 32  # how far apart two ids of one millisecond are, at random
_RANDOM_BITS: Final = 74  # what the RFC leaves free beside the milliseconds
_ordering: Final = threading.Lock()
_last = 0


def new_id() -> UUID:
    """An id that sorts after every earlier one of this process; index pages are filled in order."""
    return new_ids(1)[0]


def new_ids(count: int) -> list[UUID]:
    """So many ids, in order: milliseconds and random bits, then steps of random length (RFC 9562, 6.2)."""
    global _last  # noqa: PLW0603 (the order is the process's)
    entropy = os.urandom(16 + count * _STEP_BITS // 8)
    random_bits = int.from_bytes(entropy[:16], "big") % (1 << _RANDOM_BITS - 1)  # room to count up
    with _ordering:
        value = max((time.time_ns() // 1_000_000) << _RANDOM_BITS | random_bits, _last)
        ids = []
        for at in range(16, len(entropy), _STEP_BITS // 8):
            value += 1 + int.from_bytes(entropy[at : at + _STEP_BITS // 8], "big")
            ids.append(_id_of(value))
        _last = value
    return ids


def _id_of(value: int) -> UUID:
    """48 bits of milliseconds, the version, 12 bits, the variant, 62 bits."""
    low, high = value & (1 << 62) - 1, value >> 62
    return UUID(int=(high >> 12) << 80 | 7 << 76 | (high & 0xFFF) << 64 | 0b10 << 62 | low)
