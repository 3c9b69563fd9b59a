"""A person has a downstream asked about one effect, or notes that nobody knows yet (contract 8.4).

Neither settles anything: what was said is evidence, and a person decides by it on a page of its own.
No transaction is open while a downstream is asked.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.fence import Point
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement
from coordinator.selectors.effects import find_effect
from coordinator.states import EffectState
from tenure.downstreams.base import Adapter, Bound, DontKnow, Found

from . import evidence
from .effect_hearings import EffectHearing, open_effect
from .events import EventKind
from .heard import DONT_KNOW, hear
from .reconciliation import Method, start_look_up
from .texts import MAX_REASON_CHARS
from .transactions import in_transaction

ASK_SECONDS: Final = 10.0
MIN_CHECK_MINUTES: Final = 1
MAX_CHECK_MINUTES: Final = 30 * 24 * 60


@dataclass(frozen=True, slots=True)
class Answered:
    """What the downstream said, under a look-up that was stamped before it was asked."""

    lookup_id: UUID
    started_at: datetime
    dispatches: int
    said: str
    detail: str
    receipt: Any
    milliseconds: int
    digest: str


@dataclass(frozen=True, slots=True)
class Noted:
    """Nobody knows yet: who said so, and when somebody looks again."""

    effect_id: str
    state: str
    next_check_at: datetime


def ask_downstream(*, effect_id: str, adapter: Adapter, actor: Actor) -> Answered | Refusal:
    """Stamp a look-up, ask within ASK_SECONDS by the exact effect_id, and keep what was said.

    In any state of it: what is settled may be looked at again. Refused: NOT_FOUND.
    """
    effect = find_effect(effect_id)
    if effect is None:
        return not_found("effect")
    started = start_look_up(effect_id=effect_id, actor=actor)
    if isinstance(started, Refusal):
        return started
    bound = Bound(
        effect_id=effect_id,
        payload=orjson.loads(effect.payload),
        payload_digest=effect.payload_digest,
        condition=None if effect.condition is None else orjson.loads(effect.condition),
    )
    begun = time.monotonic()
    heard = hear(_look(adapter, bound))
    answer = Answered(
        lookup_id=started.lookup_id,
        started_at=started.started_at,
        dispatches=started.dispatches,
        said=heard.said,
        detail=heard.detail,
        receipt=heard.receipt,
        milliseconds=round((time.monotonic() - begun) * 1000),
        digest=heard.digest,
    )
    return _keep(effect_id, answer, actor) or answer


def _look(adapter: Adapter, bound: Bound) -> Found:
    try:
        return adapter.look_up(bound, deadline=time.monotonic() + ASK_SECONDS)
    except Exception as error:  # noqa: BLE001 (whatever an operator's adapter raises, it has told nothing)
        return DontKnow(detail=f"the look-up failed: {type(error).__name__}")


@in_transaction
def _keep(effect_id: str, answer: Answered, actor: Actor) -> Refusal | None:
    hearing = open_effect(effect_id, Point.RECONCILE, actor=actor)
    if hearing is None:
        return not_found("effect")
    told = {
        "lookup_id": answer.lookup_id,
        "dispatches": answer.dispatches,
        "detail": answer.detail,
        "receipt": answer.receipt,
        "milliseconds": answer.milliseconds,
        "digest": answer.digest,
        "counted": False,
    }
    hearing.tell(
        EventKind.EVIDENCE_RECORDED,
        said=answer.said,
        lookup_id=str(answer.lookup_id),
        milliseconds=answer.milliseconds,
        digest=answer.digest,
    )
    hearing.write(_evidence(hearing, Method.QUERY, answer.said, told))
    return None


_NEXT_CHECK: Final = (
    "UPDATE coordinator_effectslot SET probes = 0, probe_after = %s WHERE effect_id = %s"
)


@in_transaction
def note_unknown(
    *, effect_id: str, dispatches: int, note: str, check_in_minutes: int, actor: Actor
) -> Noted | Refusal:
    """Keep a person's note that the outcome is still unknown, with the time of the next check.

    The coordinator's own look-ups begin afresh then. Refused: INVALID, NOT_FOUND, STALE_EVIDENCE
    (another dispatch count than seen), ALREADY_SETTLED.
    """
    if not note.strip() or len(note) > MAX_REASON_CHARS:
        return invalid(FieldError("/note", "Say what you know, and what is being done."))
    if not MIN_CHECK_MINUTES <= check_in_minutes <= MAX_CHECK_MINUTES:
        told = f"{MIN_CHECK_MINUTES} to {MAX_CHECK_MINUTES} minutes."
        return invalid(FieldError("/check_in_minutes", told))
    hearing = open_effect(effect_id, Point.RECONCILE, actor=actor)
    if hearing is None:
        return not_found("effect")
    refusal = _not_open(hearing, dispatches)
    if refusal is not None:
        hearing.write()
        return refusal
    at = hearing.clock + timedelta(minutes=check_in_minutes)
    told_more = {"detail": note, "next_check_at": at, "dispatches": dispatches, "counted": False}
    hearing.tell(EventKind.EVIDENCE_RECORDED, said=DONT_KNOW, note=note, next_check_at=str(at))
    hearing.write(
        _evidence(hearing, Method.OPERATOR, DONT_KNOW, told_more),
        Statement(_NEXT_CHECK, (at, effect_id)),
    )
    return Noted(effect_id, hearing.slot.effect.state, at)


def _not_open(hearing: EffectHearing, dispatches: int) -> Refusal | None:
    effect = hearing.slot.effect
    if effect.dispatches != dispatches:
        told = (
            f"The effect has {effect.dispatches} dispatches, you judged {dispatches}; look again."
        )
        extra = {"dispatches": effect.dispatches, "state": effect.state}
        return hearing.refuse(Refusal(Outcome.STALE_EVIDENCE, told, extra=extra))
    if effect.state not in (EffectState.UNKNOWN, EffectState.RESENDABLE):
        told = f"It is {effect.state}: its outcome is not open."
        return hearing.refuse(Refusal(Outcome.ALREADY_SETTLED, told, extra={"state": effect.state}))
    return None


def _evidence(hearing: EffectHearing, kind: Method, said: str, detail: Any) -> Statement:
    newest = hearing.slot.newest
    return evidence.keep(
        effect_id=hearing.slot.effect.effect_id,
        dispatch_id=newest.dispatch_id if newest else None,
        kind=kind,
        said=said,
        actor=hearing.actor,
        at=hearing.clock,
        detail=detail,
    )
