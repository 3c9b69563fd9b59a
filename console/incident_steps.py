"""The seven steps of an incident: which are done, which one is at hand, and which are locked (contract 12).

The state machine is the database's; nothing here skips a step or takes one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from coordinator.intake_shares import WHOLE
from coordinator.selectors.incident_gates import Gate
from coordinator.selectors.incidents import IncidentRecord, StepRecord
from coordinator.states import IncidentState

DECLARE, STOP, BUMP, DRAIN, SWITCH, RESUME, REPORT = range(1, 8)
NAMES: Final[dict[int, Promise]] = {
    DECLARE: gettext_lazy("Declare"),
    STOP: gettext_lazy("Intake stopped"),
    BUMP: gettext_lazy("Raise the epoch"),
    DRAIN: gettext_lazy("Drain"),
    SWITCH: gettext_lazy("Switch the pool"),
    RESUME: gettext_lazy("Resume"),
    REPORT: gettext_lazy("Report"),
}
_MINUTE: Final = timedelta(minutes=1)
#: The farthest step whose page is open in each state, and the one that is at hand.
_FARTHEST: Final = {
    IncidentState.STOPPED: BUMP,
    IncidentState.BUMPED: DRAIN,
    IncidentState.DRAINED: SWITCH,
    IncidentState.SWITCHED: RESUME,
    IncidentState.CLOSED: REPORT,
    IncidentState.ABORTED: REPORT,
}
_AT_HAND: Final = {**_FARTHEST, IncidentState.STOPPED: STOP}
#: By which step of the record each page is done.
_DONE_BY: Final = {
    DECLARE: IncidentState.STOPPED,
    STOP: IncidentState.BUMPED,
    BUMP: IncidentState.BUMPED,
    DRAIN: IncidentState.DRAINED,
    SWITCH: IncidentState.SWITCHED,
    RESUME: IncidentState.CLOSED,
}


@dataclass(frozen=True, slots=True)
class Stage:
    """A step in the list: `standing` is done, at-hand, open, locked or left-out."""

    number: int
    name: str
    standing: str
    taken: StepRecord | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Condition:
    """Something that a step needs, looked at now."""

    met: bool
    told: str


def at_hand(incident: IncidentRecord) -> int:
    return _AT_HAND[IncidentState(incident.state)]


#: What a person is offered first, and what comes after that.
_PARTS: Final = (10, 50)


def first_part(incident: IncidentRecord) -> int:
    """The next larger part to let in: 10 %, 50 %, everything. After a hold it begins anew."""
    now = max((lane.intake_share for lane in incident.queues), default=0)
    return next((part for part in _PARTS if part > now), WHOLE)


def is_open(incident: IncidentRecord, number: int) -> bool:
    """A step of the past may always be read again; one of the future may not be looked at yet."""
    if incident.state == IncidentState.ABORTED:
        return number in (DECLARE, STOP, REPORT)
    return DECLARE <= number <= _FARTHEST[IncidentState(incident.state)]


def stages_of(incident: IncidentRecord, now: datetime) -> list[Stage]:
    taken = {step.step: step for step in incident.steps}
    return [_stage(incident, number, taken, now) for number in NAMES]


def _stage(
    incident: IncidentRecord, number: int, taken: dict[str, StepRecord], now: datetime
) -> Stage:
    done = taken.get(_DONE_BY[number]) if number in _DONE_BY else None
    shown = (
        None if number == STOP else done
    )  # it ends with the next one; it has no receipt of its own
    return Stage(
        number,
        str(NAMES[number]),
        _standing(incident, number, done=done is not None),
        shown,
        _seconds(incident, number, taken, now),
    )


def _standing(incident: IncidentRecord, number: int, *, done: bool) -> str:
    drained = number == DRAIN and incident.state == IncidentState.DRAINED
    if done or drained or (number == REPORT and incident.ended_at is not None):
        return "done"
    if incident.state == IncidentState.ABORTED:
        return "left-out"
    if number == at_hand(incident):
        return "at-hand"
    return "open" if is_open(incident, number) else "locked"


#: The step before, from which the time of a page is counted.
_BEGUN_BY: Final = {
    STOP: IncidentState.STOPPED,
    BUMP: IncidentState.STOPPED,
    DRAIN: IncidentState.BUMPED,
    SWITCH: IncidentState.DRAINED,
    RESUME: IncidentState.SWITCHED,
}


def _seconds(
    incident: IncidentRecord, number: int, taken: dict[str, StepRecord], now: datetime
) -> float | None:
    begun = taken.get(_BEGUN_BY[number]) if number in _BEGUN_BY else None
    if begun is None:
        return None
    ended = taken.get(_DONE_BY[number])
    until = ended.at if ended else incident.ended_at
    if until is None:  # in whole minutes, so that an unchanged page stays the same for a minute
        return (now - begun.at) // _MINUTE * 60.0 or None
    return (until - begun.at).total_seconds()


def conditions_of(
    incident: IncidentRecord, number: int, *, gate: Gate | None, claims: int | None, me: str
) -> Sequence[Condition]:
    """What the step needs, each looked at now."""
    stopped = all(lane.intake == "STOPPED" for lane in incident.queues)
    over = incident.ended_at is not None
    intake = Condition(over or stopped, _("The intake of each queue is STOPPED."))
    match number:
        case 2:
            granted = Condition(claims == 0, _("Claims granted since then: %(n)s.") % {"n": claims})
            return [intake, granted]
        case 3:
            told = _("Somebody else than %(who)s raises the epoch.") % {"who": incident.opened_by}
            return [intake, Condition(incident.opened_by != me, told)]
        case 5 if gate is not None:
            return [
                Condition(
                    not gate.active_leases,
                    _("Leases of the old epoch that still run: %(n)d.") % {"n": gate.active_leases},
                ),
                Condition(
                    not gate.unknown_effects,
                    _("Effects that may be out: %(n)d.") % {"n": gate.unknown_effects},
                ),
                Condition(
                    not gate.pending_results,
                    _("Results of revoked attempts without a decision: %(n)d.")
                    % {"n": gate.pending_results},
                ),
            ]
        case 6:
            switched = all(lane.pool_after for lane in incident.queues)
            return [Condition(switched, _("The pool of each queue has been switched."))]
        case _:
            return []
