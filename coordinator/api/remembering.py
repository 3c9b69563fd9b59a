"""Workers that this process looked up lately, so that a hot call confirms its caller within its own transaction.

By the digest of the token: the token itself is kept nowhere. Each is forgotten after half a minute, and looked up
anew, which also notes its last use (once a minute at most).
"""

import threading
import time
from collections import OrderedDict
from typing import Final

from coordinator.selectors.credentials import FoundWorker
from coordinator.tokens import Token

REMEMBER_SECONDS: Final = 30.0
MAX_REMEMBERED: Final = 2_000


class RememberedWorkers:
    """What a token's look-up found, for a while."""

    def __init__(self, *, seconds: float = REMEMBER_SECONDS, most: int = MAX_REMEMBERED) -> None:
        self.seconds, self.most = seconds, most
        self._found: OrderedDict[bytes, tuple[float, FoundWorker]] = OrderedDict()
        self._lock = threading.Lock()

    def recall(self, token: Token) -> FoundWorker | None:
        until, found = self._found.get(token.sha256, (0.0, None))
        return found if time.monotonic() < until else None

    def remember(self, token: Token, found: FoundWorker | None) -> None:
        """What a look-up has just found; None forgets."""
        key = token.sha256
        with self._lock:
            self._found.pop(key, None)
            if found is not None:
                self._found[key] = (time.monotonic() + self.seconds, found)
            while len(self._found) > self.most:
                self._found.popitem(last=False)

    def forget(self) -> None:
        with self._lock:
            self._found.clear()


WORKERS: Final = RememberedWorkers()
