"""An incident, heard: the gates of its queues held alone, itself locked, the clock last (contract 4, 12)."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

import orjson

from coordinator.actors import Actor, ActorKind
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gates_of
from coordinator.models import Incident, IncidentStep
from coordinator.outcomes import FieldError, Outcome, Refusal, Retry, invalid
from coordinator.rounds import LockStatement, Statement, name_point, run_round
from coordinator.states import INCIDENT_ARROWS, IncidentState

from . import locking
from .events import EventKind, Fact, record, refusal_fact
from .locking import QueueRow
from .texts import MAX_REASON_CHARS, check_text

MIN_REASON_CHARS: Final = 3


@dataclass(frozen=True, slots=True)
class QueueAfter:
    """A queue as a step left it."""

    name: str
    scheduler_epoch: int
    intake: str
    active_pool: str
    intake_share: int = 0


@dataclass(frozen=True, slots=True)
class StepTaken:
    """The receipt of a step; its repeat gets the same, `replayed`.

    `revoked`, `unknown_effects`, `voided_approvals` and `pending_results` tell what a bump did;
    `alone` that the person who opened the incident bumped it too. `share` is the per cent that a
    canary lets in (its `step` is CANARY); 0 where there is none, and where it was stopped.
    """

    incident_id: UUID
    step: str
    state: str
    version: int
    by: str
    at: datetime
    reason: str
    queues: list[QueueAfter]
    revoked: int = 0
    unknown_effects: int = 0
    voided_approvals: int = 0
    pending_results: int = 0
    alone: bool = False
    share: int = 0
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for a step of which incident, why, and at which version they looked (None: they don't say)."""

    verb: str
    incident_id: UUID
    actor: Actor
    reason: str = ""
    expected_version: int | None = None

    def faults(self, *, needs_reason: bool) -> Refusal | None:
        """What is refused before anything is locked: who may not, and a reason without words."""
        return not_a_person(self.actor) or reason_faults(self.reason, needed=needs_reason)


class IncidentRow(NamedTuple):
    """An incident as it stands under its lock."""

    incident_id: UUID
    state: str
    version: int
    covers_all: bool
    reason: str
    opened_by: str
    opened_by_id: int


_LOCK: Final = LockStatement(
    lambda: (
        Incident.objects.filter(incident_id=UUID(int=0))
        .select_for_update(of=("self",))
        .values_list(*IncidentRow._fields)
    )
)
_OF_INCIDENT: Final = (
    "id IN (SELECT queue_id FROM coordinator_incidentqueue WHERE incident_id = %s)"
)
_STEPS: Final = (
    "SELECT step, receipt::text FROM coordinator_incidentstep WHERE incident_id = %s ORDER BY id"
)


@dataclass(slots=True)
class IncidentHearing:
    """What was found under the locks, and the facts to be written about it."""

    asked: Asked
    row: IncidentRow
    queues: list[QueueRow]
    steps: dict[str, StepTaken]
    clock: datetime
    facts: list[Fact] = field(default_factory=list)

    @property
    def state(self) -> IncidentState:
        return IncidentState(self.row.state)

    def tell(self, kind: EventKind, *, queue_id: int | None = None, **data: Any) -> None:
        told = {"incident_id": str(self.row.incident_id), **data}
        self.facts.append(Fact(kind, queue_id=queue_id, data=told))

    def refuse(self, refusal: Refusal) -> Refusal:
        """Record the refusal in the open transaction and return it; equal repeats are only counted."""
        subject = f"{self.asked.actor.label}:{self.row.incident_id}:{self.row.version}"
        told: dict[str, Any] = {"incident_id": str(self.row.incident_id)}
        if refusal.errors:
            told["errors"] = {error.pointer: error.detail for error in refusal.errors}
        point = f"incident.{self.asked.verb}"
        fact = refusal_fact(refusal, point=point, subject=subject, task=None, **told)
        run_round(record([fact], actor=self.asked.actor, at=self.clock))
        return replace(refusal, evidence_recorded=True)

    def not_now(self, step: IncidentState) -> Refusal | None:
        """What keeps `step` from being taken now.

        WRONG_STEP unless it comes next: nothing is skipped, nothing taken back.
        STATE_VERSION_MISMATCH where somebody decided something since the caller looked.
        """
        if step not in INCIDENT_ARROWS[self.state]:
            comes = ", ".join(sorted(INCIDENT_ARROWS[self.state])) or "nothing"
            return wrong_step(
                f"The incident is {self.state}; what may come next is {comes}.",
                retry=Retry.AFTER if _leads_to(self.state, step) else Retry.NEVER,
                state=self.state,
            )
        return self.version_mismatch()

    def version_mismatch(self) -> Refusal | None:
        expected = self.asked.expected_version
        if expected in (None, self.row.version):
            return None
        return Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"The incident is at version {self.row.version}, not {expected}; look again.",
            evidence_recorded=True,
            extra={"version": self.row.version, "state": self.row.state},
        )

    def advance(self, *states: IncidentState) -> None:
        """Move the incident along these arrows; each takes a version."""
        for state in states:
            version = self.row.version + 1
            ended = {"ended_at": self.clock} if not INCIDENT_ARROWS[state] else {}
            Incident.objects.filter(
                incident_id=self.row.incident_id, version=self.row.version
            ).update(state=state, version=version, **ended)
            self.row = self.row._replace(state=state, version=version)

    def keep(self, receipt: StepTaken) -> StepTaken:
        """Store a step with its receipt."""
        keep_step(receipt, self.asked.actor)
        self.steps[receipt.step] = receipt
        return receipt

    def receipt(self, *, reason: str | None = None, **told: Any) -> StepTaken:
        """The receipt of the step that led to the state as it is now; `queues` among `told`."""
        return StepTaken(
            incident_id=self.row.incident_id,
            step=self.row.state,
            state=self.row.state,
            version=self.row.version,
            by=self.asked.actor.label,
            at=self.clock,
            reason=self.asked.reason if reason is None else reason,
            **told,
        )

    def write(self, *statements: Statement) -> None:
        run_round(*statements, record(self.facts, actor=self.asked.actor, at=self.clock))


def open_incident_hearing(asked: Asked, *, point: str = "incident") -> IncidentHearing | None:
    """Hold the gates of the incident's queues alone, in id order, and lock it; None where there is none."""
    *_, incidents, queues, steps, clock = run_round(
        name_point(point),
        queue_gates_of(_OF_INCIDENT, asked.incident_id),
        _LOCK(asked.incident_id),
        locking.read_queues_where(_QUEUES, asked.incident_id),
        Statement(_STEPS, (asked.incident_id,)),
        CLOCK,
    )
    if not incidents:
        return None
    return IncidentHearing(
        asked=asked,
        row=IncidentRow._make(incidents[0]),
        queues=[QueueRow._make(each) for each in queues],
        steps={step: receipt_of(text) for step, text in steps},
        clock=clock_of(clock),
    )


_QUEUES: Final = "q.id IN (SELECT queue_id FROM coordinator_incidentqueue WHERE incident_id = %s)"


def receipt_of(text: str) -> StepTaken:
    """A stored receipt, as it was given."""
    told = orjson.loads(text)
    return StepTaken(
        **told
        | {
            "incident_id": UUID(told["incident_id"]),
            "at": datetime.fromisoformat(told["at"]),
            "queues": [QueueAfter(**each) for each in told["queues"]],
        }
    )


def keep_step(receipt: StepTaken, actor: Actor) -> None:
    IncidentStep.objects.create(
        incident_id=receipt.incident_id,
        step=receipt.step,
        version=receipt.version,
        actor=actor.label,
        address=actor.address,
        request_id=actor.request_id,
        reason=receipt.reason,
        at=receipt.at,
        receipt=orjson.loads(orjson.dumps(receipt)),
    )


def queues_after(queues: Sequence[QueueRow]) -> list[QueueAfter]:
    return [
        QueueAfter(row.name, row.scheduler_epoch, row.intake, row.active_pool, row.intake_share)
        for row in queues
    ]


def wrong_step(detail: str, *, retry: Retry, state: IncidentState) -> Refusal:
    return Refusal(
        Outcome.WRONG_STEP,
        detail,
        retry_as=retry,
        evidence_recorded=True,
        extra={"state": str(state)},
    )


def not_a_person(actor: Actor) -> Refusal | None:
    """Only people run incidents; no worker's credential and no background job ever does."""
    if actor.kind is ActorKind.OPERATOR:
        return None
    return Refusal(Outcome.FORBIDDEN, "Only a person runs an incident.")


def reason_faults(reason: str, *, needed: bool) -> Refusal | None:
    """A reason that is asked for has words; one that isn't may be left out."""
    if needed and len(reason.strip()) < MIN_REASON_CHARS:
        return invalid(FieldError("/reason", "Say why; it stands in the incident's report."))
    faults = check_text("/reason", reason, least=0, most=MAX_REASON_CHARS)
    return invalid(*faults) if faults else None


def _leads_to(state: IncidentState, step: IncidentState) -> bool:
    """Whether `step` can still come, after others."""
    reached, edge = set[IncidentState](), {state}
    while edge:
        reached |= edge
        edge = {after for each in edge for after in INCIDENT_ARROWS[each]} - reached
    return step in reached - {state}
