"""One effect as its page shows it: what is bound, each call that was allowed, and everything that was said."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import F, Func, IntegerField, TextField, Value

from coordinator.models import Approval, Attempt, Dispatch, EffectSlot, Event, Evidence, LookUp
from coordinator.seals import DispatchRow, EffectRow

MAX_EVIDENCE: Final = 200
MAX_TRANSITIONS: Final = 200
MAX_LOOK_UPS: Final = 20
MAX_SLOTS: Final = 100


@dataclass(frozen=True, slots=True)
class LookUpMade:
    lookup_id: UUID
    dispatches: int
    actor: str
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Said:
    """A piece of evidence, verbatim."""

    id: int
    kind: str
    said: str
    late: bool
    actor: str
    at: datetime
    detail: dict[str, Any]
    dispatch_id: UUID | None


@dataclass(frozen=True, slots=True)
class Transition:
    """An event that moved the effect, or was about to: who or what, and when."""

    kind: str
    actor: str
    at: datetime
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class EffectFacts:
    """`row` and `calls` as the seals judge them. `payload` is None where it may not be seen."""

    row: EffectRow
    calls: tuple[DispatchRow, ...]
    look_ups: tuple[LookUpMade, ...]
    evidence: tuple[Said, ...]
    transitions: tuple[Transition, ...]
    approvals: tuple[tuple[UUID, str], ...]
    holder_state: str | None
    payload: str | None
    condition: str | None
    size_bytes: int
    queue: str
    run_id: UUID
    run_name: str
    task_state: str
    claim_generation: int
    prepared_at: datetime
    accepted_at: datetime | None
    unknown_since: datetime | None
    settled_at: datetime | None
    probes: int
    probe_after: datetime | None
    duplicate_suspected: bool

    @property
    def effect_id(self) -> str:
        return self.row.effect_id


_MORE: Final = (
    "shown_payload",
    "shown_condition",
    "size_bytes",
    "task__queue__name",
    "task__run__run_id",
    "task__run__name",
    "task__state",
    "task__claim_generation",
    "prepared_at",
    "accepted_at",
    "unknown_since",
    "settled_at",
    "probes",
    "probe_after",
    "duplicate_suspected",
)


def read_effect(effect_id: str, *, with_payload: bool) -> EffectFacts | None:
    """Seven queries, each by an index and bounded; None where there is no such effect."""
    hidden = Value(None, output_field=TextField(null=True))
    row: Any = (
        EffectSlot.objects.filter(effect_id=effect_id)
        .annotate(
            shown_payload=F("payload") if with_payload else hidden,
            shown_condition=F("condition") if with_payload else hidden,
            size_bytes=Func("payload", function="octet_length", output_field=IntegerField()),
        )
        .values_list(*EffectRow._fields, *_MORE)
        .first()
    )
    if row is None:
        return None
    effect = EffectRow._make(row[: len(EffectRow._fields)])
    if not with_payload:
        effect = effect._replace(receipt=None)
    calls = tuple(
        DispatchRow._make(each)
        for each in Dispatch.objects.filter(effect_id=effect_id)
        .order_by("number")
        .values_list(*DispatchRow._fields)
    )
    return EffectFacts(
        effect,
        calls,
        _look_ups(effect_id),
        _evidence(effect_id, with_payload=with_payload),
        _transitions(effect),
        tuple(
            Approval.objects.filter(effect_id=effect_id)
            .order_by("-approval_id")
            .values_list("approval_id", "state")[:MAX_SLOTS]
        ),
        _holder_state(calls),
        *row[len(EffectRow._fields) :],
    )


def effects_of_task(task_id: UUID, *, with_payload: bool) -> tuple[EffectFacts, ...]:
    """The effects of a task by slot; a node declares only a few."""
    ids = EffectSlot.objects.filter(task_id=task_id).order_by("slot").values_list("effect_id")
    found = [read_effect(each, with_payload=with_payload) for (each,) in ids[:MAX_SLOTS]]
    return tuple(each for each in found if each is not None)


def _holder_state(calls: tuple[DispatchRow, ...]) -> str | None:
    if not calls:
        return None
    attempts = Attempt.objects.filter(attempt_id=calls[-1].attempt_id)
    return attempts.values_list("state", flat=True).first()


def _look_ups(effect_id: str) -> tuple[LookUpMade, ...]:
    rows = LookUp.objects.filter(effect_id=effect_id).order_by("-started_at")
    columns = ("lookup_id", "dispatches", "actor", "started_at")
    return tuple(LookUpMade(*row) for row in rows.values_list(*columns)[:MAX_LOOK_UPS])


def _evidence(effect_id: str, *, with_payload: bool) -> tuple[Said, ...]:
    """Newest first. What was said is part of the payload's own permission."""
    rows = Evidence.objects.filter(effect_id=effect_id).order_by("-id")
    columns = ("id", "kind", "said", "late", "actor", "at", "detail", "dispatch_id")
    found: Any = rows.values_list(*columns)[:MAX_EVIDENCE]
    kept = (Said(*row) for row in found)
    return tuple(kept if with_payload else (replace(each, detail={}) for each in kept))


def _transitions(effect: EffectRow) -> tuple[Transition, ...]:
    rows = Event.objects.filter(task_id=effect.task_id, data__effect_id=effect.effect_id)
    rows = rows.exclude(kind__in=["REFUSED", "EVIDENCE_RECORDED", "PARKED"]).order_by("id")
    columns = ("kind", "actor", "at", "data")
    return tuple(Transition(*row) for row in rows.values_list(*columns)[:MAX_TRANSITIONS])
