"""Waiting for what other processes do: until it is so, with a generous end."""

import time
from collections.abc import Callable

PATIENCE_SECONDS = 240.0  # for a machine that has other things to do


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.02)
