"""People who look at the console while it is measured, and cancel a run now and then."""

import http.client
import json
import threading
import time
from types import TracebackType
from typing import Any, Final, Self

from bench import load, pages
from bench.clients import Api
from bench.place import Place

PAGES: Final = ("/", "/tasks", "/tasks?state=READY")
EVERY_SECONDS: Final = 3.0
#: Every so many rounds a new run is cancelled.
CANCEL_EVERY: Final = 10


class Readers:
    """One person with a browser, in a thread, while it is entered."""

    def __init__(self, place: Place) -> None:
        self._target = place.target
        self._browser = pages.signed_in(place, "soak-reader")
        self._over, self._lock = threading.Event(), threading.Lock()
        self._waits: dict[str, list[float]] = {}
        self._faults: list[str] = []
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def take(self) -> tuple[dict[str, list[float]], list[str]]:
        """Milliseconds by page since the last time, and what failed."""
        with self._lock:
            taken, self._waits = self._waits, {}
            faults, self._faults = self._faults, []
        return taken, faults

    def _look(self) -> None:
        rounds = 0
        while not self._over.wait(EVERY_SECONDS):
            rounds += 1
            try:
                for path in PAGES:
                    waited = self._browser.get(path)
                    with self._lock:
                        self._waits.setdefault(path, []).append(waited)
                if rounds % CANCEL_EVERY == 0:
                    self._cancel()
            except (OSError, http.client.HTTPException, AssertionError) as fault:
                with self._lock:
                    self._faults.append(f"{time.strftime('%H:%M:%S')} {fault}"[:200])

    def _cancel(self) -> None:
        # On a connection of its own: between two of these the server closes one that is kept.
        run: Any = load.submit(Api(self._target))
        path = f"/api/v1/runs/{run['run_id']}/cancel"
        status, told = self._browser.post(path, json.dumps({"reason": "the soak cancels some"}))
        assert status == 200, (path, status, told[:300])
