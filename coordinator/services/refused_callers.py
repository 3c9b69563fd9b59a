"""Refusals at the door: a caller that may not do what it asked for (contract 3, 15)."""

from typing import Final

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.outcomes import Refusal
from coordinator.rounds import name_point, run_round

from .events import record, refusal_fact
from .transactions import in_transaction

#: So much of what was asked for is kept; it is the caller's own writing.
MAX_TARGET_CHARS: Final = 200


@in_transaction
def record_forbidden(*, refusal: Refusal, operation: str, target: str, actor: Actor) -> None:
    """Record who was refused which operation, on what it was tried first.

    Equal repeats are only counted: one event a caller and operation, whatever they try it on.
    """
    _, clock = run_round(name_point("forbidden"), CLOCK)
    fact = refusal_fact(
        refusal,
        point=operation,
        subject=actor.label,
        task=None,
        target=target[:MAX_TARGET_CHARS].replace("\0", ""),
    )
    run_round(record([fact], actor=actor, at=clock_of(clock)))
