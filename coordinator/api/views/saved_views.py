"""Saved views: filters of the list of tasks that people keep for each other. The same service as the console's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.utils import translation
from pydantic import BaseModel, ConfigDict, Field

from coordinator.access import Operation, has_permission
from coordinator.actors import Actor
from coordinator.api.bodies.views import ViewBody, ViewDeleteBody, ViewRenameBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.paths import uuid_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid
from coordinator.selectors.console_counts import COUNT_CAP
from coordinator.selectors.saved_views import ViewRecord, count_filters, list_views
from coordinator.services.saved_views import ViewDeleted, delete_view, rename_view, save_view
from coordinator.task_wishes import Wish, read_wish


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """`count` is None where it was not asked for, or could not be counted in time; `at_least`: there may be more."""

    view_id: UUID
    name: str
    query: str
    made_by: str
    made_at: datetime
    count: int | None = None
    at_least: bool = False


@dataclass(frozen=True, slots=True)
class ViewList:
    """All that there are, by name."""

    results: list[ViewAnswer]


class ViewsQuery(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    counts: bool = Field(default=False, description="Count the tasks that each finds.")


class Views(Endpoint):
    @operation(
        Operation.LIST_VIEWS,
        "List the saved views of the list of tasks, by name",
        answer=ViewList,
        query=ViewsQuery,
    )
    def get(self, call: Call[None]) -> ViewList:
        records = list_views()
        counts = _counts(records) if call.query.counts else {}
        return ViewList([_answer(each, counts.get(str(each.view_id))) for each in records])

    @operation(
        Operation.SAVE_VIEW,
        "Keep a filter of the list of tasks for everybody",
        body=ViewBody,
        answer=ViewAnswer,
        status=201,
    )
    def post(self, call: Call[ViewBody]) -> ViewAnswer | Refusal:
        wish = _wish(call.body.query)
        if wish.faults:
            told = (f"{name}: {detail}" if name else detail for name, detail in wish.faults.items())
            return invalid(*(FieldError("/query", each) for each in told))
        saved = save_view(name=call.body.name, query=wish.query, actor=call.caller)
        return saved if isinstance(saved, Refusal) else _answer(saved)


class ViewRename(Endpoint):
    @operation(
        Operation.RENAME_VIEW,
        "Give a saved view another name; by its maker, or who administers",
        body=ViewRenameBody,
        answer=ViewAnswer,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN, Outcome.STATE_VERSION_MISMATCH),
    )
    def post(self, call: Call[ViewRenameBody], view_id: str) -> ViewAnswer | Refusal:
        renamed = rename_view(
            view_id=uuid_of(view_id, "view"),
            name=call.body.name,
            expected_name=call.body.expected_name,
            actor=call.caller,
            administers=_administers(call.caller),
        )
        return renamed if isinstance(renamed, Refusal) else _answer(renamed)


class ViewDelete(Endpoint):
    @operation(
        Operation.DELETE_VIEW,
        "Take a saved view away; its tasks stay as they are",
        body=ViewDeleteBody,
        answer=ViewDeleted,
        refusals=(Outcome.NOT_FOUND, Outcome.FORBIDDEN, Outcome.STATE_VERSION_MISMATCH),
    )
    def post(self, call: Call[ViewDeleteBody], view_id: str) -> ViewDeleted | Refusal:
        return delete_view(
            view_id=uuid_of(view_id, "view"),
            expected_name=call.body.expected_name,
            actor=call.caller,
            administers=_administers(call.caller),
        )


def _administers(caller: Actor) -> bool:
    return has_permission(caller, "administer")


def _wish(query: str) -> Wish:
    """In the API's language, whatever the person's browser speaks."""
    with translation.override("en"):
        return read_wish(query)


def _counts(records: Sequence[ViewRecord]) -> dict[str, int]:
    """A view may have been saved when other words were known: what is not understood is not counted."""
    wishes = {str(each.view_id): _wish(each.query) for each in records}
    return count_filters({key: wish.tasks for key, wish in wishes.items() if not wish.faults})


def _answer(record: ViewRecord, count: int | None = None) -> ViewAnswer:
    return ViewAnswer(
        view_id=record.view_id,
        name=record.name,
        query=record.query,
        made_by=record.made_by_name,
        made_at=record.made_at,
        count=None if count is None else min(count, COUNT_CAP),
        at_least=count is not None and count > COUNT_CAP,
    )
