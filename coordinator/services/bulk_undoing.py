"""Taking a snooze back: the one bulk action that can be undone as a whole (console design, 3.5)."""

from uuid import UUID

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.ids import new_id
from coordinator.models import BulkItem, BulkJob
from coordinator.outcomes import Outcome, Refusal, not_found
from coordinator.rounds import name_point, run_round

from .bulks import DONE, Started, Verb, tell_bulk
from .events import EventKind
from .transactions import in_transaction


@in_transaction
def undo_bulk(*, bulk_id: UUID, actor: Actor) -> Started | Refusal:
    """Take a snooze back: what it held back, and nothing else has changed since, waits as it did before.

    A job of its own, started at once, by anybody who may start one; a repeat is its receipt. Refused:
    STATE_VERSION_MISMATCH while a task of it waits for its turn (what came later would stay held back),
    ALREADY_SETTLED where it was no snooze, or has held nothing back.
    """
    run_round(name_point("bulk"))
    job = BulkJob.objects.select_for_update().filter(bulk_id=bulk_id).first()
    if job is None:
        return not_found("bulk job")
    made = BulkJob.objects.filter(undoes=bulk_id).first()
    if made is not None and made.started_at is not None:
        return Started(made.bulk_id, made.started_at, replayed=True)
    if BulkItem.objects.filter(job=job, outcome=None).exists():
        told = "It is still at work, or was never started; stop it, or wait for its end."
        return Refusal(Outcome.STATE_VERSION_MISMATCH, told)
    done = list(BulkItem.objects.filter(job=job, outcome=DONE).order_by("id"))
    if job.verb != Verb.SNOOZE or not done:
        return Refusal(Outcome.ALREADY_SETTLED, "Only what a snooze has held back can be let go.")
    at = clock_of(run_round(CLOCK)[0])
    undo = BulkJob.objects.create(
        bulk_id=new_id(),
        verb=Verb.WAKE,
        undoes=bulk_id,
        reason=f"Undoes the snooze {bulk_id}.",
        operator=actor.id,
        operator_name=actor.name,
        address=actor.address,
        reviewed_at=at,
        started_at=at,
    )
    BulkItem.objects.bulk_create([_undone(undo, item) for item in done])
    facts = {"tasks": len(done), "reason": undo.reason, "undoes": bulk_id}
    tell_bulk(EventKind.BULK_STARTED, undo, actor, at, **facts)
    return Started(undo.bulk_id, at)


def _undone(undo: BulkJob, item: BulkItem) -> BulkItem:
    """The task as the snooze left it: one version further."""
    return BulkItem(
        job=undo,
        task_id=item.task_id,
        node_id=item.node_id,
        queue=item.queue,
        seen_state=item.seen_state,
        seen_version=item.seen_version + 1,
        seen_not_before=item.seen_not_before,
    )
