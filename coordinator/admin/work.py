"""Tasks and queues: looked at, and with the deeds that a person on call may do from a list."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy

from coordinator import models as m
from coordinator.actors import Operator
from coordinator.services.cancels import cancel_task
from coordinator.services.epochs import set_intake
from coordinator.services.incidents import open_incident
from coordinator.states import Intake

from .deeds import Deed
from .reading import ReadOnly

Answers = Sequence[tuple[str, Any]]


def _cancel(rows: Sequence[Any], reason: str, actor: Operator) -> Answers:
    return [
        (
            str(task),
            cancel_task(
                task_id=task.task_id,
                expected_state_version=task.state_version,
                reason=reason,
                actor=actor,
            ),
        )
        for task in rows
    ]


def _intake(intake: Intake) -> Any:
    def act(rows: Sequence[Any], reason: str, actor: Operator) -> Answers:
        return [
            (queue.name, set_intake(queue=queue.name, intake=intake, reason=reason, actor=actor))
            for queue in rows
        ]

    return act


def _incident(rows: Sequence[Any], reason: str, actor: Operator) -> Answers:
    names = [queue.name for queue in rows]
    return [(", ".join(names), open_incident(queues=names, reason=reason, actor=actor))]


_CANCEL: Final = Deed(
    gettext_lazy("Cancel tasks"),
    gettext_lazy("Whoever holds one is refused from now on. Calls that may be out stay on the list to reconcile."),
    _cancel,
)  # fmt: skip
_STOP: Final = Deed(
    gettext_lazy("Stop the intake"),
    gettext_lazy("Nothing new is claimed in these queues; what runs goes on."),
    _intake(Intake.STOPPED),
)
_OPEN: Final = Deed(
    gettext_lazy("Open the intake"),
    gettext_lazy("Workers claim in these queues again."),
    _intake(Intake.OPEN),
    is_grave=False,
)
_INCIDENT: Final = Deed(
    gettext_lazy("Open an incident"),
    gettext_lazy("One incident over these queues: claims and acceptances stop at once. It goes on in the console."),
    _incident,
)  # fmt: skip


@admin.register(m.Task)
class Tasks(ReadOnly):
    list_display = (
        "task_id", "node_id", "kind", "queue", "state", "owner", "claim_generation", "created_at",
    )  # fmt: skip
    list_select_related = ("queue",)
    found_by = ("run__run_id", "attempt_id")
    payloads = ("input",)
    raw_id_fields = ("run", "supersedes", "result_commit")
    actions = ("cancel_tasks",)

    @admin.action(description=_CANCEL.title, permissions=["cancel"])
    def cancel_tasks(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return _CANCEL(self, request, queryset)

    def has_cancel_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("coordinator.cancel")


@admin.register(m.Queue)
class Queues(ReadOnly):
    list_display = (
        "name", "scheduler_epoch", "intake", "active_pool", "rollout_stage", "max_attempts", "default_ttl_seconds",
    )  # fmt: skip
    list_select_related = ("active_pool",)
    found_by = ("name", "active_pool__name")
    ordering = ("name",)
    actions = ("stop_intake", "open_intake", "open_incident")

    @admin.action(description=_STOP.title, permissions=["operate"])
    def stop_intake(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return _STOP(self, request, queryset)

    @admin.action(description=_OPEN.title, permissions=["operate"])
    def open_intake(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return _OPEN(self, request, queryset)

    @admin.action(description=_INCIDENT.title, permissions=["operate"])
    def open_incident(self, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
        return _INCIDENT(self, request, queryset)

    def has_operate_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm("coordinator.operate_incidents")
