"""Reports: what came of a call, told by who made it or by the gate that let it through (contract 8.3)."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from coordinator import digests
from coordinator.actors import Worker
from coordinator.fence import Call, Fence, Point, TaskRow
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement
from coordinator.seals import DispatchRow, EffectRow
from coordinator.states import DispatchOutcome, EffectState

from . import evidence
from .effect_hearings import open_effect
from .effect_rows import Slot, lock_effect, slots_of
from .events import EventKind, Fact, task_fact
from .hearings import Hearing, open_hearing
from .holds import change_effects, close_dispatches
from .settling import settle_waiting
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Report:
    """What is said of one dispatch. A receipt goes with COMMITTED."""

    dispatch_id: UUID
    outcome: DispatchOutcome
    receipt: Any = None
    etag: str | None = None
    detail: Any = None


@dataclass(frozen=True, slots=True)
class Recorded:
    state: str
    outcome: str = "RECORDED"


@dataclass(frozen=True, slots=True)
class _Told:
    report: Report
    receipt: str | None  # RFC 8785 text


def report_effect(
    *, effect_id: str, fence: Fence, report: Report, worker: Worker
) -> Recorded | Refusal:
    """Record what came of a call. It counts for the slot's newest dispatch, made by the reporting attempt.

    COMMITTED settles the slot; REFUSED (the downstream said that it did not do it) makes it
    PREPARED if no other dispatch is open; UNKNOWN says that nobody knows. A repeat changes
    nothing. From an attempt that is no longer current it is refused and kept as evidence; a
    late COMMITTED receipt moves PREPARED or RESENDABLE to UNKNOWN and bars NOT_HAPPENED.
    """
    told = _checked(report)
    return told if isinstance(told, Refusal) else _report(effect_id, fence, told, worker)


def _checked(report: Report) -> _Told | Refusal:
    if report.outcome is not DispatchOutcome.COMMITTED:
        return _Told(report, None)
    if report.receipt is None:
        return invalid(
            FieldError("/receipt", "COMMITTED needs the receipt that the downstream gave.")
        )
    try:
        return _Told(report, digests.canonical(report.receipt).decode())
    except digests.NotCanonical as error:
        return invalid(FieldError("/receipt", str(error)))


@in_transaction
def _report(effect_id: str, fence: Fence, told: _Told, worker: Worker) -> Recorded | Refusal:
    hearing = open_hearing(
        Point.REPORT, [(fence.attempt_id, fence)], worker=worker, extra=lock_effect(effect_id)
    )
    verdict = hearing.judge(
        Call(Point.REPORT, fence, worker.id), fence.attempt_id, queue=None, usage=None
    )
    is_stranger = isinstance(verdict, Refusal) and verdict.outcome in (
        Outcome.FORBIDDEN,
        Outcome.NOT_FOUND,
    )
    effects, dispatches = hearing.extra
    if is_stranger or not effects or effects[0][1] != fence.task_id:
        hearing.write()
        return verdict if isinstance(verdict, Refusal) else not_found("effect of this task")
    (slot,) = slots_of(effects, dispatches)
    dispatch = next(
        (each for each in slot.dispatches if each.dispatch_id == told.report.dispatch_id), None
    )
    if dispatch is None or dispatch.attempt_id != fence.attempt_id:
        refusal = invalid(
            FieldError("/dispatch_id", "This attempt made no such dispatch of the effect.")
        )
        task, attempt = hearing.tasks[fence.task_id], hearing.attempts[fence.attempt_id]
        hearing.refuse(refusal, fence, task, attempt)
        hearing.write()
        return refusal
    if isinstance(verdict, Refusal):
        return _late(hearing, slot, dispatch, told, verdict)
    return record_outcome(hearing, slot, dispatch, told.report, told.receipt, kind="report")


def record_outcome(
    hearing: Hearing,
    slot: Slot,
    dispatch: DispatchRow,
    report: Report,
    receipt: str | None,
    *,
    kind: str,
) -> Recorded | Refusal:
    """Write a report that counts: the dispatch's outcome and what the slot becomes by it."""
    task = hearing.tasks[slot.effect.task_id]
    kept = _kept(hearing, slot, dispatch, report, receipt, kind=kind, late=False)
    if dispatch is not slot.newest:
        filed = (
            _file_receipt(hearing, slot, dispatch, task)
            if report.outcome is DispatchOutcome.COMMITTED
            else []
        )
        hearing.write(kept, *filed)
        return Refusal(
            Outcome.STALE_EVIDENCE,
            "Another dispatch was made since; what you say is kept as evidence.",
            evidence_recorded=True,
            extra={"state": _with_receipt(slot, filed), "dispatches": slot.effect.dispatches},
        )
    state = _state_after(slot, dispatch, report.outcome)
    if state is None:  # it was settled before, or nothing new was said
        hearing.write(kept)
        return Recorded(slot.effect.state)
    hearing.facts.append(_effect_fact(task, slot.effect, dispatch, state, report))
    hearing.write(
        kept, *_settle_dispatch(hearing, slot, dispatch, state, report=report, receipt=receipt)
    )
    settle_waiting(task, clock=hearing.clock, actor=hearing.worker)
    return Recorded(state)


def _state_after(slot: Slot, dispatch: DispatchRow, outcome: DispatchOutcome) -> EffectState | None:
    """What the slot becomes by a report on its newest dispatch; None where it stays (contract 2, 8.3)."""
    is_settled = dispatch.outcome in (DispatchOutcome.COMMITTED, DispatchOutcome.REFUSED)
    if not slot.effect.may_be_out or is_settled:
        return None
    match outcome:
        case DispatchOutcome.COMMITTED:
            return EffectState.COMMITTED
        case DispatchOutcome.REFUSED:
            others_open = any(each.is_open for each in slot.dispatches if each is not dispatch)
            if others_open or slot.effect.happened_on_file:
                return EffectState.UNKNOWN
            return EffectState.PREPARED
        case _:
            return EffectState.UNKNOWN if slot.effect.state == EffectState.ACCEPTED else None


_SETTLE_DISPATCH: Final = "UPDATE coordinator_dispatch SET outcome = %s WHERE dispatch_id = %s"
_COMMIT_EFFECT: Final = """
UPDATE coordinator_effectslot SET state = 'COMMITTED', receipt = %s, etag = coalesce(%s, etag), settled_at = %s,
  unknown_since = NULL
WHERE effect_id = %s
"""


def _settle_dispatch(
    hearing: Hearing,
    slot: Slot,
    dispatch: DispatchRow,
    state: EffectState,
    *,
    report: Report,
    receipt: str | None,
) -> list[Statement]:
    """The statements for a dispatch whose outcome is known now, and its slot."""
    statements = [Statement(_SETTLE_DISPATCH, (report.outcome, dispatch.dispatch_id))]
    if report.outcome is DispatchOutcome.REFUSED:
        statements += close_dispatches([dispatch], hearing.clock)
    if state == EffectState.COMMITTED:
        settled = (receipt, report.etag, hearing.clock, slot.effect.effect_id)
        return [*statements, Statement(_COMMIT_EFFECT, settled)]
    if state == slot.effect.state:
        return statements
    return [*statements, *change_effects([slot.effect._replace(state=state)], hearing.clock)]


_KINDS: Final = {
    EffectState.COMMITTED: EventKind.EFFECT_COMMITTED,
    EffectState.UNKNOWN: EventKind.EFFECT_UNKNOWN,
    EffectState.PREPARED: EventKind.EFFECT_REFUSED,
}


def _effect_fact(
    task: TaskRow, effect: EffectRow, dispatch: DispatchRow, state: EffectState, report: Report
) -> Fact:
    return task_fact(
        _KINDS[state],
        task,
        changed=False,
        attempt_id=dispatch.attempt_id,
        effect_id=effect.effect_id,
        slot=effect.slot,
        dispatch_number=dispatch.number,
        reported=report.outcome,
    )


def _kept(
    hearing: Hearing,
    slot: Slot,
    dispatch: DispatchRow,
    report: Report,
    receipt: str | None,
    *,
    kind: str,
    late: bool,
) -> Statement:
    return evidence.keep(
        effect_id=slot.effect.effect_id,
        dispatch_id=dispatch.dispatch_id,
        kind=kind,
        said=report.outcome,
        late=late,
        actor=hearing.worker,
        at=hearing.clock,
        detail={"receipt": receipt, "etag": report.etag, "detail": report.detail},
    )


_RECEIPT_ON_FILE: Final = """
UPDATE coordinator_effectslot SET happened_on_file = true,
  state = CASE WHEN state IN ('PREPARED', 'RESENDABLE') THEN 'UNKNOWN' ELSE state END,
  unknown_since = CASE WHEN state IN ('PREPARED', 'RESENDABLE') THEN %s ELSE unknown_since END
WHERE effect_id = %s AND state NOT IN ('COMMITTED', 'VOID')
"""
_SUSPECT: Final = (
    "UPDATE coordinator_effectslot SET duplicate_suspected = true WHERE effect_id = %s"
)


def _late(
    hearing: Hearing, slot: Slot, dispatch: DispatchRow, told: _Told, verdict: Refusal
) -> Refusal:
    """Keep what a late attempt says; a receipt is the one thing that may still move the slot."""
    task, effect = hearing.tasks[slot.effect.task_id], slot.effect
    statements = [
        _kept(hearing, slot, dispatch, told.report, told.receipt, kind="late_report", late=True)
    ]
    hearing.facts.append(
        task_fact(
            EventKind.EVIDENCE_RECORDED,
            task,
            changed=False,
            attempt_id=dispatch.attempt_id,
            effect_id=effect.effect_id,
            slot=effect.slot,
            said=told.report.outcome,
        )
    )
    if told.report.outcome is DispatchOutcome.COMMITTED:
        statements += _file_receipt(hearing, slot, dispatch, task)
    hearing.write(*statements)
    return verdict


def _file_receipt(
    hearing: Hearing, slot: Slot, dispatch: DispatchRow, task: TaskRow
) -> list[Statement]:
    """A receipt that settles nothing by itself bars every absence, and the next send."""
    effect = slot.effect
    if effect.state in (EffectState.PREPARED, EffectState.RESENDABLE):
        hearing.facts.append(_receipt_fact(task, effect, dispatch))
    suspected = [] if dispatch is slot.newest else _suspect(hearing, slot, dispatch, task)
    return [Statement(_RECEIPT_ON_FILE, (hearing.clock, effect.effect_id)), *suspected]


def _with_receipt(slot: Slot, filed: list[Statement]) -> str:
    """The slot's state once `filed` is written."""
    moves = filed and slot.effect.state in (EffectState.PREPARED, EffectState.RESENDABLE)
    return EffectState.UNKNOWN if moves else slot.effect.state


def _receipt_fact(task: TaskRow, effect: EffectRow, dispatch: DispatchRow) -> Fact:
    return task_fact(
        EventKind.EFFECT_UNKNOWN,
        task,
        changed=False,
        attempt_id=dispatch.attempt_id,
        effect_id=effect.effect_id,
        slot=effect.slot,
        reason="a receipt turned up late",
    )


def _suspect(hearing: Hearing, slot: Slot, dispatch: DispatchRow, task: TaskRow) -> list[Statement]:
    """A receipt of an older dispatch after another was made: two calls seem to have happened."""
    hearing.facts.append(
        task_fact(
            EventKind.ALARM,
            task,
            changed=False,
            attempt_id=dispatch.attempt_id,
            alarm="DUPLICATE_SUSPECTED",
            effect_id=slot.effect.effect_id,
            slot=slot.effect.slot,
        )
    )
    return [Statement(_SUSPECT, (slot.effect.effect_id,))]


# --- by the gate ------------------------------------------------------------------------------


def report_by_gate(
    *, effect_id: str, redeem_id: str, report: Report, gate: Worker
) -> Recorded | Refusal:
    """The gate tells what came of the dispatch that it redeemed (contract 8.5); as good as its worker's word."""
    told = _checked(report)
    return told if isinstance(told, Refusal) else _report_by_gate(effect_id, redeem_id, told, gate)


@in_transaction
def _report_by_gate(
    effect_id: str, redeem_id: str, told: _Told, gate: Worker
) -> Recorded | Refusal:
    # The guard passed the call when it was redeemed; what came of it counts whoever holds the task by now.
    found = open_effect(effect_id, Point.REPORT, actor=gate, act="report_by_gate")
    if found is None or not gate.reaches(found.queue.name):
        return not_found("effect")
    slot = found.slot
    dispatch = next(
        (each for each in slot.dispatches if each.dispatch_id == told.report.dispatch_id), None
    )
    if dispatch is None or (dispatch.redeem_id, dispatch.redeemed_by) != (redeem_id, gate.id):
        refusal = found.refuse(
            invalid(FieldError("/redeem_id", "You redeemed no dispatch of this effect under it."))
        )
        found.write()
        return refusal
    hearing = Hearing(
        point=Point.REPORT,
        worker=gate,
        tasks={found.task.task_id: found.task},
        attempts=found.attempts,
        queues={found.queue.id: found.queue},
        clock=found.clock,
        extra=[],
    )
    return record_outcome(hearing, slot, dispatch, told.report, told.receipt, kind="gate")
