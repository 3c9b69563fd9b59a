"""The switch of an incident: another pool becomes the active one, once the old epoch is drained (contract 12)."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db.models import Q

from coordinator.actors import Actor
from coordinator.models import Credential, IncidentQueue, Pool, Queue
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.incident_gates import read_gate
from coordinator.states import IncidentState

from .events import EventKind
from .incident_hearings import (
    Asked,
    IncidentHearing,
    StepTaken,
    open_incident_hearing,
    queues_after,
)
from .transactions import in_transaction


def switch_pool(
    *,
    incident_id: UUID,
    to_pool: str,
    actor: Actor,
    reason: str = "",
    expected_version: int | None = None,
) -> StepTaken | Refusal:
    """BUMPED → DRAINED → SWITCHED: make `to_pool` the active pool of the incident's queues.

    The gate is counted again under the exclusive gates of the queues: NOT_DRAINED while a lease
    of the old epoch runs, an effect may be out or a candidate is undecided. The pool must exist
    and have a live credential for each queue (INVALID). Its repeat gets the same receipt; with
    another pool it is ALREADY_SETTLED. Also refused: WRONG_STEP, STATE_VERSION_MISMATCH, NOT_FOUND.
    """
    asked = Asked("switch", incident_id, actor, reason, expected_version)
    return asked.faults(needs_reason=False) or _switch(asked, to_pool)


@in_transaction
def _switch(asked: Asked, to_pool: str) -> StepTaken | Refusal:
    hearing = open_incident_hearing(asked)
    if hearing is None:
        return not_found("incident")
    done = hearing.steps.get(IncidentState.SWITCHED)
    if done is not None:
        taken = done.queues[0].active_pool
        if taken == to_pool:
            return replace(done, replayed=True)
        return hearing.refuse(_switched_already(taken))
    refusal = (
        hearing.not_now(IncidentState.DRAINED)
        or _unfit(hearing, to_pool)
        or _not_drained(asked.incident_id)
    )
    if refusal is not None:
        return hearing.refuse(refusal)
    return _write(hearing, to_pool)


def _switched_already(taken: str) -> Refusal:
    return Refusal(
        Outcome.ALREADY_SETTLED,
        f"The incident has switched to pool `{taken}`; once it is over, change the queue's policy.",
        evidence_recorded=True,
        extra={"to_pool": taken},
    )


def _unfit(hearing: IncidentHearing, to_pool: str) -> Refusal | None:
    """A pool without anybody who could claim would leave the queues idle."""
    if not Pool.objects.filter(name=to_pool).exists():
        return invalid(FieldError("/to_pool", f"There is no pool `{to_pool}`; create it first."))
    live = Credential.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=hearing.clock),
        pool_id=to_pool,
        revoked_at=None,
        scopes__contains=["work"],
    )
    names = {name for queues in live.values_list("queues", flat=True) for name in queues}
    idle = [row.name for row in hearing.queues if row.name not in names]
    if not idle:
        return None
    told = f"Pool `{to_pool}` has no live credential with the scope `work` for {_named(idle)}."
    return invalid(FieldError("/to_pool", told))


def _named(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:20])


def _not_drained(incident_id: UUID) -> Refusal | None:
    gate = read_gate(incident_id)
    assert gate is not None, "its row is locked"
    if gate.open:
        return None
    return Refusal(
        Outcome.NOT_DRAINED,
        f"Of the old epoch {gate.active_leases} leases still run, {gate.unknown_effects} effects may be out"
        f" and {gate.pending_results} results wait for a decision.",
        evidence_recorded=True,
        extra={
            "active_leases": gate.active_leases,
            "unknown_effects": gate.unknown_effects,
            "pending_results": gate.pending_results,
            "latest_expiry": gate.latest_expiry,
        },
    )


def _write(hearing: IncidentHearing, to_pool: str) -> StepTaken:
    hearing.advance(IncidentState.DRAINED)
    nothing_out = "nothing of the old epoch is out"
    hearing.keep(hearing.receipt(reason=nothing_out, queues=queues_after(hearing.queues)))
    hearing.tell(EventKind.INCIDENT_DRAINED)
    ids = [row.id for row in hearing.queues]
    Queue.objects.filter(id__in=ids).update(active_pool=to_pool)
    lanes = IncidentQueue.objects.filter(incident_id=hearing.row.incident_id)
    lanes.update(pool_after=to_pool)
    hearing.advance(IncidentState.SWITCHED)
    after = [row._replace(active_pool=to_pool) for row in hearing.queues]
    receipt = hearing.keep(hearing.receipt(queues=queues_after(after)))
    told: dict[str, Any] = {"from": {row.name: row.active_pool for row in hearing.queues}}
    hearing.tell(EventKind.INCIDENT_SWITCHED, to_pool=to_pool, reason=hearing.asked.reason, **told)
    hearing.write()
    return receipt
