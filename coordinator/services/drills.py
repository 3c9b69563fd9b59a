"""The fence drill: canary tasks on a queue, through the same services as everybody's (contract 14).

Zero fenced calls prove nothing; a call that must be refused and was does. Canaries are of a
kind of their own: no worker is offered one, lists and figures leave them out.
"""

import os
from collections.abc import Callable
from dataclasses import asdict
from datetime import timedelta
from typing import Final

from django.db.models import F, Max, Q

from coordinator.actors import Actor, ActorKind, Worker, system
from coordinator.canary import DRILL, SUBMITTED_BY
from coordinator.clock import CLOCK, clock_of, read_clock
from coordinator.ids import new_id
from coordinator.models import Credential, Downstream, DrillRun, Pool, Queue, Run
from coordinator.outcomes import Refusal, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.drills import OVERDUE, DrillRecord, drill_record
from coordinator.states import Guarantee, RunState

from .cancels import cancel_run
from .drill_script import NODES, SLOT, DrillStep, Script, wait_until_lapsed
from .events import EventKind, Fact, record
from .grants import Claim
from .graphs import NodeSpec
from .runs import Submitted, submit_run
from .transactions import in_transaction

#: How often each queue is drilled, and how many queues one call drills at most (each takes about a second).
EVERY: Final = timedelta(minutes=15)
MAX_AT_ONCE: Final = 20
#: Older drills are forgotten; their events stay.
KEPT: Final = timedelta(days=30)
#: Canary runs that a process left behind when it died are cancelled by the next drill of the queue.
_ABANDONED_AFTER: Final = timedelta(minutes=10)
MAX_ABANDONED: Final = 20
_ATTEMPTS: Final = 10
#: Newer than any contract that a pool may ask for: it is the coordinator itself that calls.
_CONTRACT: Final = "claim.v9999"


def run_drill(
    *,
    queue: str,
    reason: str,
    actor: Actor,
    wait: Callable[[Claim], None] = wait_until_lapsed,
) -> DrillRecord | Refusal:
    """Try the guard on one queue, record each step, and raise an alarm where one was not refused as it must be.

    Takes about a second (a real lease must run out). Intake, stage and active pool do not
    keep it away: none of them is the guard. A bump that crosses it makes it void: `passed` is
    None. Refused: NOT_FOUND.
    """
    found = Queue.objects.filter(name=queue).first()
    if found is None:
        return not_found("queue")
    drill = _begin(found.id, actor)
    run = submit_run(
        queue=queue,
        name=DRILL,
        metadata={},
        nodes=_nodes(),
        actor=system("drill"),
        may_rehearse=False,
    )
    steps: list[DrillStep] = []
    if isinstance(run, Submitted):
        tasks = {task.node_id: task.task_id for task in run.tasks}
        script = Script(tasks, found.scheduler_epoch, _worker(queue), wait)
        steps = script.run()
        if not all(step.passed for step in steps):
            cancel_run(run_id=run.run_id, reason="fence drill", actor=system("drill"))
    return _finish(drill, found.scheduler_epoch, steps, reason=reason, actor=actor)


def run_due_drills(*, actor: Actor, limit: int = MAX_AT_ONCE) -> int:
    """Drill up to `limit` queues that were not drilled for `EVERY`, the longest first; how many were.

    Then raise an alarm, once a gap, for each queue whose drill has not passed within the hour.
    """
    due = (
        Queue.objects.annotate(drilled_at=Max("drills__started_at"))
        .filter(Q(drilled_at=None) | Q(drilled_at__lt=read_clock() - EVERY))
        .order_by(F("drilled_at").asc(nulls_first=True), "id")
        .values_list("name", flat=True)[: min(limit, MAX_AT_ONCE)]
    )
    drilled = [run_drill(queue=name, reason="it was due", actor=actor) for name in list(due)]
    _watch(actor)
    return len(drilled)


def _nodes() -> list[NodeSpec]:
    return [
        NodeSpec(
            node_id=name,
            kind=DRILL,
            input={"drill": name},
            max_attempts=_ATTEMPTS,
            slots={SLOT: DRILL} if name == "conflict" else {},
        )
        for name in NODES
    ]


@in_transaction
def _begin(queue_id: int, actor: Actor) -> DrillRun:
    """The drill's row; what it works with, where that is missing."""
    _, rows = run_round(name_point("drill"), CLOCK)
    at = clock_of(rows)
    Pool.objects.get_or_create(name=DRILL)
    Downstream.objects.get_or_create(
        name=DRILL, defaults={"kind": "drill", "guarantee": Guarantee.CONDITIONAL_WRITE}
    )
    return DrillRun.objects.create(queue_id=queue_id, asked_by=actor.label, started_at=at)


def _worker(queue: str) -> Worker:
    """The drill's credential: revoked from the start, with a token that nobody knows. Only this service acts by it."""
    row = Credential.objects.filter(pool_id=DRILL, name=DRILL).order_by("id").first()
    if row is None:
        now = read_clock()
        row = Credential.objects.create(
            credential_id=new_id(),
            name=DRILL,
            pool_id=DRILL,
            queues=[],
            scopes=[],
            prefix=f"{DRILL}.{new_id().hex}",
            token_sha256=os.urandom(32),
            created_by=SUBMITTED_BY,
            revoked_at=now,
            revoked_by=SUBMITTED_BY,
        )
    return Worker(
        kind=ActorKind.WORKER,
        name=DRILL,
        id=row.pk,
        pool=DRILL,
        queues=frozenset({queue}),
        contract=_CONTRACT,
    )


@in_transaction
def _finish(
    drill: DrillRun, epoch: int, steps: list[DrillStep], *, reason: str, actor: Actor
) -> DrillRecord:
    _, rows = run_round(name_point("drill"), CLOCK)
    at = clock_of(rows)
    failed = [step.step for step in steps if not step.passed]
    crossed = (
        Queue.objects.values_list("scheduler_epoch", flat=True).get(id=drill.queue_id) != epoch
    )
    passed = None if crossed else bool(steps) and not failed
    DrillRun.objects.filter(id=drill.pk).update(
        finished_at=at, passed=passed, steps=[asdict(step) for step in steps]
    )
    told = {"drill_id": drill.pk, "passed": passed, "failed": failed, "reason": reason}
    facts = [Fact(EventKind.DRILLED, queue_id=drill.queue_id, data=told)]
    if passed is False:
        facts.append(
            Fact(EventKind.ALARM, queue_id=drill.queue_id, data={"alarm": "DRILL_FAILED", **told})
        )
    run_round(record(facts, actor=actor, at=at))
    return drill_record(DrillRun.objects.select_related("queue").get(id=drill.pk))


def _watch(actor: Actor) -> None:
    """Cancel what dead drills left behind; raise the alarm of an overdue one, once for each gap."""
    now = read_clock()
    abandoned = Run.objects.filter(
        state=RunState.ACTIVE, submitted_by=SUBMITTED_BY, created_at__lt=now - _ABANDONED_AFTER
    ).order_by("id")
    for run_id in list(abandoned.values_list("run_id", flat=True)[:MAX_ABANDONED]):
        cancel_run(run_id=run_id, reason="an abandoned fence drill", actor=system("drill"))
    _raise_overdue(actor)
    DrillRun.objects.filter(started_at__lt=now - KEPT).delete()


@in_transaction
def _raise_overdue(actor: Actor) -> None:
    _, rows = run_round(name_point("drill"), CLOCK)
    at = clock_of(rows)
    passed_at = Max("drills__started_at", filter=Q(drills__passed=True))
    overdue = (
        Queue.objects.annotate(passed_at=passed_at)
        .filter(created_at__lt=at - OVERDUE)
        .filter(Q(passed_at=None) | Q(passed_at__lt=at - OVERDUE))
        .values_list("id", "passed_at")
    )
    facts = [
        Fact(
            EventKind.ALARM,
            queue_id=queue_id,
            data={"alarm": "DRILL_OVERDUE", "last_passed_at": last},
            refusal_key=f"alarm:drill:{queue_id}:{last.isoformat() if last else 'never'}",
        )
        for queue_id, last in overdue
    ]
    if facts:
        run_round(record(facts, actor=actor, at=at))
