"""Break-glass: a recorded, short permission to write protected tables past the guard (contract 16).

While one is open every page says so, and what is written under it counts against coverage.
"""

from datetime import datetime, timedelta
from typing import Final

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.models import BreakGlass
from coordinator.outcomes import FieldError, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.services.events import EventKind, Fact, record
from coordinator.services.transactions import in_transaction

MAX_MINUTES: Final = 240
MIN_REASON_CHARS: Final = 10


@in_transaction
def open_break_glass(*, reason: str, minutes: int, actor: Actor) -> BreakGlass | Refusal:
    """Open a session; a database session uses it by `SET tenure.break_glass = '<id>'`. It closes by itself."""
    faults = []
    if len(reason.strip()) < MIN_REASON_CHARS:
        faults.append(FieldError("/reason", f"say why in at least {MIN_REASON_CHARS} characters"))
    if not 1 <= minutes <= MAX_MINUTES:
        faults.append(FieldError("/minutes", f"from 1 to {MAX_MINUTES} minutes"))
    if faults:
        return invalid(*faults)
    _, rows = run_round(name_point("administer"), CLOCK)
    at = clock_of(rows)
    session = BreakGlass.objects.create(
        opened_by=actor.label,
        reason=reason.strip(),
        opened_at=at,
        expires_at=at + timedelta(minutes=minutes),
    )
    _record(EventKind.BREAK_GLASS_OPENED, session, actor, at)
    return session


@in_transaction
def close_break_glass(*, session_id: int, actor: Actor) -> BreakGlass | Refusal:
    """Close a session now. A repeat changes nothing."""
    run_round(name_point("administer"))
    session = BreakGlass.objects.select_for_update().filter(id=session_id).first()
    if session is None:
        return not_found("break-glass session")
    if session.closed_at is None:
        at = clock_of(run_round(CLOCK)[0])
        session.closed_at = at
        session.save(update_fields=["closed_at"])
        _record(EventKind.BREAK_GLASS_CLOSED, session, actor, at)
    return session


def _record(kind: EventKind, session: BreakGlass, actor: Actor, at: datetime) -> None:
    told = {
        "session": session.pk,
        "reason": session.reason,
        "expires_at": session.expires_at,
        "writes": session.writes,
    }
    run_round(record([Fact(kind, data=told)], actor=actor, at=at))
