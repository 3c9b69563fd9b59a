"""The coordinator's own look-ups: it asks the downstreams that can be asked, with patience (contract 8.4).

No transaction is open while a downstream is asked. What was found is evidence whether or not it
settles anything; a failed look-up, or "don't know", settles nothing and is tried again later.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson

from coordinator.actors import Actor
from coordinator.fence import Point
from coordinator.outcomes import Refusal
from coordinator.rounds import Statement, run_round
from tenure.downstreams.base import Adapter, Bound, DontKnow, Found

from . import evidence
from .effect_hearings import open_effect
from .heard import DONT_KNOW, hear
from .reconciliation import (
    Finding,
    Method,
    Settled,
    Verdict,
    reconcile_effect,
    start_look_up,
)
from .transactions import in_transaction

BATCH: Final = 20
ASK_SECONDS: Final = 10.0
#: After so many look-ups in vain a person must decide; the effect stays on the list.
MAX_PROBES: Final = 12
FIRST_PAUSE_SECONDS: Final = 15
MAX_PAUSE_SECONDS: Final = 3_600

_DUE: Final = """
SELECT e.effect_id, e.downstream, e.payload, e.payload_digest, e.condition FROM coordinator_effectslot e
JOIN coordinator_task t ON t.task_id = e.task_id
WHERE e.state = 'UNKNOWN' AND e.downstream = ANY(%s::text[]) AND e.probes < %s AND t.state <> 'CLAIMED'
  AND (e.probe_after IS NULL OR e.probe_after <= clock_timestamp())
ORDER BY e.unknown_since LIMIT %s
"""
_LATER: Final = """
UPDATE coordinator_effectslot SET probes = probes + 1,
  probe_after = clock_timestamp() + make_interval(secs => least(%s::float8 * 2 ^ probes, %s::float8))
WHERE effect_id = %s
"""


@dataclass(frozen=True, slots=True)
class _Due:
    adapter: Adapter
    bound: Bound


def look_up_effects(*, adapters: Mapping[str, Adapter], actor: Actor, limit: int = BATCH) -> int:
    """Ask about up to `limit` UNKNOWN effects that nobody holds; how many were settled.

    `adapters` are those that an operator registered, by downstream. Bounded in number, in
    seconds a question, and in how often one effect is asked about; the pauses double.
    """
    askable = {name: adapter for name, adapter in adapters.items() if adapter.can_be_asked}
    return sum(_ask(due, actor) for due in _due(askable, limit)) if askable else 0


@in_transaction
def _due(adapters: Mapping[str, Adapter], limit: int) -> list[_Due]:
    (rows,) = run_round(Statement(_DUE, (sorted(adapters), MAX_PROBES, limit)))
    return [
        _Due(
            adapters[downstream],
            Bound(
                effect_id=effect_id,
                payload=orjson.loads(payload),
                payload_digest=digest,
                condition=None if condition is None else orjson.loads(condition),
            ),
        )
        for effect_id, downstream, payload, digest, condition in rows
    ]


def _ask(due: _Due, actor: Actor) -> bool:
    """One look-up: stamped, made, and reconciled by what it found; whether it settled the effect."""
    effect_id = due.bound.effect_id
    started = start_look_up(effect_id=effect_id, actor=actor)
    if isinstance(started, Refusal):
        return False
    heard = hear(_look(due))
    if not heard.settles:
        stamp = {"lookup_id": started.lookup_id, "dispatches": started.dispatches}
        _put_off(effect_id, actor, heard.said, {"detail": heard.detail, **stamp})
        return False
    verdict = Verdict(
        finding=Finding(heard.said),
        dispatches=started.dispatches,
        method=Method.QUERY,
        detail=heard.detail or None,
        lookup_id=started.lookup_id,
        receipt=heard.receipt,
    )
    answer = reconcile_effect(effect_id=effect_id, verdict=verdict, actor=actor)
    if isinstance(answer, Settled):
        return True
    # Not against its stamp: it did tell something, and a person may still settle by it.
    _put_off(effect_id, actor, DONT_KNOW, {"detail": answer.detail})
    return False


def _look(due: _Due) -> Found:
    try:
        found: Found = due.adapter.look_up(due.bound, deadline=time.monotonic() + ASK_SECONDS)
    except Exception as error:  # noqa: BLE001 (whatever an operator's adapter raises, it has told nothing)
        return DontKnow(detail=f"the look-up failed: {type(error).__name__}")
    return found


@in_transaction
def _put_off(effect_id: str, actor: Actor, said: str, told: Mapping[str, Any]) -> None:
    """Keep what was learned, and ask again after a pause that doubles."""
    hearing = open_effect(effect_id, Point.RECONCILE, actor=actor)
    if hearing is None:
        return
    newest = hearing.slot.newest
    hearing.write(
        evidence.keep(
            effect_id=effect_id,
            dispatch_id=newest.dispatch_id if newest else None,
            kind=Method.QUERY,
            said=said,
            actor=actor,
            at=hearing.clock,
            detail={**told, "counted": False},
        ),
        Statement(_LATER, (FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS, effect_id)),
    )
