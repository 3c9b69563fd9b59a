"""The audit's lines with what is masked in them: for a reason, on record, as the chain sealed them (adr/0021, 0022)."""

from typing import Final

from coordinator.actors import Actor, ActorKind
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import Outcome, Refusal, invalid
from coordinator.rounds import name_point, run_round
from coordinator.secrets import MAX_NAMED, mask_members
from coordinator.selectors.audit_lines import AuditLinesPage, read_lines

from .events import EventKind, Fact, record
from .reveals import check_why
from .transactions import in_transaction

PART: Final = "audit"


def reveal_lines(*, first: int, limit: int, reason: str, actor: Actor) -> AuditLinesPage | Refusal:
    """A page of the chain as it was sealed. Where something of it is masked elsewhere, that somebody saw it is told.

    The caller has looked that the person may (`administer`, `reveal_secrets`). Refused: INVALID (no
    reason), FORBIDDEN (no person).
    """
    if faults := check_why(reason):
        return invalid(*faults)
    if actor.kind is not ActorKind.OPERATOR:
        return Refusal(Outcome.FORBIDDEN, "Only a person reveals.")
    return _reveal(first, limit, reason, actor)


@in_transaction
def _reveal(first: int, limit: int, reason: str, actor: Actor) -> AuditLinesPage:
    _, clock = run_round(name_point("reveal"), CLOCK)
    page = read_lines(first=first, limit=limit, masked=False)
    seen = [line for line in page.lines if line.data and mask_members(line.data) != line.data]
    if seen:
        told = {
            "part": PART,
            "reason": reason,
            "first": page.lines[0].chain.number,
            "last": page.lines[-1].chain.number,
            "events": [line.id for line in seen[:MAX_NAMED]],
            "count": len(seen),
        }
        fact = Fact(EventKind.SECRET_REVEALED, data=told)
        run_round(record([fact], actor=actor, at=clock_of(clock)))
    return page
