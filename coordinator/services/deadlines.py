"""Call deadlines: an ACCEPTED effect past its own becomes UNKNOWN (contract 2, 8)."""

from typing import Final

from coordinator.actors import Actor
from coordinator.fence import Point
from coordinator.rounds import Statement, run_round
from coordinator.states import EffectState

from .effect_hearings import open_effect
from .events import EventKind
from .holds import change_effects
from .transactions import in_transaction

BATCH: Final = 200

_DUE: Final = """
SELECT effect_id FROM coordinator_effectslot WHERE state = 'ACCEPTED' AND call_deadline <= clock_timestamp()
ORDER BY call_deadline LIMIT %s
"""
_NOBODY_KNOWS: Final = """
UPDATE coordinator_dispatch SET outcome = 'UNKNOWN' WHERE dispatch_id = %s AND outcome IS NULL
"""


def pass_deadlines(*, actor: Actor, limit: int = BATCH) -> int:
    """Mark up to `limit` effects UNKNOWN whose call deadline has passed without a report; how many were."""
    return sum(_pass(effect_id, actor) for effect_id in _due(limit))


@in_transaction
def _due(limit: int) -> list[str]:
    (rows,) = run_round(Statement(_DUE, (limit,)))
    return [row[0] for row in rows]


@in_transaction
def _pass(effect_id: str, actor: Actor) -> int:
    hearing = open_effect(effect_id, Point.REPORT, actor=actor)
    if hearing is None:
        return 0
    effect, newest = hearing.slot.effect, hearing.slot.newest
    if (
        effect.state != EffectState.ACCEPTED
        or newest is None
        or newest.call_deadline > hearing.clock
    ):
        return 0  # reported, or accepted anew, since the look
    hearing.tell(
        EventKind.EFFECT_UNKNOWN,
        dispatch_number=newest.number,
        reason="the call deadline has passed",
    )
    hearing.write(
        Statement(_NOBODY_KNOWS, (newest.dispatch_id,)),
        *change_effects([effect._replace(state=EffectState.UNKNOWN)], hearing.clock),
    )
    return 1
