"""Bulk jobs: the set is frozen at the review, started with a reason, stopped if need be (console design, 3.4).

A task that comes to match afterwards is not in the set, and one that changed since the review is
left alone: each carries the state version that was seen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.ids import new_id
from coordinator.models import BulkItem, BulkJob, Task
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.seen import BulkSeen, changed_since
from coordinator.selectors.console_counts import in_time
from coordinator.selectors.task_filters import TaskFilter, pinned
from coordinator.selectors.task_walks import walk
from coordinator.states import CANCELLABLE_TASK, TaskState

from .events import EventKind, Fact, record
from .snoozes import SNOOZABLE, check_snooze, check_zone
from .texts import check_reason
from .transactions import in_transaction

MAX_TASKS: Final = 1_000
#: A review sifts no more tasks than these for the ones that its filter asks for.
MAX_LOOKED_AT: Final = 500_000
#: What was reviewed longer ago than this has to be looked at again.
GOOD_FOR: Final = timedelta(hours=1)


class Verb(StrEnum):
    CANCEL = "cancel"
    REOPEN = "reopen"
    SNOOZE = "snooze"  # hold back until a time
    WAKE = "wake"  # let go what waits for a time


#: The states in which a task allows it.
ALLOWS: Final[dict[Verb, frozenset[TaskState]]] = {
    Verb.CANCEL: CANCELLABLE_TASK,
    Verb.REOPEN: frozenset({TaskState.CANCELLED, TaskState.FAILED}),
    Verb.SNOOZE: SNOOZABLE,
    Verb.WAKE: SNOOZABLE,
}
DONE: Final = "DONE"
CANNOT: Final = "CANNOT"  # its state at the review did not allow it
STOPPED: Final = "STOPPED"  # the job was stopped before its turn


@dataclass(frozen=True, slots=True)
class Reviewed:
    bulk_id: UUID
    total: int
    can: int


@dataclass(frozen=True, slots=True)
class Started:
    bulk_id: UUID
    started_at: datetime
    replayed: bool = False
    outcome: str = "STARTED"


@dataclass(frozen=True, slots=True)
class Stopped:
    """`left` is how many tasks had not had their turn."""

    bulk_id: UUID
    left: int
    outcome: str = "STOPPED"


@in_transaction
def review_bulk(
    *,
    verb: Verb,
    wanted: TaskFilter | None,
    task_ids: Sequence[UUID] = (),
    asked: str = "",
    actor: Actor,
) -> Reviewed | Refusal:
    """Freeze the tasks that were selected, or the newest MAX_TASKS that a filter finds now.

    Nothing is done to them. Refused: INVALID where there are none, or the filter leads through too many.
    """
    read = in_time(lambda: _selected(task_ids) if wanted is None else _filtered(wanted))
    if read is None:
        return invalid(FieldError("/wanted", "the filter leads through too many tasks; narrow it"))
    found, more = read
    if not found:
        return invalid(FieldError("/task_ids", "no task is selected; choose at least one"))
    at = clock_of(run_round(CLOCK)[0])
    job = BulkJob.objects.create(
        bulk_id=new_id(),
        verb=verb,
        asked=asked,
        more=more,
        operator=actor.id,
        operator_name=actor.name,
        address=actor.address,
    )
    items = [
        BulkItem(
            job=job,
            task_id=task_id,
            node_id=node_id,
            queue=queue,
            seen_state=state,
            seen_version=version,
            seen_not_before=waits_until,
            outcome=None if _allows(verb, state, waits_until, at) else CANNOT,
        )
        for task_id, node_id, queue, state, version, waits_until in found
    ]
    BulkItem.objects.bulk_create(items)
    can = sum(item.outcome is None for item in items)
    return Reviewed(job.bulk_id, len(items), can)


_COLUMNS: Final = ("task_id", "node_id", "queue__name", "state", "state_version", "not_before")


def _allows(verb: Verb, state: str, waits_until: datetime | None, at: datetime) -> bool:
    waits = waits_until is not None and waits_until > at
    return state in ALLOWS[verb] and (waits or verb is not Verb.WAKE)


def _selected(task_ids: Sequence[UUID]) -> tuple[list[tuple[Any, ...]], bool]:
    rows = Task.objects.filter(task_id__in=task_ids).order_by("-task_id").values_list(*_COLUMNS)
    found = list(rows[: MAX_TASKS + 1])
    return found[:MAX_TASKS], len(found) > MAX_TASKS


def _filtered(wanted: TaskFilter) -> tuple[list[tuple[Any, ...]], bool]:
    """The newest that a filter finds, and whether there may be more: beyond the most, or where looking ended."""
    found: list[tuple[Any, ...]] = []
    for batch in walk(pinned(wanted), _COLUMNS, most=MAX_TASKS + 1, most_looked_at=MAX_LOOKED_AT):
        if isinstance(batch, UUID):
            return found[:MAX_TASKS], True
        found += batch
    return found, False


@in_transaction
def start_bulk(
    *,
    bulk_id: UUID,
    reason: str,
    not_before: datetime | None = None,
    actor: Actor,
    seen: BulkSeen | None = None,
) -> Started | Refusal:
    """Start what the same person reviewed. A repeat is the same receipt, and starts nothing twice.

    A snooze needs the time `not_before` which its tasks are held back, no other verb has one. Refused:
    FORBIDDEN to anybody else, STATE_VERSION_MISMATCH where the review is too old or the job is not as it was
    `seen`, ALREADY_SETTLED where nothing in it can be acted on, INVALID.
    """
    if faults := check_reason(reason):
        return invalid(*faults)
    run_round(name_point("bulk"))
    job = BulkJob.objects.select_for_update().filter(bulk_id=bulk_id).first()
    if job is None:
        return not_found("bulk job")
    if changed := changed_since(seen, _as_it_is(job)):
        return changed
    if job.started_at is not None:
        return Started(bulk_id, job.started_at, replayed=True)
    if job.operator != actor.id:
        told = "Whoever starts it has to have reviewed it; make a review of your own."
        return Refusal(Outcome.FORBIDDEN, told)
    at = clock_of(run_round(CLOCK)[0])
    if job.reviewed_at < at - GOOD_FOR:
        told = "The review is more than an hour old; look at the tasks again."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told)
    if faults := _faults_of_time(Verb(job.verb), not_before, at):
        return invalid(*faults)
    can = BulkItem.objects.filter(job=job, outcome=None).count()
    if not can:
        return Refusal(Outcome.ALREADY_SETTLED, "None of these tasks allows it.")
    BulkJob.objects.filter(pk=bulk_id).update(
        started_at=at, reason=reason, not_before=not_before, address=actor.address
    )
    until = {} if not_before is None else {"not_before": not_before}
    tell_bulk(
        EventKind.BULK_STARTED, job, actor, at, tasks=can, reason=reason, asked=job.asked, **until
    )
    return Started(bulk_id, at)


def _faults_of_time(verb: Verb, not_before: datetime | None, at: datetime) -> list[FieldError]:
    if verb is not Verb.SNOOZE:
        told = "Only a snooze has a time; leave it out."
        return [] if not_before is None else [FieldError("/not_before", told)]
    if not_before is None:
        return [FieldError("/not_before", "Say until when the tasks are held back.")]
    zone = check_zone("/not_before", not_before)
    return zone or check_snooze("/not_before", not_before, at)


@in_transaction
def stop_bulk(
    *, bulk_id: UUID, reason: str, actor: Actor, seen: BulkSeen | None = None
) -> Stopped | Refusal:
    """Leave what has not had its turn alone; what is done stays done. A repeat changes nothing.

    Refused: ALREADY_SETTLED where it is not at work, STATE_VERSION_MISMATCH where it is not as it was `seen`.
    """
    if faults := check_reason(reason):
        return invalid(*faults)
    run_round(name_point("bulk"))
    job = BulkJob.objects.select_for_update().filter(bulk_id=bulk_id).first()
    if job is None:
        return not_found("bulk job")
    if job.started_at is None or job.finished_at is not None or job.stopped_at is not None:
        return Refusal(Outcome.ALREADY_SETTLED, "It is not running.")
    if changed := changed_since(seen, _as_it_is(job)):
        return changed
    at = clock_of(run_round(CLOCK)[0])
    BulkJob.objects.filter(pk=bulk_id).update(stopped_at=at)
    left = BulkItem.objects.filter(job=job, outcome=None, taken_at=None)
    stopped = left.update(outcome=STOPPED, done_at=at)
    tell_bulk(EventKind.BULK_STOPPED, job, actor, at, tasks=stopped, reason=reason)
    return Stopped(bulk_id, stopped)


def _as_it_is(job: BulkJob) -> BulkSeen:
    return BulkSeen(job.started_at, job.stopped_at, job.finished_at)


def tell_bulk(kind: EventKind, job: BulkJob, actor: Actor, at: datetime, **told: object) -> None:
    data = {"bulk_id": job.bulk_id, "verb": job.verb, **told}
    run_round(record([Fact(kind, data=data)], actor=actor, at=at))
