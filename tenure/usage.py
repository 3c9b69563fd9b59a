"""What an attempt has used up, cumulative, as the coordinator keeps it (contract 2: usage)."""

from __future__ import annotations

import threading
import time
from decimal import Decimal

from tenure.records import Json


class Meter:
    """Counts for one attempt. Any thread may add; what is sent is always the total so far.

    Compute seconds are the wall clock of the attempt unless the handler counts its own: a cost that nobody reported
    would otherwise read as no cost.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._input_tokens = 0
        self._output_tokens = 0
        self._compute_seconds: float | None = None
        self._cost_usd = Decimal(0)

    def add(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        compute_seconds: float | None = None,
        cost_usd: Decimal | float | str = 0,
    ) -> None:
        """Add to the total. Nothing can be taken back: negative amounts are a ValueError."""
        cost = Decimal(str(cost_usd))
        amounts = (input_tokens, output_tokens, compute_seconds or 0, cost)
        if any(amount < 0 for amount in amounts) or not cost.is_finite():
            raise ValueError("usage only grows: amounts must be finite and not negative")
        with self._lock:
            self._input_tokens += input_tokens
            self._output_tokens += output_tokens
            self._cost_usd += cost
            if compute_seconds is not None:
                self._compute_seconds = (self._compute_seconds or 0.0) + compute_seconds

    def as_json(self) -> dict[str, Json]:
        """The total so far, as it travels."""
        with self._lock:
            seconds = self._compute_seconds
            if seconds is None:
                seconds = time.monotonic() - self._began
            return {
                "input_tokens": self._input_tokens,
                "output_tokens": self._output_tokens,
                "compute_seconds": round(seconds, 3),
                "cost_usd": round(float(self._cost_usd), 6),
            }
