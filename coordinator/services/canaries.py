"""The canary of an incident: a part of the intake first, held by the watch where it fares badly (contract 12).

The intake stays STOPPED meanwhile; `Queue.intake_share` says how much is let in anyway. A claim
reads the queue's row as it is, so that a queue without a canary pays nothing.
"""

from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.intake_shares import WHOLE
from coordinator.models import Incident, IncidentCanary, IncidentQueue, Queue
from coordinator.outcomes import FieldError, Refusal, invalid, not_found
from coordinator.selectors.canaries import CanaryPulse, read_pulse, was_held
from coordinator.states import IncidentState

from . import hints
from .events import EventKind
from .identity import held, hold_of
from .incident_hearings import (
    Asked,
    IncidentHearing,
    StepTaken,
    open_incident_hearing,
    queues_after,
    reason_faults,
    receipt_of,
)
from .transactions import in_transaction

#: A look of the watch goes over so many incidents with a canary.
MAX_WATCHED: Final = 100
STEP: Final = "CANARY"


def let_in(
    *,
    incident_id: UUID,
    percent: int,
    expected_version: int | None,
    actor: Actor,
    reason: str = "",
) -> StepTaken | Refusal:
    """Let `percent` (0 to 99) of the tasks in; the incident stays SWITCHED, its intake STOPPED. 0 stops that again.

    Always the same tasks, and more of them when the part grows (intake_shares). After a hold of
    the watch a reason is asked for. The same call again, at the version that it was made at, gets
    the same receipt. Refused: INVALID, WRONG_STEP before the switch and after the end,
    STATE_VERSION_MISMATCH, NOT_FOUND, INTAKE_STOPPED while the database may not be the one that it
    says it is.
    """
    asked = Asked("resume", incident_id, actor, reason, expected_version)
    refusal = asked.faults(needs_reason=False) or _faults(percent, expected_version)
    if refusal is not None:
        return refusal
    answer, queue_ids = _let_in(asked, percent)
    for queue_id in queue_ids:
        hints.notify(queue_id)
    return answer


def _faults(percent: int, expected_version: int | None) -> Refusal | None:
    faults = []
    if not 0 <= percent < WHOLE:
        told = "From 0 to 99; the whole intake is opened by the end of the incident."
        faults.append(FieldError("/percent", told))
    if expected_version is None:
        # A lost answer is asked for again: without it, that could open what the watch has held since.
        told = "Send the incident's version that you saw; a part of the intake is bound to it."
        faults.append(FieldError("/expected_version", told))
    return invalid(*faults) if faults else None


@in_transaction
def _let_in(asked: Asked, percent: int) -> tuple[StepTaken | Refusal, list[int]]:
    """The answer, and the queues that this call has let more into."""
    hearing = open_incident_hearing(asked)
    if hearing is None:
        return not_found("incident"), []
    before = _taken(asked, percent)
    if before is not None:
        return replace(before, replayed=True), []
    refusal = _not_now(hearing, percent)
    if refusal is not None:
        return hearing.refuse(refusal), []
    ids = [row.id for row in hearing.queues]
    return _write(hearing, percent), ids if percent else []


def _taken(asked: Asked, percent: int) -> StepTaken | None:
    """The receipt of this very call."""
    assert asked.expected_version is not None, "looked at before anything was locked"
    row = IncidentCanary.objects.filter(
        incident_id=asked.incident_id,
        version=asked.expected_version + 1,
        share=percent,
        actor=asked.actor.label,
        fenced=None,
    ).first()
    return receipt_of(orjson.dumps(row.receipt).decode()) if row else None


def _not_now(hearing: IncidentHearing, percent: int) -> Refusal | None:
    refusal = hearing.not_now(IncidentState.CLOSED)
    if refusal is not None or not percent:
        return refusal
    hold = hold_of(hearing.queues[0])
    if hold:
        return held(hold)
    after_hold = was_held(hearing.row.incident_id)
    return reason_faults(hearing.asked.reason, needed=after_hold)


def _write(hearing: IncidentHearing, percent: int, pulse: CanaryPulse | None = None) -> StepTaken:
    was = hearing.queues[0].intake_share
    version = hearing.row.version + 1
    Incident.objects.filter(incident_id=hearing.row.incident_id).update(version=version)
    hearing.row = hearing.row._replace(version=version)
    Queue.objects.filter(id__in=[row.id for row in hearing.queues]).update(intake_share=percent)
    after = [row._replace(intake_share=percent) for row in hearing.queues]
    receipt = replace(hearing.receipt(queues=queues_after(after), share=percent), step=STEP)
    IncidentCanary.objects.create(
        incident_id=hearing.row.incident_id,
        version=version,
        share=percent,
        actor=hearing.asked.actor.label,
        address=hearing.asked.actor.address,
        request_id=hearing.asked.actor.request_id,
        reason=hearing.asked.reason,
        at=hearing.clock,
        commits=pulse.commits if pulse else None,
        fenced=pulse.fenced if pulse else None,
        receipt=orjson.loads(orjson.dumps(receipt)),
    )
    _tell(hearing, was, percent, pulse)
    return receipt


def _tell(hearing: IncidentHearing, was: int, percent: int, pulse: CanaryPulse | None) -> None:
    told: dict[str, Any] = {
        "before": {"share": was},
        "after": {"share": percent},
        "reason": hearing.asked.reason,
    }
    if pulse is None:
        hearing.tell(EventKind.CANARY_SET, **told)
    else:
        seen = {"commits": pulse.commits, "fenced": pulse.fenced}
        hearing.tell(EventKind.CANARY_HELD, **told, **seen)
        hearing.tell(EventKind.ALARM, alarm="CANARY_HELD", reason=hearing.asked.reason, **seen)
    hearing.write()


# --- the watch ----------------------------------------------------------------------------------


def watch_canaries(*, actor: Actor) -> int:
    """Hold each canary of which too many commits were fenced; how many were held. Each second.

    Without a canary this is one look at the small table of queues.
    """
    queue_ids = Queue.objects.filter(intake_share__gt=0).values_list("id", flat=True)
    lanes = IncidentQueue.objects.filter(is_open=True, queue_id__in=list(queue_ids[:MAX_WATCHED]))
    watched = sorted(set(lanes.values_list("incident_id", flat=True)))
    return sum(_look(incident_id, actor) for incident_id in watched)


def _look(incident_id: UUID, actor: Actor) -> bool:
    """Measured without a lock; what was measured is held only if nobody has said another word since."""
    newest = IncidentCanary.objects.filter(incident_id=incident_id).order_by("-id").first()
    if newest is None or not newest.share:
        return False
    lanes = IncidentQueue.objects.filter(incident_id=incident_id)
    pulse = read_pulse(newest.at, list(lanes.values_list("queue_id", flat=True)))
    return pulse.is_bad and _hold(_asked(incident_id, newest.version, actor, pulse), pulse)


def _asked(incident_id: UUID, version: int, actor: Actor, pulse: CanaryPulse) -> Asked:
    all_of_them = pulse.commits + pulse.fenced
    why = f"{pulse.fenced} of {all_of_them} commits of what was let in were fenced"
    return Asked("hold", incident_id, actor, why, version)


@in_transaction
def _hold(asked: Asked, pulse: CanaryPulse) -> bool:
    hearing = open_incident_hearing(asked)
    if hearing is None or hearing.state != IncidentState.SWITCHED or hearing.version_mismatch():
        return False
    _write(hearing, 0, pulse)
    return True
