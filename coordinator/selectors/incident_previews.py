"""What a bump would take back, told before it (contract 12): claims, effects, approvals, and what they have cost."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, FloatField, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Cast

from coordinator.clock import read_clock
from coordinator.models import Approval, Attempt, Dispatch, EffectSlot, Incident, StagedResult, Task
from coordinator.seals import DispatchRow, EffectRow, after_hold
from coordinator.states import ApprovalState, EffectState, IncidentState, TaskState

from .incidents import confirmation

#: So many rows of each kind are named; all are counted.
MAX_NAMED: Final = 100
#: So many effects are judged at a time.
_CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What attempts reported that they have used."""

    attempts: int
    input_tokens: int
    output_tokens: int
    compute_seconds: float
    cost_usd: float


@dataclass(frozen=True, slots=True)
class ClaimToRevoke:
    queue: str
    run_id: UUID
    task_id: UUID
    node_id: str
    kind: str
    attempt_id: UUID
    owner: str
    claim_generation: int
    lease_expires_at: datetime


@dataclass(frozen=True, slots=True)
class EffectToChange:
    """`becomes` UNKNOWN where the call may be out, PREPARED where it was never redeemed."""

    effect_id: str
    run_id: UUID
    task_id: UUID
    node_id: str
    slot: str
    downstream: str
    state: str
    becomes: str


@dataclass(frozen=True, slots=True)
class ApprovalToVoid:
    approval_id: UUID
    effect_id: str
    task_id: UUID
    node_id: str
    requested_at: datetime


@dataclass(frozen=True, slots=True)
class Preview:
    """As things stand now; each list names at most 100, the counts tell of all.

    `epochs` are what the bump must expect, and `confirm` is what must be typed for it.
    `staged_results` will wait for a decision.
    """

    incident_id: UUID
    state: str
    version: int
    epochs: dict[str, int]
    confirm: str
    revoked: int
    claims: list[ClaimToRevoke]
    effects_unknown: int
    effects_closed: int
    effects: list[EffectToChange]
    approvals_void: int
    approvals: list[ApprovalToVoid]
    staged_results: int
    cost: Cost
    at: datetime


def preview_bump(incident_id: UUID) -> Preview | None:
    """None where there is no such incident, or its epoch has been raised: then the report tells."""
    incident = Incident.objects.filter(incident_id=incident_id, state=IncidentState.STOPPED).first()
    if incident is None:
        return None
    lanes = incident.lanes.select_related("queue").order_by("queue__name")
    epochs = {lane.queue.name: lane.queue.scheduler_epoch for lane in lanes}
    queues = [lane.queue_id for lane in lanes]
    held = Task.objects.filter(queue_id__in=queues, state=TaskState.CLAIMED)
    effects, judged = _effects(held)
    approvals = Approval.objects.filter(
        state=ApprovalState.PENDING,
        effect__task__queue_id__in=queues,
        effect__task__state=TaskState.AWAITING_APPROVAL,
    )
    return Preview(
        incident_id=incident_id,
        state=incident.state,
        version=incident.version,
        epochs=epochs,
        confirm=confirmation(list(epochs), covers_all=incident.covers_all),
        revoked=held.count(),
        claims=_claims(held),
        effects_unknown=judged[EffectState.UNKNOWN],
        effects_closed=judged[EffectState.PREPARED],
        effects=effects,
        approvals_void=approvals.count(),
        approvals=_approvals(approvals),
        staged_results=StagedResult.objects.filter(
            canonical_candidate=True, attempt_id__in=held.values("attempt_id")
        ).count(),
        cost=cost_of(Attempt.objects.filter(attempt_id__in=held.values("attempt_id"))),
        at=read_clock(),
    )


def cost_of(attempts: QuerySet[Attempt]) -> Cost:
    """One query."""
    told = attempts.aggregate(
        attempts=Count("attempt_id"),
        input_tokens=Sum("input_tokens", default=0),
        output_tokens=Sum("output_tokens", default=0),
        compute_seconds=Sum("compute_seconds", default=0.0),
        cost_usd=Cast(Sum("cost_usd", default=0), FloatField()),
    )
    return Cost(
        **told
        | {"input_tokens": int(told["input_tokens"]), "output_tokens": int(told["output_tokens"])}
    )


def _claims(held: QuerySet[Task]) -> list[ClaimToRevoke]:
    rows = held.select_related("queue", "run").defer("input", "run__metadata")
    return [
        ClaimToRevoke(
            queue=task.queue.name,
            run_id=task.run.run_id,
            task_id=task.task_id,
            node_id=task.node_id,
            kind=task.kind,
            attempt_id=task.attempt_id,
            owner=task.owner,
            claim_generation=task.claim_generation,
            lease_expires_at=task.lease_expires_at,
        )
        for task in rows.order_by("-lease_expires_at", "task_id")[:MAX_NAMED]
        if task.attempt_id and task.owner and task.lease_expires_at
    ]


def _effects(held: QuerySet[Task]) -> tuple[list[EffectToChange], Counter[str]]:
    """The effects that the end of these holds changes, by the very rule that take-over uses."""
    states = [EffectState.ACCEPTED, EffectState.UNKNOWN]
    found = EffectSlot.objects.filter(task_id__in=held.values("task_id"), state__in=states)
    run = Subquery(Task.objects.filter(pk=OuterRef("task_id")).values("run__run_id"))
    rows = found.annotate(run_number=run).order_by("effect_id")
    named: list[EffectToChange] = []
    judged: Counter[str] = Counter()
    chunk: list[tuple[Any, ...]] = []
    for row in rows.values_list("run_number", *EffectRow._fields).iterator(chunk_size=_CHUNK):
        chunk.append(row)
        if len(chunk) == _CHUNK:
            _judge(chunk, named, judged)
            chunk = []
    _judge(chunk, named, judged)
    return named, judged


def _judge(
    rows: Sequence[tuple[Any, ...]], named: list[EffectToChange], judged: Counter[str]
) -> None:
    effects = [EffectRow._make(row[1:]) for row in rows]
    ids = [effect.effect_id for effect in effects]
    dispatches: dict[str, list[DispatchRow]] = {}
    for each in Dispatch.objects.filter(effect_id__in=ids).values_list(*DispatchRow._fields):
        dispatches.setdefault(each[1], []).append(DispatchRow._make(each))
    for (run_id, *_), effect in zip(rows, effects, strict=True):
        becomes = after_hold(effect, dispatches.get(effect.effect_id, []))
        if becomes == effect.state:
            continue
        judged[becomes] += 1
        if len(named) < MAX_NAMED:
            named.append(
                EffectToChange(
                    effect_id=effect.effect_id,
                    run_id=run_id,
                    task_id=effect.task_id,
                    node_id=effect.node_id,
                    slot=effect.slot,
                    downstream=effect.downstream,
                    state=effect.state,
                    becomes=becomes,
                )
            )


def _approvals(approvals: QuerySet[Approval]) -> list[ApprovalToVoid]:
    rows = approvals.select_related("effect").defer("effect__payload")
    return [
        ApprovalToVoid(
            approval_id=approval.approval_id,
            effect_id=approval.effect_id,
            task_id=approval.effect.task_id,
            node_id=approval.effect.node_id,
            requested_at=approval.requested_at,
        )
        for approval in rows.order_by("approval_id")[:MAX_NAMED]
    ]
