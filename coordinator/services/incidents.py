"""Incidents begin and end: intake stopped at once, opened again at the last step or called off (contract 12)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gates_of
from coordinator.ids import new_id
from coordinator.models import Incident, IncidentQueue, Queue
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.selectors.canaries import was_held
from coordinator.states import IncidentState, Intake

from . import answers, hints, locking
from .answers import RequestKey
from .events import EventKind, Fact, record, refusal_fact
from .identity import held, hold_of
from .incident_hearings import (
    Asked,
    IncidentHearing,
    StepTaken,
    keep_step,
    not_a_person,
    open_incident_hearing,
    queues_after,
    reason_faults,
    receipt_of,
)
from .locking import QueueRow
from .transactions import in_transaction

#: The gates of all queues of an incident are held at once.
MAX_QUEUES: Final = 1_000


def open_incident(
    *,
    queues: Sequence[str] | None,
    reason: str,
    actor: Actor,
    request: RequestKey | None = None,
) -> StepTaken | Refusal:
    """Open an incident over these queues, or over all (`None`), and stop their intake at once.

    From its return on no claim and no acceptance is granted there; renew, report, redeem and
    commit go on. INCIDENT_OPEN where a queue has one already. The same request again gets the
    same receipt, `replayed`.
    """
    refusal = not_a_person(actor) or reason_faults(reason, needed=True)
    if refusal is not None:
        return refusal
    wanted = None if queues is None else sorted(set(queues))
    if wanted is not None and not 1 <= len(wanted) <= MAX_QUEUES:
        told = f"Name one to {MAX_QUEUES} queues; for every queue send `all`."
        return invalid(FieldError("/queues", told))
    return _open(wanted, reason, actor, request)


@in_transaction
def _open(
    wanted: list[str] | None, reason: str, actor: Actor, request: RequestKey | None
) -> StepTaken | Refusal:
    condition, params = _those(wanted)
    _, gated, stored, found, clock_rows = run_round(
        name_point("incident"),
        queue_gates_of(condition, *params),
        answers.look_up(request) if request else _NOTHING,
        locking.read_queues_where(f"q.{condition}", *params),
        CLOCK,
    )
    known = answers.stored_answer(request, stored) if request else None
    if known is not None:
        return known if isinstance(known, Refusal) else replace(receipt_of(known), replayed=True)
    ids = {row[0] for row in gated}
    rows = [QueueRow._make(each) for each in found if each[0] in ids]
    clock = clock_of(clock_rows)
    refusal = _unknown(wanted, rows) or _held_already(rows)
    if refusal is not None:
        if refusal.outcome is Outcome.INCIDENT_OPEN:
            told = refusal_fact(
                refusal, point="incident.open", subject=f"{actor.label}:{refusal.extra}", task=None
            )
            run_round(record([told], actor=actor, at=clock))
        return refusal
    incident = Incident(
        incident_id=new_id(),
        covers_all=wanted is None,
        reason=reason,
        opened_by=actor.label,
        opened_by_id=actor.id,
        opened_at=clock,
    )
    return _stop(incident, rows, actor, request)


def _stop(
    incident: Incident, rows: Sequence[QueueRow], actor: Actor, request: RequestKey | None
) -> StepTaken:
    incident.save(force_insert=True)
    IncidentQueue.objects.bulk_create(
        IncidentQueue(
            incident=incident,
            queue_id=row.id,
            intake_before=row.intake,
            pool_before=row.active_pool,
        )
        for row in rows
    )
    Queue.objects.filter(id__in=[row.id for row in rows]).update(intake=Intake.STOPPED)
    receipt = StepTaken(
        incident_id=incident.incident_id,
        step=IncidentState.STOPPED,
        state=IncidentState.STOPPED,
        version=1,
        by=actor.label,
        at=incident.opened_at,
        reason=incident.reason,
        queues=queues_after([row._replace(intake=Intake.STOPPED) for row in rows]),
    )
    keep_step(receipt, actor)
    told: dict[str, Any] = {"incident_id": str(incident.incident_id), "reason": incident.reason}
    names = {"queues": [row.name for row in rows], "all": incident.covers_all}
    facts = [
        Fact(EventKind.INCIDENT_OPENED, data=told | names),
        *(
            Fact(EventKind.INTAKE_STOPPED, queue_id=row.id, data=told)
            for row in rows
            if row.intake != Intake.STOPPED
        ),
    ]
    kept = [answers.store(request, orjson.dumps(receipt).decode())] if request else []
    run_round(record(facts, actor=actor, at=incident.opened_at), *kept)
    return receipt


def _those(wanted: list[str] | None) -> tuple[str, tuple[Any, ...]]:
    return ("id IS NOT NULL", ()) if wanted is None else ("name = ANY(%s::text[])", (wanted,))


def _unknown(wanted: list[str] | None, rows: Sequence[QueueRow]) -> Refusal | None:
    if wanted is None:
        if not rows:
            return invalid(FieldError("/all", "There is no queue yet."))
        if len(rows) > MAX_QUEUES:
            told = f"There are {len(rows)} queues; an incident holds {MAX_QUEUES}. Name them."
            return invalid(FieldError("/all", told))
        return None
    missing = sorted(set(wanted) - {row.name for row in rows})
    if not missing:
        return None
    pointer = "/queue" if len(wanted) == 1 else "/queues"
    told = ", ".join(f"`{name}`" for name in missing[:20])
    return invalid(FieldError(pointer, f"There is no queue {told}."))


def _held_already(rows: Sequence[QueueRow]) -> Refusal | None:
    held = {row.name: str(row.incident_id) for row in rows if row.incident_id is not None}
    if not held:
        return None
    first = next(iter(held))
    return Refusal(
        Outcome.INCIDENT_OPEN,
        f"Queue `{first}` has an open incident already; go on with that one.",
        evidence_recorded=True,
        extra={"incident_id": held[first], "incidents": held},
    )


def resume_intake(
    *,
    incident_id: UUID,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
) -> StepTaken | Refusal:
    """SWITCHED → CLOSED: open the intake of the incident's queues. Its repeat gets the same receipt.

    A part of it can be let in before: `canaries.let_in`. Where the watch has held that, a reason
    is asked for (INVALID).
    Refused: WRONG_STEP before the switch, STATE_VERSION_MISMATCH, NOT_FOUND, INTAKE_STOPPED while the database may
    not be the one that it says it is.
    """
    return _end(Asked("resume", incident_id, actor, reason, expected_version), IncidentState.CLOSED)


def abort_incident(
    *, incident_id: UUID, reason: str, actor: Actor, expected_version: int | None = None
) -> StepTaken | Refusal:
    """STOPPED → ABORTED: call it off and put each queue's intake back as it was. Its repeat gets the same receipt.

    Refused: WRONG_STEP once the epoch has been raised, STATE_VERSION_MISMATCH, NOT_FOUND, INTAKE_STOPPED as above.
    """
    return _end(Asked("abort", incident_id, actor, reason, expected_version), IncidentState.ABORTED)


def _end(asked: Asked, state: IncidentState) -> StepTaken | Refusal:
    refusal = asked.faults(needs_reason=state == IncidentState.ABORTED)
    if refusal is not None:
        return refusal
    answer, opened = _end_now(asked, state)
    for queue_id in opened:
        hints.notify(queue_id)
    return answer


@in_transaction
def _end_now(asked: Asked, state: IncidentState) -> tuple[StepTaken | Refusal, list[int]]:
    """The answer, and the queues whose intake this call has opened."""
    hearing = open_incident_hearing(asked)
    if hearing is None:
        return not_found("incident"), []
    done = hearing.steps.get(state)
    if done is not None:
        return replace(done, replayed=True), []
    refusal = hearing.not_now(state) or _past_a_hold(hearing, state)
    if refusal is not None:
        return hearing.refuse(refusal), []
    opened = _opened_by(hearing, state)
    hold = hold_of(hearing.queues[0])
    if opened and hold:
        return hearing.refuse(held(hold)), []
    hearing.advance(state)
    IncidentQueue.objects.filter(incident_id=asked.incident_id).update(is_open=False)
    Queue.objects.filter(id__in=opened).update(intake=Intake.OPEN, intake_share=0)
    after = [
        row._replace(intake=Intake.OPEN, intake_share=0) if row.id in opened else row
        for row in hearing.queues
    ]
    receipt = hearing.keep(hearing.receipt(queues=queues_after(after)))
    ended = state == IncidentState.CLOSED
    hearing.tell(
        EventKind.INCIDENT_CLOSED if ended else EventKind.INCIDENT_ABORTED, reason=asked.reason
    )
    for queue_id in opened:
        hearing.tell(EventKind.INTAKE_OPENED, queue_id=queue_id, reason=asked.reason)
    hearing.write()
    return receipt, opened


def _past_a_hold(hearing: IncidentHearing, state: IncidentState) -> Refusal | None:
    """Everything is let in although too much of a part was fenced: that needs a reason."""
    if state != IncidentState.CLOSED or not was_held(hearing.row.incident_id):
        return None
    return reason_faults(hearing.asked.reason, needed=True)


def _opened_by(hearing: IncidentHearing, state: IncidentState) -> list[int]:
    """A resumed incident opens every queue; one that is called off, those that were open before."""
    lanes = IncidentQueue.objects.filter(incident_id=hearing.row.incident_id)
    if state == IncidentState.ABORTED:
        lanes = lanes.filter(intake_before=Intake.OPEN)
    return sorted(lanes.values_list("queue_id", flat=True))


_NOTHING: Final = Statement("SELECT 1 WHERE false")
