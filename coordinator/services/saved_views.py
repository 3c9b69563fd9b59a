"""Saving, renaming and deleting views of the list of tasks: everybody's to see, their maker's to change."""

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.ids import new_id
from coordinator.models import MAX_VIEW_NAME, MAX_VIEW_QUERY, SavedView
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import Statement, name_point, run_round
from coordinator.selectors.saved_views import MAX_VIEWS, ViewRecord, view_record

from .events import EventKind, Fact, record
from .texts import check_text
from .transactions import in_transaction

#: One change of the views at a time: names are told apart, and counted, before one is written.
_ONE_AT_A_TIME: Final = Statement(
    "SELECT pg_advisory_xact_lock(hashtextextended('coordinator_savedview', 0))"
)


@dataclass(frozen=True, slots=True)
class ViewDeleted:
    view_id: UUID
    outcome: str = "DELETED"


@in_transaction
def save_view(*, name: str, query: str, actor: Actor) -> ViewRecord | Refusal:
    """Keep a filter for everybody. Refused: INVALID (a name that is taken, or one view too many)."""
    name = name.strip()
    faults = _faults(name) + check_text("/query", query, most=MAX_VIEW_QUERY)
    if faults:
        return invalid(*faults)
    _, _, clock_rows = run_round(name_point("view"), _ONE_AT_A_TIME, CLOCK)
    if faults := _taken(name) + _too_many():
        return invalid(*faults)
    row = SavedView.objects.create(
        view_id=new_id(),
        name=name,
        query=query,
        made_by=actor.id,
        made_by_name=actor.name,
        made_at=clock_of(clock_rows),
    )
    fact = Fact(EventKind.VIEW_SAVED, data={"view_id": row.view_id, "name": name, "query": query})
    run_round(record([fact], actor=actor, at=row.made_at))
    return view_record(row)


@in_transaction
def rename_view(
    *, view_id: UUID, name: str, expected_name: str, actor: Actor, administers: bool
) -> ViewRecord | Refusal:
    """Give a view another name, by its maker or an administrator (`administers`).

    Refused: FORBIDDEN to others, STATE_VERSION_MISMATCH where it was renamed since it was seen, INVALID, NOT_FOUND.
    """
    name = name.strip()
    if faults := _faults(name):
        return invalid(*faults)
    _, _, clock_rows = run_round(name_point("view"), _ONE_AT_A_TIME, CLOCK)
    row = SavedView.objects.filter(pk=view_id).first()
    refusal = _refusal(row, expected_name, actor, administers=administers)
    if row is None or refusal is not None:
        return refusal or not_found("view")
    if name.lower() != row.name.lower() and (taken := _taken(name)):
        return invalid(*taken)
    SavedView.objects.filter(pk=view_id).update(name=name)
    told = {"view_id": view_id, "name": name, "before": {"name": row.name}, "after": {"name": name}}
    fact = Fact(EventKind.VIEW_RENAMED, data=told)
    run_round(record([fact], actor=actor, at=clock_of(clock_rows)))
    row.name = name
    return view_record(row)


@in_transaction
def delete_view(
    *, view_id: UUID, expected_name: str, actor: Actor, administers: bool
) -> ViewDeleted | Refusal:
    """Take a view away, by its maker or an administrator. The tasks are not touched. Refused as `rename_view`."""
    _, _, clock_rows = run_round(name_point("view"), _ONE_AT_A_TIME, CLOCK)
    row = SavedView.objects.filter(pk=view_id).first()
    refusal = _refusal(row, expected_name, actor, administers=administers)
    if row is None or refusal is not None:
        return refusal or not_found("view")
    SavedView.objects.filter(pk=view_id).delete()
    told = {"view_id": view_id, "name": row.name, "query": row.query, "made_by": row.made_by_name}
    fact = Fact(EventKind.VIEW_DELETED, data=told)
    run_round(record([fact], actor=actor, at=clock_of(clock_rows)))
    return ViewDeleted(view_id)


def _refusal(
    row: SavedView | None, expected_name: str, actor: Actor, *, administers: bool
) -> Refusal | None:
    if row is None:
        return None
    if row.made_by != actor.id and not administers:
        told = f"{row.made_by_name} made this view: they and administrators may change it."
        return Refusal(Outcome.FORBIDDEN, told)
    if row.name != expected_name:
        told = f"It is called `{row.name}` by now; look again."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told)
    return None


def _faults(name: str) -> list[FieldError]:
    return check_text("/name", name, most=MAX_VIEW_NAME)


def _taken(name: str) -> list[FieldError]:
    if SavedView.objects.filter(name__iexact=name).exists():
        return [FieldError("/name", "A view has this name already; take another.")]
    return []


def _too_many() -> list[FieldError]:
    if SavedView.objects.count() < MAX_VIEWS:
        return []
    return [FieldError("/name", f"There are {MAX_VIEWS} views already; delete one first.")]
