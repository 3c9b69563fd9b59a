"""Effects whose outcome nobody knows, as the console lists them: the oldest and the dearest first."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.db.models import Case, F, Func, IntegerField, OuterRef, Subquery, TextField, Value, When
from django.db.models.functions import Coalesce

from coordinator.models import EffectSlot, Evidence
from coordinator.states import EffectState

#: So many of the oldest are weighed by what is at stake; the rest follow once these are settled.
WEIGHED: Final = 500
LISTED_PAYLOAD_BYTES: Final = 65_536
OPEN: Final = (EffectState.UNKNOWN, EffectState.RESENDABLE)


@dataclass(frozen=True, slots=True)
class UnknownFilter:
    """What a person asked for; empty means any."""

    downstream: str = ""
    queue: str = ""
    state: str = ""


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """`payload` is None where it is large, or may not be seen. `last_said` is the newest evidence."""

    effect_id: str
    state: str
    node_id: str
    slot: str
    downstream: str
    guarantee: str
    queue: str
    task_id: UUID
    task_state: str
    run_id: UUID
    run_name: str
    dispatches: int
    since: datetime | None
    call_deadline: datetime | None
    probes: int
    probe_after: datetime | None
    duplicate_suspected: bool
    happened_on_file: bool
    payload: str | None
    last_said: str | None
    last_by: str | None


_COLUMNS: Final = {
    "queue": "task__queue__name",
    "task_state": "task__state",
    "run_id": "task__run__run_id",
    "run_name": "task__run__name",
    "since": "since",
    "payload": "shown_payload",
}


def list_unknown(
    wanted: UnknownFilter, *, with_payload: bool, held: Sequence[str] = ()
) -> tuple[UnknownRow, ...]:
    """The oldest WEIGHED that match, by age; or exactly the `held` ones. One query."""
    effects = EffectSlot.objects.filter(state__in=OPEN)
    if held:
        effects = EffectSlot.objects.filter(effect_id__in=held[:WEIGHED])
    exact = {
        "downstream": wanted.downstream,
        "task__queue__name": wanted.queue,
        "state": wanted.state,
    }
    if not held:
        effects = effects.filter(**{name: value for name, value in exact.items() if value})
    newest = Evidence.objects.filter(effect=OuterRef("pk")).order_by("-id")
    small = Case(
        When(size_bytes__lte=LISTED_PAYLOAD_BYTES, then=F("payload")),
        default=Value(None),
        output_field=TextField(null=True),
    )
    annotated: Any = effects.annotate(
        size_bytes=Func("payload", function="octet_length", output_field=IntegerField()),
        shown_payload=small if with_payload else Value(None, output_field=TextField(null=True)),
        since=Coalesce("unknown_since", "accepted_at"),
        last_said=Subquery(newest.values("said")[:1]),
        last_by=Subquery(newest.values("actor")[:1]),
    )
    names = [_COLUMNS.get(name, name) for name in UnknownRow.__dataclass_fields__]
    rows = annotated.order_by("since", "effect_id").values_list(*names)
    return tuple(UnknownRow(*row) for row in rows[:WEIGHED])
