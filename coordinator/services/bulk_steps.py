"""The steps of a started bulk job: short, restartable, safe to run twice at once.

An item is taken for a minute, then acted on by the ordinary service under the version that was
seen, then its outcome is written. Whoever dies in between leaves an item that is taken again; that
its task changed by this very job is told by the event that the job wrote.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.contrib.auth.models import User

from coordinator.actors import Actor, ActorKind
from coordinator.clock import CLOCK, clock_of
from coordinator.models import BulkItem, BulkJob, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.rounds import Statement, name_point, run_round

from .bulks import DONE, STOPPED, Verb
from .cancels import Cancelled, cancel_task
from .events import EventKind, Fact, record
from .reopenings import Reopened, reopen_task
from .snoozes import Snoozed, Woken, snooze_task, wake_task
from .transactions import in_transaction

#: Items of one step; the next second brings the next one.
STEP: Final = 50
TAKEN_SECONDS: Final = 60
CHANGED: Final = "CHANGED"  # since the review; look again

_TAKE: Final = """
UPDATE coordinator_bulkitem SET taken_at = clock_timestamp() WHERE id IN (
  SELECT i.id FROM coordinator_bulkjob j JOIN coordinator_bulkitem i ON i.job_id = j.bulk_id
  WHERE j.started_at IS NOT NULL AND j.finished_at IS NULL AND i.outcome IS NULL
    AND (i.taken_at IS NULL OR i.taken_at < clock_timestamp() - make_interval(secs => %s))
  ORDER BY j.started_at, i.id LIMIT %s FOR UPDATE OF i SKIP LOCKED)
RETURNING id, job_id, task_id, seen_version, seen_not_before
"""


@dataclass(frozen=True, slots=True)
class _Taken:
    item_id: int
    bulk_id: UUID
    task_id: UUID
    seen_version: int
    seen_not_before: datetime | None


def run_bulk_step(*, limit: int = STEP) -> int:
    """Act on up to `limit` items of the jobs that were started first; how many."""
    taken = _take(limit)
    jobs = {job.bulk_id: job for job in BulkJob.objects.filter(pk__in={t.bulk_id for t in taken})}
    for item in taken:
        outcome, detail = _act(jobs[item.bulk_id], item)
        _note(item, outcome, detail)
    for bulk_id in BulkJob.objects.filter(started_at__isnull=False, finished_at=None).values_list(
        "bulk_id", flat=True
    )[:STEP]:
        _finish(bulk_id)
    return len(taken)


@in_transaction
def _take(limit: int) -> list[_Taken]:
    (rows,) = run_round(Statement(_TAKE, (TAKEN_SECONDS, limit)))
    return [_Taken(*row) for row in sorted(rows)]


def _act(job: BulkJob, item: _Taken) -> tuple[str, str]:
    """By the service that the person would have called. What they may not do any more is not done."""
    person = User.objects.filter(pk=job.operator, is_active=True).first()
    if person is None or not person.has_perm("coordinator.cancel"):
        return Outcome.FORBIDDEN, "The person who started it may not do this any more."
    answer = _answer(job, item)
    if not isinstance(answer, Refusal) or _did_it_before(job, item):
        return DONE, ""
    if answer.outcome is Outcome.STATE_VERSION_MISMATCH:
        return CHANGED, answer.detail
    return answer.outcome, answer.detail


def _answer(job: BulkJob, item: _Taken) -> Cancelled | Reopened | Snoozed | Woken | Refusal:
    assert job.reason is not None, "it was started"
    whom, seen, why, actor = item.task_id, item.seen_version, job.reason, _actor(job)
    match Verb(job.verb):
        case Verb.CANCEL:
            return cancel_task(task_id=whom, expected_state_version=seen, reason=why, actor=actor)
        case Verb.REOPEN:
            return reopen_task(task_id=whom, expected_state_version=seen, reason=why, actor=actor)
        case Verb.SNOOZE:
            assert job.not_before is not None, "a started snooze has its time"
            return snooze_task(
                task_id=whom,
                expected_state_version=seen,
                not_before=job.not_before,
                reason=why,
                actor=actor,
            )
        case Verb.WAKE:
            return wake_task(
                task_id=whom,
                expected_state_version=seen,
                not_before=item.seen_not_before if job.undoes else None,
                reason=why,
                actor=actor,
            )


def _actor(job: BulkJob) -> Actor:
    return Actor(
        ActorKind.OPERATOR, job.operator_name, job.operator, _request_id(job.bulk_id), job.address
    )


def _request_id(bulk_id: UUID) -> str:
    return f"bulk:{bulk_id}"


def _did_it_before(job: BulkJob, item: _Taken) -> bool:
    """Whether a step of this job that died before it could say so has acted on the task."""
    kinds = [EventKind.CANCELLED, EventKind.REOPENED, EventKind.SNOOZED, EventKind.WOKEN]
    told = Event.objects.filter(task_id=item.task_id, kind__in=kinds)
    return told.filter(request_id=_request_id(job.bulk_id)).exists()


@in_transaction
def _note(item: _Taken, outcome: str, detail: str) -> None:
    at = clock_of(run_round(CLOCK)[0])
    row = BulkItem.objects.filter(pk=item.item_id, outcome=None)
    row.update(outcome=outcome, detail=detail, done_at=at)


@in_transaction
def _finish(bulk_id: UUID) -> None:
    """Once, when nothing is left; with the counts, so that the history tells it alone."""
    run_round(name_point("bulk"))
    job = BulkJob.objects.select_for_update().get(pk=bulk_id)
    items = BulkItem.objects.filter(job=job)
    if job.finished_at is not None or items.filter(outcome=None).exists():
        return
    at: datetime = clock_of(run_round(CLOCK)[0])
    BulkJob.objects.filter(pk=bulk_id).update(finished_at=at)
    counts: dict[str, int] = {}
    for outcome in items.values_list("outcome", flat=True):
        counts[str(outcome)] = counts.get(str(outcome), 0) + 1
    told = {"bulk_id": bulk_id, "verb": job.verb, "outcomes": counts}
    if job.stopped_at is not None:
        told["stopped"] = counts.get(STOPPED, 0)
    fact = Fact(EventKind.BULK_FINISHED, data=told)
    run_round(record([fact], actor=_actor(job), at=at))
