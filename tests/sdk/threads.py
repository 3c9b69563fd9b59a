"""Workers in threads of a test: started, waited for with an end, never left to hold a test run open."""

from __future__ import annotations

import threading

from tenure import Worker
from tests.site.waiting import PATIENCE_SECONDS, until

__all__ = ["PATIENCE_SECONDS", "ended", "started", "until", "until_counted"]


def started(worker: Worker) -> threading.Thread:
    thread = threading.Thread(target=worker.run, daemon=True)
    thread.start()
    return thread


def ended(thread: threading.Thread) -> None:
    thread.join(PATIENCE_SECONDS)
    assert not thread.is_alive(), "the worker has not stopped"


def until_counted(worker: Worker, name: str, number: int) -> None:
    until(lambda: worker.counts.get(name, 0) >= number, f"{number} {name} of {worker!r}")
