"""The audit's chain is verified in the background, piece by piece, again and again (adr/0021).

A look reads a piece without a transaction around it, and then writes how far it is, if nobody
else has meanwhile. At the end of the chain it waits for new links, and begins anew when it is due.
"""

import time
from datetime import datetime, timedelta
from typing import Final

from coordinator.actors import Actor
from coordinator.chain_digests import GENESIS
from coordinator.clock import CLOCK, clock_of, read_clock
from coordinator.models import AuditWatch
from coordinator.rounds import name_point, run_round
from coordinator.selectors.audit_chain import Verification, verify_chain

from .events import EventKind, Fact, record
from .transactions import in_transaction

#: Links of one piece, and how long the background goes on at a time.
PIECE: Final = 2_000
BUDGET_SECONDS: Final = 2.0
#: From the first link again so long after that was begun; new links are followed in between.
EVERY: Final = timedelta(hours=6)


def watch_chain(*, actor: Actor, piece: int = PIECE, budget_seconds: float = BUDGET_SECONDS) -> int:
    """Go on where it stopped for so long, one piece at least; how many links were verified.

    The first row that does not fit is written down, with an alarm the first time, and looked at
    again each time until it fits: nothing behind it is verified.
    """
    stop = time.monotonic() + budget_seconds
    links = 0
    while True:
        place = _place()
        found = verify_chain(
            first=place.number + 1,
            last=place.number + piece,
            anchor=place.digest if place.number else None,
        )
        links += found.links
        if not _write_down(place, found, actor) or not found.holds:
            return links
        if found.last >= found.head.number or time.monotonic() >= stop:
            return links


def _place() -> AuditWatch:
    """Where to go on: where it stopped, or at the first link."""
    place = AuditWatch.objects.filter(id=1).first()
    return place or _first(read_clock())


def _first(at: datetime) -> AuditWatch:
    return AuditWatch(number=0, digest=GENESIS, begun_at=at, looked_at=at)


@in_transaction
def _write_down(place: AuditWatch, found: Verification, actor: Actor) -> bool:
    """Whether it was: another one may have gone on from the same place."""
    run_round(name_point("audit"))
    row = AuditWatch.objects.select_for_update().filter(id=1).first() or place
    if (row.number, row.digest, row.begun_at) != (place.number, place.digest, place.begun_at):
        return False
    at = clock_of(run_round(CLOCK)[0])
    row.looked_at = at
    if found.fault is not None:
        _tell(row, found, actor, at)
    else:
        _move_on(row, found, at)
    row.save()
    return True


def _move_on(row: AuditWatch, found: Verification, at: datetime) -> None:
    row.misfit, row.fault_detail = "", ""
    row.fault_number = row.fault_event = row.fault_at = None
    row.number, row.digest = found.last, found.digest
    if found.last < found.head.number:
        return
    row.whole_at = at
    if row.begun_at <= at - EVERY:
        row.number, row.digest, row.begun_at = 0, GENESIS, at


def _tell(row: AuditWatch, found: Verification, actor: Actor, at: datetime) -> None:
    fault = found.fault
    assert fault is not None, "asked for where it does not hold"
    wrong = (str(fault.misfit), fault.number, fault.event_id)
    if (row.misfit, row.fault_number, row.fault_event) == wrong:
        return
    row.misfit, row.fault_number, row.fault_event = wrong
    row.fault_detail, row.fault_at = fault.detail, at
    told = {
        "alarm": "AUDIT_CHAIN_BROKEN",
        "misfit": wrong[0],
        "number": fault.number,
        "event_id": fault.event_id,
        "detail": fault.detail,
    }
    run_round(record([Fact(EventKind.ALARM, data=told)], actor=actor, at=at))
