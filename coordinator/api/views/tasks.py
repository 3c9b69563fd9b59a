"""Tasks: submitted alone, read, explained, and their history (contract 6, 11)."""

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.http import HttpResponse
from pydantic import Field

from coordinator.access import Operation, sees_payloads
from coordinator.actors import Worker
from coordinator.api.bodies.fields import LaneWord
from coordinator.api.bodies.runs import TaskBody
from coordinator.api.endpoint import Answer, Call, Endpoint, operation
from coordinator.api.masking import for_caller
from coordinator.api.pages import Page, PageQuery, Walk, page_of, whole
from coordinator.api.paths import require_own_queue, uuid_of
from coordinator.api.views.runs import queues_of
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.selectors.candidates import Candidate, list_candidates
from coordinator.selectors.events import EventFilters, EventRecord, event_record, list_events
from coordinator.selectors.explain import Explanation, explain_task
from coordinator.selectors.task_stretches import end_of_page
from coordinator.selectors.tasks import (
    AttemptRecord,
    TaskFilters,
    TaskRecord,
    attempt_record,
    find_task,
    list_attempts,
    list_tasks,
    order_tasks,
    task_record,
)
from coordinator.services.runs import submit_run
from coordinator.states import TaskState

if TYPE_CHECKING:
    from coordinator.models import Task


class TaskQuery(PageQuery):
    queue: LaneWord | None = None
    state: TaskState | None = None
    run_id: UUID | None = None
    kind: str | None = Field(default=None, max_length=200)
    owner: str | None = Field(default=None, max_length=200)
    node_id: str | None = Field(default=None, max_length=200)


class Tasks(Endpoint):
    @operation(
        Operation.LIST_TASKS,
        "List tasks, newest first, without their inputs",
        answer=Page[TaskRecord],
        query=TaskQuery,
    )
    def get(self, call: Call[None]) -> Page[dict[str, Any]]:
        query: TaskQuery = call.query
        filters = TaskFilters(
            query.queue,
            query.state,
            query.run_id,
            query.kind,
            query.owner,
            query.node_id,
            queues_of(call.caller),
        )
        return page_of(
            call.request,
            query,
            list_tasks(filters),
            without_input,
            key="task_id",
            walk=Walk(
                order=lambda descending: order_tasks(filters, newest_first=descending),
                end=lambda start, descending: end_of_page(
                    filters, start=start, newest_first=descending
                ),
            ),
        )

    @operation(
        Operation.SUBMIT_TASK,
        "Submit a run of one node",
        body=TaskBody,
        answer=TaskRecord,
        status=201,
        keyed=True,
        refusals=(Outcome.IDEMPOTENCY_CONFLICT,),
    )
    def post(self, call: Call[TaskBody]) -> Answer | Refusal:
        body = call.body
        if isinstance(call.caller, Worker):
            require_own_queue(call.caller, body.queue)
        submitted = submit_run(
            queue=body.queue,
            name="",
            metadata={},
            nodes=[body.spec(body.node_id)],
            actor=call.caller,
            request=call.request_key(),
        )
        if isinstance(submitted, Refusal):
            return _of_the_node(submitted)
        return read_task(call, submitted.tasks[0].task_id, status=201)


class OneTask(Endpoint):
    @operation(
        Operation.READ_TASK,
        "Read a task; its ETag is its state version",
        answer=TaskRecord,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Answer | HttpResponse | Refusal:
        answer = read_task(call, uuid_of(task_id, "task"))
        if isinstance(answer, Refusal):
            return answer
        if matches(call.request.META.get("HTTP_IF_NONE_MATCH", ""), answer.headers["ETag"]):
            return HttpResponse(status=304, headers=dict(answer.headers))
        return answer


class TaskAttempts(Endpoint):
    @operation(
        Operation.LIST_ATTEMPTS,
        "The ledger of a task: each grant, in order, and how it ended",
        answer=Page[AttemptRecord],
        query=PageQuery,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Page[AttemptRecord] | Refusal:
        task = seen_task(call, task_id)
        if task is None:
            return not_found("task")
        rows = list_attempts(task.task_id)
        return page_of(
            call.request,
            call.query,
            rows,
            lambda row: for_caller(call.caller, attempt_record(row)),
            key="claim_generation",
            newest_first=False,
        )


class TaskEvents(Endpoint):
    @operation(
        Operation.LIST_EVENTS,
        "What happened to a task, in order",
        answer=Page[EventRecord],
        query=PageQuery,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Page[EventRecord] | Refusal:
        task = seen_task(call, task_id)
        if task is None:
            return not_found("task")
        rows = list_events(EventFilters(task_id=task.task_id))

        def told(row: Any) -> EventRecord:
            return for_caller(call.caller, event_record(row))

        return page_of(call.request, call.query, rows, told, key="id", newest_first=False)


class TaskCandidates(Endpoint):
    @operation(
        Operation.LIST_CANDIDATES,
        "The results that attempts of a task put forward, the canonical one first",
        answer=Page[Candidate],
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Page[Candidate] | Refusal:
        task = seen_task(call, task_id)
        if task is None:
            return not_found("task")
        return whole([for_caller(call.caller, each) for each in list_candidates(task.task_id)])


class TaskExplanation(Endpoint):
    @operation(
        Operation.EXPLAIN_TASK,
        "Why a task is not running",
        answer=Explanation,
        refusals=(Outcome.NOT_FOUND,),
    )
    def get(self, call: Call[None], task_id: str) -> Explanation | Refusal:
        found = explain_task(uuid_of(task_id, "task"), queues=queues_of(call.caller))
        return found or not_found("task")


def matches(if_none_match: str, etag: str) -> bool:
    """RFC 9110, 13.1.2: a list of tags, compared weakly, or `*`."""
    tags = {tag.strip().removeprefix("W/") for tag in if_none_match.split(",")}
    return etag in tags or "*" in tags


def read_task(call: Call[Any], task_id: UUID, *, status: int = 200) -> Answer | Refusal:
    """A task as this caller may see it: with its input only for who may see payloads."""
    payload = sees_payloads(call.caller)
    task = find_task(task_id, queues=queues_of(call.caller), with_input=payload)
    if task is None:
        return not_found("task")
    record = (
        for_caller(call.caller, task_record(task, with_input=True))
        if payload
        else without_input(task)
    )
    return Answer(record, status, {"ETag": f'"{task.state_version}"'})


def seen_task(call: Call[Any], task_id: str) -> "Task | None":
    return find_task(uuid_of(task_id, "task"), queues=queues_of(call.caller))


def without_input(task: "Task") -> dict[str, Any]:
    """Left out rather than null: null is an input too."""
    record = task_record(task)
    return {name: getattr(record, name) for name in record.__slots__ if name != "input"}


def _of_the_node(refusal: Refusal) -> Refusal:
    """A task is sent without the list of nodes, so that its faults are told without it."""
    if not refusal.errors:
        return refusal
    return invalid(
        *(
            FieldError(error.pointer.removeprefix("/nodes/0"), error.detail)
            for error in refusal.errors
        )
    )
