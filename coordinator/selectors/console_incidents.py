"""What the incident wizard shows beside the incident itself: claims since its opening, pools to switch to."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.contrib.postgres.aggregates import ArrayAgg
from django.db.models import Max, Q

from coordinator.canary import DRILL
from coordinator.models import Attempt, Credential, Incident, Pool
from coordinator.selectors.canaries import (
    MAX_FENCED_PART,
    MIN_FENCED,
    CanaryPulse,
    CanaryRecord,
    read_pulse,
)
from coordinator.selectors.console_counts import capped_counts
from coordinator.selectors.incident_gates import is_drained
from coordinator.selectors.incidents import IncidentRecord
from coordinator.selectors.reasons import ServerClock
from coordinator.states import IncidentState

PAGE_SIZE: Final = 20
MAX_POOLS: Final = 100


@dataclass(frozen=True, slots=True)
class IncidentRow:
    """`state` is DRAINED while the gate is open; `queues` are named in their order."""

    incident_id: UUID
    state: str
    covers_all: bool
    reason: str
    opened_by: str
    opened_at: datetime
    ended_at: datetime | None
    queues: list[str]


@dataclass(frozen=True, slots=True)
class IncidentPage:
    rows: tuple[IncidentRow, ...]
    before: UUID | None


@dataclass(frozen=True, slots=True)
class PoolToSwitchTo:
    """`idle`: queues of the incident for which nobody of this pool could claim."""

    name: str
    min_contract: str
    credentials: int
    last_used_at: datetime | None
    idle: list[str] = field(default_factory=list)


_COLUMNS: Final = tuple(name for name in IncidentRow.__dataclass_fields__ if name != "queues")


def page_incidents(*, before: UUID | None = None) -> IncidentPage:
    """A page of them, newest first: one query, and one more for each whose epoch is raised."""
    rows: Any = Incident.objects.order_by("-incident_id")
    if before:
        rows = rows.filter(incident_id__lt=before)
    names = ArrayAgg("lanes__queue__name", order_by="lanes__queue__name")
    found = [
        IncidentRow(*row)
        for row in rows.annotate(names=names).values_list(*_COLUMNS, "names")[: PAGE_SIZE + 1]
    ]
    more = found[PAGE_SIZE - 1].incident_id if len(found) > PAGE_SIZE else None
    return IncidentPage(tuple(_as_it_stands(row) for row in found[:PAGE_SIZE]), more)


def _as_it_stands(row: IncidentRow) -> IncidentRow:
    drained = row.state == IncidentState.BUMPED and is_drained(row.incident_id)
    return replace(row, state=IncidentState.DRAINED) if drained else row


def count_claims_since(incident_id: UUID, opened_at: datetime) -> int:
    """Claims granted in its queues since the opening; capped. An attempt's id begins with its time."""
    first = UUID(int=(int(opened_at.timestamp() * 1000) + 1) << 80)
    lanes = Incident.objects.filter(incident_id=incident_id).values("lanes__queue_id")
    granted = Attempt.objects.filter(attempt_id__gte=first, task__queue_id__in=lanes)
    return capped_counts({"n": granted.filter(started_at__gt=opened_at)})["n"]


@dataclass(frozen=True, slots=True)
class Canary:
    """What is let in at the moment, since when, how it fares; and where the watch would hold it."""

    share: int
    newest: CanaryRecord | None
    pulse: CanaryPulse | None
    min_fenced: int = MIN_FENCED
    max_part: int = round(MAX_FENCED_PART * 100)


def read_canary(incident: IncidentRecord) -> Canary:
    """At most two queries, and those only while a part is let in."""
    newest = incident.canaries[-1] if incident.canaries else None
    if newest is None or not newest.share or incident.ended_at is not None:
        return Canary(0, newest, None)
    lanes = Incident.objects.filter(incident_id=incident.incident_id)
    queue_ids = list(lanes.values_list("lanes__queue_id", flat=True))
    return Canary(newest.share, newest, read_pulse(newest.at, queue_ids))


def pools_to_switch_to(queues: Sequence[str]) -> list[PoolToSwitchTo]:
    """Every pool but the one of the drills, with the live credentials for these queues. Two queries."""
    live = Credential.objects.filter(
        Q(expires_at=None) | Q(expires_at__gt=ServerClock()),
        revoked_at=None,
        scopes__contains=["work"],
    )
    by_pool: dict[str, list[tuple[list[str], datetime | None]]] = {}
    for pool, names, used in live.values_list("pool_id", "queues").annotate(
        used=Max("last_used_at")
    ):
        by_pool.setdefault(pool, []).append((names, used))
    return [
        _pool(row, by_pool.get(row.name, []), queues)
        for row in Pool.objects.exclude(name=DRILL).order_by("name")[:MAX_POOLS]
    ]


def _pool(
    row: Pool, credentials: Sequence[tuple[list[str], datetime | None]], queues: Sequence[str]
) -> PoolToSwitchTo:
    fitting = [each for each in credentials if set(each[0]) & set(queues)]
    covered = {name for names, _used in fitting for name in names}
    return PoolToSwitchTo(
        name=row.name,
        min_contract=row.min_contract,
        credentials=len(fitting),
        last_used_at=max((used for _, used in fitting if used), default=None),
        idle=sorted(set(queues) - covered),
    )
