"""The bump of an incident: the epoch of its queues is raised, and everything older is refused (contract 12)."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.models import Evidence, Incident
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, run_round
from coordinator.selectors.incident_gates import count_gate
from coordinator.selectors.incidents import confirmation
from coordinator.states import IncidentState

from . import hints
from .events import EventKind, Fact
from .identity import remember_epochs
from .incident_hearings import (
    MIN_REASON_CHARS,
    Asked,
    IncidentHearing,
    StepTaken,
    open_incident_hearing,
    queues_after,
)
from .revocations import Revocation, bumped_facts, lock_held, raise_epochs, revoke
from .transactions import in_transaction

#: One epoch for an incident of one queue, or each queue's by its name.
ExpectedEpoch = int | Mapping[str, int]


def bump_incident(
    *,
    incident_id: UUID,
    expected_epoch: ExpectedEpoch,
    confirm: str,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
) -> StepTaken | Refusal:
    """STOPPED → BUMPED: raise the epoch of each of the incident's queues by one, in one transaction.

    From its return on everything of the old epochs is refused everywhere; old attempts are
    EXPIRED, their effects as in take-over, pending approvals VOID. `confirm` must be the
    queue's name typed out (several: sorted, joined by ", "; an incident over all: `all
    queues`). Somebody else than the opener bumps; alone, the opener must type a reason, and an
    ALARM is raised. Its repeat gets the same receipt. Refused: INVALID, WRONG_STEP,
    STATE_VERSION_MISMATCH (another epoch than expected, or another version), NOT_FOUND.
    """
    asked = Asked("bump", incident_id, actor, reason, expected_version)
    refusal = asked.faults(needs_reason=False)
    if refusal is not None:
        return refusal
    answer, queue_ids = _bump(asked, expected_epoch, confirm)
    if isinstance(answer, StepTaken) and queue_ids:
        remember_epochs({row.name: row.scheduler_epoch for row in answer.queues})
    for queue_id in queue_ids:
        hints.notify(queue_id)
    return answer


@in_transaction
def _bump(
    asked: Asked, expected_epoch: ExpectedEpoch, confirm: str
) -> tuple[StepTaken | Refusal, list[int]]:
    """The answer, and the queues that this call has bumped."""
    hearing = open_incident_hearing(asked, point="bump")
    if hearing is None:
        return not_found("incident"), []
    refusal = _misnamed(hearing, expected_epoch, confirm)
    if refusal is not None:
        return hearing.refuse(refusal), []
    done = hearing.steps.get(IncidentState.BUMPED)
    if done is not None:
        before = {row.name: row.scheduler_epoch - 1 for row in done.queues}
        stale = _stale(before, expected_epoch)
        return (hearing.refuse(stale) if stale else replace(done, replayed=True)), []
    refusal = (
        hearing.not_now(IncidentState.BUMPED)
        or _stale({row.name: row.scheduler_epoch for row in hearing.queues}, expected_epoch)
        or _alone(hearing)
    )
    if refusal is not None:
        return hearing.refuse(refusal), []
    return _raise(hearing), [row.id for row in hearing.queues]


def _misnamed(hearing: IncidentHearing, expected: ExpectedEpoch, confirm: str) -> Refusal | None:
    names = [row.name for row in hearing.queues]
    wanted = confirmation(names, covers_all=hearing.row.covers_all)
    faults = []
    if confirm != wanted:
        faults.append(FieldError("/confirm", f"Type `{wanted}`: that is what will be bumped."))
    if isinstance(expected, int):
        if len(names) > 1:
            told = "The incident has several queues; send `expected_epochs`, each by its name."
            faults.append(FieldError("/expected_epoch", told))
    elif set(expected) != set(names):
        told = f"Send the epoch of each queue of the incident, and of no other: {', '.join(names)}."
        faults.append(FieldError("/expected_epochs", told))
    return invalid(*faults) if faults else None


def _stale(epochs: Mapping[str, int], expected: ExpectedEpoch) -> Refusal | None:
    """Another epoch than the caller saw: somebody has raised it since."""
    other = {
        name: epoch
        for name, epoch in epochs.items()
        if epoch != (expected if isinstance(expected, int) else expected[name])
    }
    if not other:
        return None
    name, epoch = next(iter(other.items()))
    return Refusal(
        Outcome.STATE_VERSION_MISMATCH,
        f"The epoch of queue `{name}` is {epoch}, not what you expected; look again.",
        evidence_recorded=True,
        extra={"scheduler_epoch": epoch, "epochs": other},
    )


def _alone(hearing: IncidentHearing) -> Refusal | None:
    if not _is_opener(hearing) or len(hearing.asked.reason.strip()) >= MIN_REASON_CHARS:
        return None
    told = "You opened this incident; let somebody else bump it, or type why you are alone."
    return invalid(FieldError("/reason", told))


def _is_opener(hearing: IncidentHearing) -> bool:
    return hearing.asked.actor.id == hearing.row.opened_by_id


def _raise(hearing: IncidentHearing) -> StepTaken:
    held, clock_rows = run_round(lock_held([row.id for row in hearing.queues]), CLOCK)
    hearing.clock = clock_of(clock_rows)
    revocation = revoke(held, hearing.clock, incident_id=hearing.row.incident_id)
    why = hearing.asked.reason.strip() or hearing.row.reason
    told = {"reason": why, "incident_id": str(hearing.row.incident_id)}
    run_round(raise_epochs(hearing.queues), *revocation.statements)
    _remember(hearing, revocation)
    after = [row._replace(scheduler_epoch=row.scheduler_epoch + 1) for row in hearing.queues]
    counts = count_gate(hearing.row.incident_id)
    hearing.advance(IncidentState.BUMPED)
    receipt = hearing.keep(
        hearing.receipt(
            queues=queues_after(after),
            revoked=len(revocation.held),
            unknown_effects=counts.unknown_effects,
            voided_approvals=len(revocation.voided),
            pending_results=counts.pending_results,
            alone=_is_opener(hearing),
        )
    )
    _tell(hearing, receipt, why)
    hearing.facts += [*bumped_facts(hearing.queues, revocation, told), *revocation.facts]
    hearing.write()
    return receipt


_LANES: Final = """
UPDATE coordinator_incidentqueue i SET epoch_before = q.scheduler_epoch - 1, epoch_after = q.scheduler_epoch
FROM coordinator_queue q WHERE i.incident_id = %s AND q.id = i.queue_id
"""
_HOLDS: Final = """
INSERT INTO coordinator_incidenthold (incident_id, attempt_id, lease_expires_at)
SELECT %s, attempt_id, lease_expires_at FROM coordinator_attempt WHERE attempt_id = ANY(%s::uuid[]) ORDER BY attempt_id
"""
_EFFECTS: Final = """
INSERT INTO coordinator_incidenteffect (incident_id, effect_id, state, changed)
SELECT %s, e.effect_id, e.state, e.effect_id = ANY(%s::text[])
FROM coordinator_effectslot e JOIN coordinator_task t ON t.task_id = e.task_id
WHERE t.queue_id = ANY(%s::int[])
  AND (e.state IN ('ACCEPTED', 'UNKNOWN', 'RESENDABLE') OR e.effect_id = ANY(%s::text[]))
ORDER BY e.effect_id
"""


def _remember(hearing: IncidentHearing, revocation: Revocation) -> None:
    """What the gate and the report look at later: leases as they stood, effects that may be out."""
    incident_id = hearing.row.incident_id
    changed = _changed_effects(revocation.facts)
    attempts = [task.attempt_id for task in revocation.held]
    run_round(
        Statement(_LANES, (incident_id,)),
        Statement(_HOLDS, (incident_id, attempts)),
        Statement(_EFFECTS, (incident_id, changed, [row.id for row in hearing.queues], changed)),
    )
    newest = Evidence.objects.order_by("-id").values_list("id", flat=True).first()
    Incident.objects.filter(incident_id=incident_id).update(evidence_before=newest or 0)


def _changed_effects(facts: list[Fact]) -> list[str]:
    kinds = (EventKind.EFFECT_UNKNOWN, EventKind.EFFECT_CLOSED)
    return sorted({fact.data["effect_id"] for fact in facts if fact.kind in kinds})


def _tell(hearing: IncidentHearing, receipt: StepTaken, why: str) -> None:
    told: dict[str, Any] = {
        "reason": why,
        "epochs": {row.name: row.scheduler_epoch for row in receipt.queues},
        "revoked": receipt.revoked,
        "unknown_effects": receipt.unknown_effects,
        "voided_approvals": receipt.voided_approvals,
        "pending_results": receipt.pending_results,
    }
    hearing.tell(EventKind.INCIDENT_BUMPED, **told)
    if receipt.alone:
        hearing.tell(EventKind.ALARM, alarm="LONE_BUMP", reason=why)
