"""Reconciling: finding out what came of a call, and settling its effect by it (contract 8.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from coordinator import digests
from coordinator.actors import Actor, ActorKind
from coordinator.fence import Fence, Point
from coordinator.ids import new_id
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement
from coordinator.seals import Seal, absence_seal, last_arrival
from coordinator.states import LIVE_ATTEMPT, EffectState

from . import evidence, hints
from .effect_hearings import EffectHearing, open_effect
from .events import EventKind
from .settling import settle_waiting
from .transactions import in_transaction

#: A person who asserts an absence says how it is known; fewer characters say nothing.
MIN_STATEMENT_CHARS: Final = 20


class Finding(StrEnum):
    HAPPENED = "HAPPENED"
    NOT_HAPPENED = "NOT_HAPPENED"


class Method(StrEnum):
    QUERY = "query"  # the downstream was asked by the exact effect_id or receipt
    OPERATOR = "operator"  # a person's word
    LATE_RECEIPT = "late_receipt"  # a receipt that a late attempt reported


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found, about how many dispatches, and how it is known."""

    finding: Finding
    dispatches: int
    method: Method
    detail: Any
    lookup_id: UUID | None = None
    receipt: Any = None


@dataclass(frozen=True, slots=True)
class LookUpStarted:
    lookup_id: UUID
    started_at: datetime
    dispatches: int


@dataclass(frozen=True, slots=True)
class Settled:
    state: str
    replayed: bool = False
    outcome: str = "SETTLED"


_INSERT_LOOK_UP: Final = """
INSERT INTO coordinator_lookup (lookup_id, effect_id, dispatches, actor, started_at) VALUES (%s, %s, %s, %s, %s)
"""
#: With what was said against it: its own answer, where the server asked, or that a later one found the effect.
_FIND_LOOK_UP: Final = """
SELECT l.started_at, l.dispatches, EXISTS (
  SELECT FROM coordinator_evidence e WHERE e.effect_id = l.effect_id AND e.kind = 'query'
    AND e.detail ->> 'dispatches' = l.dispatches::text
    AND (e.said = 'HAPPENED' AND e.at >= l.started_at
         OR e.said = 'DONT_KNOW' AND e.detail ->> 'lookup_id' = l.lookup_id::text))
FROM coordinator_lookup l WHERE l.effect_id = %s AND l.lookup_id = %s
"""


@in_transaction
def start_look_up(
    *, effect_id: str, actor: Actor, fence: Fence | None = None
) -> LookUpStarted | Refusal:
    """Stamp the start of a look-up *before* it is made: what it finds counts from here."""
    attempt_id = fence.attempt_id if fence else None
    hearing = open_effect(effect_id, Point.RECONCILE, actor=actor, attempt_id=attempt_id)
    if hearing is None:
        return not_found("effect")
    refusal = _caller_refusal(hearing, fence)
    if refusal is not None:
        hearing.write()
        return refusal
    started = LookUpStarted(new_id(), hearing.clock, hearing.slot.effect.dispatches)
    row = (started.lookup_id, effect_id, started.dispatches, actor.label, started.started_at)
    hearing.write(Statement(_INSERT_LOOK_UP, row))
    return started


def _caller_refusal(hearing: EffectHearing, fence: Fence | None) -> Refusal | None:
    """A worker needs its fence; an operator's permission was checked at the door; the system needs neither."""
    if hearing.actor.kind is not ActorKind.WORKER:
        return None
    if fence is None:
        told = "A worker reconciles under the fence of the attempt that holds the task."
        return hearing.refuse(invalid(FieldError("/fence", told)))
    verdict = hearing.judge(fence, credential_id=hearing.actor.id)
    if verdict is None:
        return not_found("attempt of this effect's task")
    return hearing.refuse(verdict) if isinstance(verdict, Refusal) else None


def reconcile_effect(
    *,
    effect_id: str,
    verdict: Verdict,
    actor: Actor,
    fence: Fence | None = None,
    may_assert_absence: bool = False,
) -> Settled | Refusal:
    """Settle an effect by what was found: HAPPENED → COMMITTED; NOT_HAPPENED by the strength of its seal.

    Refused: STALE_EVIDENCE (another dispatch count than judged), ALREADY_SETTLED (the
    opposite verdict stands), ABSENCE_NOT_SEALED, INVALID. The same verdict again is
    `replayed`. A task that waited for this goes on.
    """
    receipt: str | None = None
    if verdict.finding is Finding.HAPPENED:
        if verdict.receipt is None:
            return invalid(
                FieldError(
                    "/receipt", "HAPPENED needs a receipt: how the downstream names what it did."
                )
            )
        try:
            receipt = digests.canonical(verdict.receipt).decode()
        except digests.NotCanonical as error:
            return invalid(FieldError("/receipt", str(error)))
    answer, woken = _reconcile(
        effect_id, verdict, receipt, actor, fence, may_assert=may_assert_absence
    )
    if woken is not None:
        hints.notify(woken)
    return answer


@in_transaction
def _reconcile(
    effect_id: str,
    verdict: Verdict,
    receipt: str | None,
    actor: Actor,
    fence: Fence | None,
    *,
    may_assert: bool,
) -> tuple[Settled | Refusal, int | None]:
    hearing = open_effect(
        effect_id,
        Point.RECONCILE,
        actor=actor,
        attempt_id=fence.attempt_id if fence else None,
        extra=(Statement(_FIND_LOOK_UP, (effect_id, verdict.lookup_id)),),
    )
    if hearing is None:
        return not_found("effect"), None
    refusal = _caller_refusal(hearing, fence)
    if refusal is not None:
        hearing.write()
        return refusal, None
    answer = _judge(hearing, verdict, receipt, may_assert=may_assert)
    if isinstance(answer, Refusal) or answer.replayed:
        hearing.write(*_kept(hearing, verdict, receipt, counted=isinstance(answer, Settled)))
        return answer, None
    hearing.write(
        *_kept(hearing, verdict, receipt, counted=True),
        *_settle(hearing, verdict, receipt, answer.state),
    )
    went_on = settle_waiting(hearing.task, clock=hearing.clock, actor=actor)
    return answer, hearing.queue.id if went_on else None


def _kept(
    hearing: EffectHearing, verdict: Verdict, receipt: str | None, *, counted: bool
) -> list[Statement]:
    newest = hearing.slot.newest
    return [
        evidence.keep(
            effect_id=hearing.slot.effect.effect_id,
            dispatch_id=newest.dispatch_id if newest else None,
            kind=verdict.method,
            said=verdict.finding,
            actor=hearing.actor,
            at=hearing.clock,
            detail={
                "detail": verdict.detail,
                "receipt": receipt,
                "dispatches": verdict.dispatches,
                "lookup_id": verdict.lookup_id,
                "counted": counted,
            },
        )
    ]


def _judge(
    hearing: EffectHearing, verdict: Verdict, receipt: str | None, *, may_assert: bool
) -> Settled | Refusal:
    effect = hearing.slot.effect
    if verdict.dispatches != effect.dispatches:
        told = f"The effect has {effect.dispatches} dispatches, you judged {verdict.dispatches}; look again."
        return hearing.refuse(_stale(hearing, told))
    if verdict.finding is Finding.HAPPENED:
        return _judge_happened(hearing, receipt)
    return _judge_absent(hearing, verdict, may_assert=may_assert)


def _judge_happened(hearing: EffectHearing, receipt: str | None) -> Settled | Refusal:
    effect = hearing.slot.effect
    if effect.state == EffectState.COMMITTED:
        if effect.receipt == receipt:
            return Settled(effect.state, replayed=True)
        return hearing.refuse(
            _settled_refusal(effect.state, "It is COMMITTED with another receipt.")
        )
    if not effect.may_be_out:
        return hearing.refuse(
            _settled_refusal(effect.state, f"It is {effect.state}: it did not happen.")
        )
    return Settled(EffectState.COMMITTED)


def _judge_absent(
    hearing: EffectHearing, verdict: Verdict, *, may_assert: bool
) -> Settled | Refusal:
    effect, slot = hearing.slot.effect, hearing.slot
    if effect.state in (EffectState.COMMITTED, EffectState.VOID):
        return hearing.refuse(_settled_refusal(effect.state, f"It is {effect.state}."))
    is_known = (
        effect.verdict == Finding.NOT_HAPPENED and effect.verdict_dispatches == verdict.dispatches
    )
    if effect.state == EffectState.PREPARED:
        return Settled(effect.state, replayed=True) if is_known else hearing.refuse(_never_sent())
    if effect.state == EffectState.ACCEPTED:
        return hearing.refuse(
            _not_sealed("The call may be out right now; report it, or wait for its deadline.")
        )
    looked_at = _stamped(hearing, verdict) if verdict.method is Method.QUERY else None
    if isinstance(looked_at, Refusal):
        return looked_at
    seal = absence_seal(effect, slot.dispatches, looked_at=looked_at, clock=hearing.clock)
    if seal is Seal.FINAL:
        return Settled(EffectState.PREPARED)
    if seal is Seal.RESEND:
        already = effect.state == EffectState.RESENDABLE
        return Settled(EffectState.RESENDABLE, replayed=already)
    asserts = may_assert and verdict.method is Method.OPERATOR
    if asserts and not effect.happened_on_file:  # nobody's word stands against a receipt
        return _judge_assertion(hearing, verdict)
    told = (
        "a receipt is on file"
        if effect.happened_on_file
        else f"{effect.guarantee} can't seal it now"
    )
    return hearing.refuse(_not_sealed(f"Its absence can't be sealed: {told}."))


def _stamped(hearing: EffectHearing, verdict: Verdict) -> datetime | Refusal:
    """When somebody began to look: only a stamped look-up that judges these dispatches is evidence.

    One that told nothing seals nothing (contract 8.4), nor does one after which another has found the effect.
    """
    rows = hearing.extra[0]
    if not rows:
        return invalid(
            FieldError(
                "/lookup_id", "Stamp a look-up before you make it: POST /effects/{id}/lookups."
            )
        )
    started_at, dispatches, contradicted = rows[0]
    if dispatches != verdict.dispatches:
        told = "The look-up was stamped before the newest dispatch; make another one."
        return hearing.refuse(_stale(hearing, told))
    if contradicted:
        told = "The look-up told nothing, or a later one has found the effect; look again."
        return hearing.refuse(_stale(hearing, told))
    assert isinstance(started_at, datetime)
    return started_at


def _stale(hearing: EffectHearing, detail: str) -> Refusal:
    effect = hearing.slot.effect
    extra = {"dispatches": effect.dispatches, "state": effect.state}
    return Refusal(Outcome.STALE_EVIDENCE, detail, evidence_recorded=True, extra=extra)


def _judge_assertion(hearing: EffectHearing, verdict: Verdict) -> Settled | Refusal:
    """A person's word that the old process will not wake: once its attempt ended and the call's time has passed.

    What counts is when the person *began to look*, not when it is written down: a call that
    arrived in between would be sent a second time (tests/protocol has the story).
    """
    statement = (
        verdict.detail.get("statement", "")
        if isinstance(verdict.detail, Mapping)
        else str(verdict.detail or "")
    )
    if len(statement.strip()) < MIN_STATEMENT_CHARS:
        told = f"State in at least {MIN_STATEMENT_CHARS} characters how it is known that the old process will not wake."
        return invalid(FieldError("/evidence/detail", told))
    newest = hearing.slot.newest
    holder = hearing.attempts.get(newest.attempt_id) if newest else None
    if holder is not None and holder.state in LIVE_ATTEMPT:
        return hearing.refuse(
            _not_sealed(
                "The attempt that sent it has not ended; let it expire, or cancel the task."
            )
        )
    looked_at = _stamped(hearing, verdict)
    if isinstance(looked_at, Refusal):
        return looked_at
    arrival = last_arrival(hearing.slot.effect, hearing.slot.dispatches)
    if arrival is not None and looked_at <= arrival:
        told = f"A call may still arrive until {arrival.isoformat()}; look again after that."
        return hearing.refuse(_not_sealed(told))
    return Settled(EffectState.PREPARED)


def _settled_refusal(state: str, detail: str) -> Refusal:
    return Refusal(Outcome.ALREADY_SETTLED, detail, evidence_recorded=True, extra={"state": state})


def _never_sent() -> Refusal:
    return _settled_refusal(
        EffectState.PREPARED, "Nothing of it is out: there is nothing to reconcile."
    )


def _not_sealed(detail: str) -> Refusal:
    return Refusal(Outcome.ABSENCE_NOT_SEALED, detail, evidence_recorded=True)


_HAPPENED: Final = """
UPDATE coordinator_effectslot SET state = 'COMMITTED', receipt = %s, settled_at = %s, unknown_since = NULL,
  verdict = 'HAPPENED', verdict_dispatches = dispatches, happened_on_file = true
WHERE effect_id = %s
"""
_HAPPENED_DISPATCH: Final = """
UPDATE coordinator_dispatch d SET outcome = 'COMMITTED' FROM coordinator_effectslot e
WHERE e.effect_id = %s AND d.effect_id = e.effect_id AND d.number = e.dispatches
  AND d.outcome IS DISTINCT FROM 'REFUSED'
"""
_ABSENT: Final = """
UPDATE coordinator_effectslot SET state = %s, unknown_since = CASE WHEN %s = 'RESENDABLE' THEN unknown_since END,
  verdict = 'NOT_HAPPENED', verdict_dispatches = dispatches, needs_approval = needs_approval OR %s
WHERE effect_id = %s
"""
_CLOSE_ALL: Final = """
UPDATE coordinator_dispatch SET closed_at = %s WHERE effect_id = %s AND closed_at IS NULL
  AND outcome IS DISTINCT FROM 'COMMITTED'
"""


def _settle(
    hearing: EffectHearing, verdict: Verdict, receipt: str | None, state: str
) -> list[Statement]:
    effect, clock = hearing.slot.effect, hearing.clock
    told = {"method": verdict.method, "dispatches": verdict.dispatches}
    if state == EffectState.COMMITTED:
        hearing.tell(EventKind.EFFECT_COMMITTED, **told)
        return [
            Statement(_HAPPENED_DISPATCH, (effect.effect_id,)),
            Statement(_HAPPENED, (receipt, clock, effect.effect_id)),
        ]
    final = state == EffectState.PREPARED
    asserted = (
        final
        and verdict.method is Method.OPERATOR
        and any(each.is_open for each in hearing.slot.dispatches)
    )
    hearing.tell(
        EventKind.EFFECT_ABSENT if final else EventKind.EFFECT_RESENDABLE, asserted=asserted, **told
    )
    close = [Statement(_CLOSE_ALL, (clock, effect.effect_id))] if final else []
    return [*close, Statement(_ABSENT, (state, state, asserted, effect.effect_id))]
