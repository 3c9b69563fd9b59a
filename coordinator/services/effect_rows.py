"""Effects and their dispatches, locked after their tasks, by id (contract 4)."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import orjson
from django.db.models import BooleanField
from django.db.models.expressions import RawSQL

from coordinator.models import EffectSlot
from coordinator.rounds import LockStatement, Statement
from coordinator.seals import DispatchRow, EffectRow
from coordinator.states import MAY_BE_OUT

_BY_ID: Final = LockStatement(
    lambda: (
        EffectSlot.objects.filter(effect_id="")
        .order_by("effect_id")
        .select_for_update(of=("self",))
        .values_list(*EffectRow._fields)
    )
)
_BY_TASK: Final = LockStatement(
    lambda: (
        EffectSlot.objects.filter(
            RawSQL("task_id = ANY(%s::uuid[])", [[]], output_field=BooleanField()),
        )
        .order_by("effect_id")
        .select_for_update(of=("self",))
        .values_list(*EffectRow._fields)
    )
)
_DISPATCHES: Final = (
    "SELECT d.dispatch_id, d.effect_id, d.number, d.attempt_id, d.claim_generation, d.scheduler_epoch, d.accepted_at,"
    " d.call_deadline, d.redeemed_at, d.redeem_id, d.closed_at, d.outcome, d.redeemed_by FROM coordinator_dispatch d"
)
_OF_EFFECT: Final = " WHERE d.effect_id = %s ORDER BY d.number"
_OF_TASKS: Final = (
    " JOIN coordinator_effectslot e ON e.effect_id = d.effect_id WHERE e.task_id = ANY(%s::uuid[])"
    " ORDER BY d.effect_id, d.number"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A locked effect with all its dispatches, oldest first."""

    effect: EffectRow
    dispatches: list[DispatchRow]

    @property
    def newest(self) -> DispatchRow | None:
        return self.dispatches[-1] if self.dispatches else None


def lock_effect(effect_id: str) -> list[Statement]:
    """Lock one effect and read its dispatches; the task's row must be locked before."""
    return [_BY_ID(effect_id), Statement(_DISPATCHES + _OF_EFFECT, (effect_id,))]


def lock_effects_of(task_ids: Sequence[UUID]) -> list[Statement]:
    return [_BY_TASK(list(task_ids)), Statement(_DISPATCHES + _OF_TASKS, (list(task_ids),))]


def slots_of(
    effects: Sequence[tuple[Any, ...]], dispatches: Sequence[tuple[Any, ...]]
) -> list[Slot]:
    rows: dict[str, list[DispatchRow]] = defaultdict(list)
    for each in dispatches:
        row = DispatchRow._make(each)
        rows[row.effect_id].append(row)
    return [Slot(effect, rows[effect.effect_id]) for effect in map(EffectRow._make, effects)]


@dataclass(frozen=True, slots=True)
class DispatchView:
    dispatch_id: UUID
    number: int
    attempt_id: UUID
    claim_generation: int
    accepted_at: datetime
    call_deadline: datetime
    redeemed_at: datetime | None
    closed_at: datetime | None
    outcome: str | None


@dataclass(frozen=True, slots=True)
class EffectView:
    """An effect as clients see it (contract 2, 7): the bound payload goes to every later attempt."""

    effect_id: str
    task_id: UUID
    node_id: str
    slot: str
    state: str
    downstream: str
    guarantee: str
    payload: orjson.Fragment
    payload_digest: str
    condition: orjson.Fragment | None
    receipt: orjson.Fragment | None
    etag: str | None
    may_be_out: bool
    duplicate_suspected: bool
    prepared_at: datetime
    accepted_at: datetime | None
    call_deadline: datetime | None
    unknown_since: datetime | None
    settled_at: datetime | None
    dispatches: list[DispatchView]


_VIEW: Final = (
    "SELECT e.effect_id, e.task_id, e.node_id, e.slot, e.state, e.downstream, e.guarantee, e.payload,"
    " e.payload_digest, e.condition, e.receipt, e.etag, e.duplicate_suspected, e.prepared_at, e.accepted_at,"
    " e.call_deadline, e.unknown_since, e.settled_at FROM coordinator_effectslot e"
)


def read_views(task_ids: Sequence[UUID]) -> list[Statement]:
    """The effects of some tasks, as they stand; no lock."""
    ids = list(task_ids)
    return [
        Statement(_VIEW + " WHERE e.task_id = ANY(%s::uuid[]) ORDER BY e.task_id, e.slot", (ids,)),
        Statement(_DISPATCHES + _OF_TASKS, (ids,)),
    ]


def read_view(effect_id: str) -> list[Statement]:
    return [
        Statement(_VIEW + " WHERE e.effect_id = %s", (effect_id,)),
        Statement(_DISPATCHES + _OF_EFFECT, (effect_id,)),
    ]


def views_of(
    effects: Sequence[tuple[Any, ...]], dispatches: Sequence[tuple[Any, ...]]
) -> list[EffectView]:
    rows: dict[str, list[DispatchView]] = defaultdict(list)
    for each in map(DispatchRow._make, dispatches):
        rows[each.effect_id].append(
            DispatchView(
                each.dispatch_id,
                each.number,
                each.attempt_id,
                each.claim_generation,
                each.accepted_at,
                each.call_deadline,
                each.redeemed_at,
                each.closed_at,
                each.outcome,
            )
        )
    return [_view(each, rows[each[0]]) for each in effects]


def _view(row: tuple[Any, ...], dispatches: list[DispatchView]) -> EffectView:
    (
        effect_id,
        task_id,
        node_id,
        slot,
        state,
        downstream,
        guarantee,
        payload,
        digest,
        condition,
        receipt,
        *rest,
    ) = row
    etag, suspected, prepared_at, accepted_at, call_deadline, unknown_since, settled_at = rest
    return EffectView(
        effect_id=effect_id,
        task_id=task_id,
        node_id=node_id,
        slot=slot,
        state=state,
        downstream=downstream,
        guarantee=guarantee,
        payload=orjson.Fragment(payload),
        payload_digest=digest,
        condition=_fragment(condition),
        receipt=_fragment(receipt),
        etag=etag,
        may_be_out=state in MAY_BE_OUT,
        duplicate_suspected=suspected,
        prepared_at=prepared_at,
        accepted_at=accepted_at,
        call_deadline=call_deadline,
        unknown_since=unknown_since,
        settled_at=settled_at,
        dispatches=dispatches,
    )


def _fragment(text: str | None) -> orjson.Fragment | None:
    return None if text is None else orjson.Fragment(text)
