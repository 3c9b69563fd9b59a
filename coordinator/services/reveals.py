"""Revealing what is masked: for a reason, on record, and only in the answer itself (console design, 3.7)."""

from dataclasses import dataclass
from typing import Any, Final

from coordinator.actors import Actor, ActorKind
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.secrets import MAX_NAMED, Hidden

from .events import EventKind, Fact, record
from .stored_secrets import Subject, find
from .texts import check_reason
from .transactions import in_transaction

MIN_REASON_CHARS: Final = 10


@dataclass(frozen=True, slots=True)
class Revealed:
    """The stored text as it is, once. `hidden` are the places that are masked elsewhere."""

    part: str
    text: str
    digest: str
    hidden: tuple[Hidden, ...]


def reveal(*, subject: Subject, reason: str, actor: Actor) -> Revealed | Refusal:
    """Answer with the text, and record who has seen which places of it and why; never what stood there.

    The caller has looked that the person may (`reveal_secrets`, `view_payload`). Refused:
    INVALID (no reason, or nothing is masked), FORBIDDEN (no person), NOT_FOUND.
    """
    if faults := check_why(reason):
        return invalid(*faults)
    if actor.kind is not ActorKind.OPERATOR:
        return Refusal(Outcome.FORBIDDEN, "Only a person reveals; a worker is handed it whole.")
    return _reveal(subject, reason, actor)


def check_why(reason: str) -> list[FieldError]:
    """A reason that somebody else can make something of."""
    faults = check_reason(reason)
    if not faults and len(reason.strip()) < MIN_REASON_CHARS:
        faults.append(FieldError("/reason", f"Say why in {MIN_REASON_CHARS} characters or more."))
    return faults


@in_transaction
def _reveal(subject: Subject, reason: str, actor: Actor) -> Revealed | Refusal:
    _, clock = run_round(name_point("reveal"), CLOCK)
    found = find(subject)
    if found is None:
        return not_found(subject.part)
    hidden = found.hidden
    if not hidden:
        return invalid(FieldError("/part", "Nothing of it is masked."))
    told: dict[str, Any] = {
        "part": str(subject.part),
        "reason": reason,
        "digest": found.digest,
        "places": [one.pointer for one in hidden[:MAX_NAMED]],
        "count": len(hidden),
    }
    told |= subject.named()
    fact = Fact(
        EventKind.SECRET_REVEALED,
        queue_id=found.queue_id,
        run_id=found.run_id,
        task_id=found.task_id,
        attempt_id=subject.attempt_id,
        data=told,
    )
    run_round(record([fact], actor=actor, at=clock_of(clock)))
    return Revealed(str(subject.part), found.text, found.digest, hidden)
