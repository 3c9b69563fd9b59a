"""What a worker has done, counted; and the happenings that it tells an observer."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tenure.claim import Claim
from tenure.records import Json

log = logging.getLogger("tenure")


class Happening(StrEnum):
    """What may happen to a claim, or to the worker itself."""

    CLAIMED = "claimed"
    COMMITTED = "committed"
    #: the coordinator refused a call of this attempt; `detail["problem"]` says which way
    REFUSED = "refused"
    FAILED = "failed"
    RELEASED = "released"
    #: a person has to approve an effect first; the coordinator holds the task until then
    PARKED = "parked"
    #: the end of the attempt could not be told to anybody; its lease will lapse
    UNTOLD = "untold"
    #: the worker follows a raised scheduler epoch
    EPOCH_RAISED = "epoch_raised"
    #: the coordinator cannot be reached, or takes no claims from us at the moment
    WAITING = "waiting"
    #: … and now it can
    RESUMED = "resumed"


@dataclass(frozen=True, kw_only=True)
class Report:
    """One happening, for a log line or a progress display."""

    what: Happening
    claim: Claim | None = None
    detail: Mapping[str, Json] = field(default_factory=dict)


Observer = Callable[[Report], None]


class Tally:
    """Counts happenings, by name and by `refused.<point>.<OUTCOME>`; tells the observer of each."""

    def __init__(self, observer: Observer | None = None) -> None:
        self._observer = observer
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def tell(self, what: Happening, claim: Claim | None = None, **detail: Json) -> None:
        """Count and report one happening. An observer that fails is logged and never disturbs a claim."""
        self.count(what.value)
        if self._observer is None:
            return
        try:
            self._observer(Report(what=what, claim=claim, detail=detail))
        except Exception:
            log.exception("the observer failed on %s", what)

    def refused(self, point: str, claim: Claim, problem: Exception, outcome: str) -> None:
        """A refusal at an acceptance point: counted under its outcome, logged, told."""
        self.count(f"refused.{point}.{outcome}")
        log.warning("%s of %r refused: %s", point, claim, problem)
        self.tell(Happening.REFUSED, claim, point=point, problem=problem)

    def count(self, name: str, amount: int = 1) -> None:
        """Raise one counter."""
        with self._lock:
            self._counts[name] += amount

    def counts(self) -> dict[str, int]:
        """The counters as they are now."""
        with self._lock:
            return dict(self._counts)
