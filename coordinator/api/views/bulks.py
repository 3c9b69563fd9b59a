"""Bulk jobs: review, start, look, stop, undo. The same service as the console's (docs/adr/0011)."""

from dataclasses import replace
from typing import Any

from pydantic import Field

from coordinator.access import Operation
from coordinator.api.bodies.bulks import BulkBody, BulkStartBody, BulkStopBody
from coordinator.api.endpoint import Call, Endpoint, operation
from coordinator.api.pages import Page, PageQuery, page_of
from coordinator.api.paths import uuid_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.bulks import (
    BulkItemRecord,
    BulkRecord,
    bulk_item_record,
    bulk_records,
    find_bulk,
    list_bulk_items,
    list_bulks,
)
from coordinator.services.bulk_undoing import undo_bulk
from coordinator.services.bulks import Started, Stopped, review_bulk, start_bulk, stop_bulk


class Bulks(Endpoint):
    @operation(
        Operation.LIST_BULKS,
        "List bulk jobs, newest first, each with its counts by outcome",
        answer=Page[BulkRecord],
        query=PageQuery,
    )
    def get(self, call: Call[None]) -> Page[BulkRecord]:
        page: Page[Any] = page_of(
            call.request, call.query, list_bulks(), lambda job: job, key="bulk_id"
        )
        return replace(page, results=bulk_records(page.results))

    @operation(
        Operation.REVIEW_BULK,
        "Freeze a set of tasks for one action; nothing is done to them until it is started",
        body=BulkBody,
        answer=BulkRecord,
        status=201,
    )
    def post(self, call: Call[BulkBody]) -> BulkRecord | Refusal:
        body = call.body
        if (body.task_ids is None) == (body.filter is None):
            told = "Give `task_ids` or a `filter`: exactly one of the two."
            return invalid(FieldError("/task_ids", told))
        reviewed = review_bulk(
            verb=body.verb,
            wanted=body.filter.wanted() if body.filter else None,
            task_ids=body.task_ids or (),
            asked=body.filter.asked() if body.filter else "",
            actor=call.caller,
        )
        if isinstance(reviewed, Refusal):
            return reviewed
        return find_bulk(reviewed.bulk_id) or not_found("bulk job")


class OneBulk(Endpoint):
    @operation(
        Operation.READ_BULK,
        "How far a bulk job is, with its counts by outcome",
        answer=BulkRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, _: Call[None], bulk_id: str) -> BulkRecord | Refusal:
        return find_bulk(uuid_of(bulk_id, "bulk job")) or not_found("bulk job")


class BulkItemQuery(PageQuery):
    outcome: str | None = Field(
        default=None, max_length=40, description="Such as DONE, CHANGED or CANNOT; empty: waiting."
    )


class BulkItems(Endpoint):
    @operation(
        Operation.LIST_BULK_ITEMS,
        "List the tasks of a bulk job, each with what came of it",
        answer=Page[BulkItemRecord],
        query=BulkItemQuery,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], bulk_id: str) -> Page[BulkItemRecord] | Refusal:
        found, query = uuid_of(bulk_id, "bulk job"), call.query
        if find_bulk(found) is None:
            return not_found("bulk job")
        rows = list_bulk_items(found, outcome=query.outcome)
        return page_of(call.request, query, rows, bulk_item_record, key="id", newest_first=False)


class BulkStart(Endpoint):
    @operation(
        Operation.START_BULK,
        "Start what the same person reviewed; a repeat gets the same receipt",
        body=BulkStartBody,
        answer=Started,
        status=202,
        refusals=(
            Outcome.NOT_FOUND,
            Outcome.FORBIDDEN,
            Outcome.ALREADY_SETTLED,
            Outcome.STATE_VERSION_MISMATCH,
        ),
    )
    def post(self, call: Call[BulkStartBody], bulk_id: str) -> Started | Refusal:
        return start_bulk(
            bulk_id=uuid_of(bulk_id, "bulk job"),
            reason=call.body.reason,
            not_before=call.body.not_before,
            actor=call.caller,
        )


class BulkStop(Endpoint):
    @operation(
        Operation.STOP_BULK,
        "Leave what has not had its turn alone; what is done stays done",
        body=BulkStopBody,
        answer=Stopped,
        refusals=(Outcome.NOT_FOUND, Outcome.ALREADY_SETTLED),
    )
    def post(self, call: Call[BulkStopBody], bulk_id: str) -> Stopped | Refusal:
        return stop_bulk(
            bulk_id=uuid_of(bulk_id, "bulk job"), reason=call.body.reason, actor=call.caller
        )


class BulkUndo(Endpoint):
    @operation(
        Operation.UNDO_BULK,
        "Take a snooze back as a whole, by a job of its own; a repeat gets the same receipt",
        answer=Started,
        status=202,
        refusals=(Outcome.NOT_FOUND, Outcome.ALREADY_SETTLED, Outcome.STATE_VERSION_MISMATCH),
    )
    def post(self, call: Call[None], bulk_id: str) -> Started | Refusal:
        return undo_bulk(bulk_id=uuid_of(bulk_id, "bulk job"), actor=call.caller)
