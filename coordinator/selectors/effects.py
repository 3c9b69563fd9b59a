"""Effects as they are read: of a task, one with its evidence, and those that may be out (contract 2, 8)."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

import orjson
from django.db.models import Count, F, Min, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from coordinator.models import Approval, Dispatch, EffectSlot, Evidence
from coordinator.states import MAY_BE_OUT


@dataclass(frozen=True, slots=True)
class EffectFilters:
    """What a list may be narrowed to. `queues`: those that the caller may see."""

    state: str | None = None
    downstream: str | None = None
    queue: str | None = None
    may_be_out: bool | None = None
    queues: Collection[str] | None = None


@dataclass(frozen=True, slots=True)
class DispatchRecord:
    """One acceptance: permission for one transmission, and what came of it."""

    dispatch_id: UUID
    number: int
    attempt_id: UUID
    claim_generation: int
    scheduler_epoch: int
    accepted_at: datetime
    call_deadline: datetime
    redeemed_at: datetime | None
    closed_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class EvidenceRecord:
    id: int
    kind: str
    said: str
    late: bool
    actor: str
    at: datetime
    detail: dict[str, Any]
    dispatch_id: UUID | None


@dataclass(frozen=True, slots=True)
class EffectRecord:
    """An effect with its bound payload. `payload`, `condition` and `receipt` are null where they were not asked for."""

    effect_id: str
    task_id: UUID
    run_id: UUID
    queue: str
    node_id: str
    slot: str
    state: str
    downstream: str
    guarantee: str
    payload: orjson.Fragment | None
    payload_digest: str
    condition: orjson.Fragment | None
    receipt: orjson.Fragment | None
    etag: str | None
    may_be_out: bool
    duplicate_suspected: bool
    happened_on_file: bool
    prepared_at: datetime
    accepted_at: datetime | None
    call_deadline: datetime | None
    unknown_since: datetime | None
    settled_at: datetime | None
    dispatch_count: int
    dispatches: list[DispatchRecord]
    #: Places that people are shown masked (contract 15); what stands there is revealed for a reason.
    masked: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class EffectDetail:
    """One effect with everything that is on file about it, and the approvals that were asked for."""

    effect: EffectRecord
    evidence: list[EvidenceRecord]
    approval_ids: list[UUID]


def list_effects(filters: EffectFilters) -> QuerySet[EffectSlot]:
    """By id; page by `effect_id`. The task, its queue and run, and the dispatches come with it: two queries."""
    effects = EffectSlot.objects.select_related("task__queue", "task__run").defer(
        "task__input", "task__run__metadata"
    )
    wanted = {
        "state": filters.state,
        "downstream": filters.downstream,
        "task__queue__name": filters.queue,
    }
    effects = effects.filter(
        **{field: value for field, value in wanted.items() if value is not None}
    )
    if filters.may_be_out is not None:
        out = sorted(MAY_BE_OUT)
        effects = (
            effects.filter(state__in=out) if filters.may_be_out else effects.exclude(state__in=out)
        )
    if filters.queues is not None:
        effects = effects.filter(task__queue__name__in=list(filters.queues))
    return effects.prefetch_related("ledger").order_by("effect_id")


def effects_of_task(task_id: UUID) -> list[EffectSlot]:
    """The effects of a task by slot; a node declares only a few."""
    return list(list_effects(EffectFilters()).filter(task_id=task_id).order_by("slot"))


def find_effect(effect_id: str, *, queues: Collection[str] | None = None) -> EffectSlot | None:
    return list_effects(EffectFilters(queues=queues)).filter(effect_id=effect_id).first()


def effect_record(effect: EffectSlot, *, with_payload: bool) -> EffectRecord:
    """`effect` as list_effects read it: no further query."""
    return EffectRecord(
        effect_id=effect.effect_id,
        task_id=effect.task_id,
        run_id=effect.task.run.run_id,
        queue=effect.task.queue.name,
        node_id=effect.node_id,
        slot=effect.slot,
        state=effect.state,
        downstream=effect.downstream,
        guarantee=effect.guarantee,
        payload=orjson.Fragment(effect.payload) if with_payload else None,
        payload_digest=effect.payload_digest,
        condition=_fragment(effect.condition) if with_payload else None,
        receipt=_fragment(effect.receipt) if with_payload else None,
        etag=effect.etag,
        may_be_out=effect.state in MAY_BE_OUT,
        duplicate_suspected=effect.duplicate_suspected,
        happened_on_file=effect.happened_on_file,
        prepared_at=effect.prepared_at,
        accepted_at=effect.accepted_at,
        call_deadline=effect.call_deadline,
        unknown_since=effect.unknown_since,
        settled_at=effect.settled_at,
        dispatch_count=effect.dispatches,
        dispatches=[
            _dispatch(each) for each in sorted(effect.ledger.all(), key=lambda each: each.number)
        ],
    )


def effect_detail(effect: EffectSlot, *, with_payload: bool) -> EffectDetail:
    """Two more queries: the evidence and the approvals."""
    evidence = Evidence.objects.filter(effect_id=effect.effect_id).order_by("id")
    approvals = Approval.objects.filter(effect_id=effect.effect_id).order_by("approval_id")
    return EffectDetail(
        effect_record(effect, with_payload=with_payload),
        [_evidence(each, with_payload=with_payload) for each in evidence],
        list(approvals.values_list("approval_id", flat=True)),
    )


def _dispatch(row: Dispatch) -> DispatchRecord:
    return DispatchRecord(
        row.dispatch_id,
        row.number,
        row.attempt_id,
        row.claim_generation,
        row.scheduler_epoch,
        row.accepted_at,
        row.call_deadline,
        row.redeemed_at,
        row.closed_at,
        row.outcome,
    )


def _evidence(row: Evidence, *, with_payload: bool) -> EvidenceRecord:
    return EvidenceRecord(
        row.pk,
        row.kind,
        row.said,
        row.late,
        row.actor,
        row.at,
        row.detail if with_payload else {},
        row.dispatch_id,
    )


def _fragment(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)


@dataclass(frozen=True, slots=True)
class EffectGroup:
    """Effects that may be out for one cause: one downstream, one state. One cause, many rows."""

    downstream: str
    guarantee: str
    state: str
    queue: str
    effects: int
    oldest: datetime | None  # since when the oldest of them may be out
    asked_in_vain: int  # automatic look-ups so far
    duplicates_suspected: int


def group_effects(*, queues: Collection[str] | None = None) -> list[EffectGroup]:
    """What may be out, grouped by cause, the oldest first. One query, over the unsettled ones only."""
    out = EffectSlot.objects.filter(state__in=sorted(MAY_BE_OUT))
    if queues is not None:
        out = out.filter(task__queue__name__in=list(queues))
    groups = (
        out.values("downstream", "guarantee", "state", queue=F("task__queue__name"))
        .annotate(
            effects=Count("effect_id"),
            oldest=Min(Coalesce("unknown_since", "accepted_at")),
            asked_in_vain=Sum("probes"),
            duplicates_suspected=Count("effect_id", filter=Q(duplicate_suspected=True)),
        )
        .order_by("oldest", "downstream", "state")
    )
    return [EffectGroup(**group) for group in groups]
