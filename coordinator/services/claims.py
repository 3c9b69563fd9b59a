"""Claiming: the queue's next tasks, or one by id (contract 7).

One transaction: gate shared → the queue → candidates `FOR UPDATE SKIP LOCKED` → the clock →
judge → grant. A batch of N costs the same number of statements as a batch of one.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Final
from uuid import UUID

import orjson
from django.db import transaction

from coordinator.actors import Worker
from coordinator.canary import DRILL
from coordinator.clock import CLOCK, clock_of
from coordinator.fence import IsCurrent, Point, TaskRow, judge_epoch, judge_grant
from coordinator.gates import queue_gate, queue_gates_of_tasks
from coordinator.gathering import Gathering
from coordinator.intake_shares import is_let_in
from coordinator.outcomes import Current, Outcome, Reason, Refusal, not_found
from coordinator.rounds import Statement, close_with_round, name_point, run_round
from coordinator.shadow.lanes import is_rehearsal
from coordinator.states import Intake, Replay, RolloutStage, TaskState

from . import answers, leases, locking, queue_ids, rehearsals
from .answers import RequestKey
from .candidates import MAX_CLAIMS, candidates, in_its_order, offered
from .confirming import run_round_for
from .events import EventKind, Fact, record, refusal_fact
from .grants import Claim, Grants, Place, read_claims
from .identity import confirm_if_ahead, held, hold_of
from .locking import QueueRow
from .serial import free_scopes
from .transactions import in_transaction

#: Of one call that found nothing to grant: how often it looks again behind tasks that were lapsed or used up.
MAX_MORE_ROUNDS: Final = 10
_NOTHING: Final = Statement("SELECT 1 WHERE false")


@dataclass(frozen=True, slots=True)
class Claimed:
    """`superseded`: attempts of a replayed claim that are no longer current."""

    scheduler_epoch: int
    claims: list[Claim]
    replayed: bool = False
    superseded: list[UUID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Demand:
    """What a claimant asks for."""

    worker: Worker
    scheduler_epoch: int
    owner: str
    ttl_seconds: int | None
    request: RequestKey | None
    limit: int = 1


def claim_tasks(
    *,
    queue: str,
    worker: Worker,
    scheduler_epoch: int,
    owner: str,
    ttl_seconds: int | None = None,
    limit: int = 1,
    kinds: Sequence[str] | None = None,
    request: RequestKey | None = None,
    together: "Gathering[Demand, Answer] | None" = None,
) -> Claimed | Refusal:
    """Grant up to `limit` (at most MAX_CLAIMS) of the queue's claimable tasks.

    By priority, then by the instant since when a task may be claimed; READY and lapsed ones
    alike. An idle queue is swept first, so that a lapsed lease never waits for a background
    job; and tasks that end here, their attempts used up or an effect of theirs in doubt, keep
    nobody from what stands behind them. A claim of one that stands in `together` is made with
    those that arrive at the same time. Refused: WRONG_POOL, FENCED (stale epoch), INTAKE_STOPPED, NOT_FOUND.
    """
    size = max(1, min(limit, MAX_CLAIMS))
    demand = Demand(worker, scheduler_epoch, owner, ttl_seconds, request, size)
    for queue_id in queue_ids.candidates(queue):
        claim = partial(_claim_next, queue=queue, queue_id=queue_id, kinds=kinds)
        if together is None or size > 1:
            (answer,) = claim([demand])
        else:
            answer = together.ask(_alike(demand, queue, queue_id, kinds), demand, claim)
        for _ in range(MAX_MORE_ROUNDS):
            if not isinstance(answer, _Nothing):
                break
            if not (answer.made_way or leases.sweep_queue(queue_id)):
                break
            (answer,) = claim([demand], width=MAX_CLAIMS)
        match answer:
            case None:
                continue  # the remembered id is another queue's now
            case _Rehearse():
                return _claim_rehearsals(demand, queue=queue, limit=size, kinds=kinds)
            case _Nothing():
                return Claimed(answer.scheduler_epoch, [])
            case _:
                return answer
    return not_found("queue")


@dataclass(frozen=True, slots=True)
class _Nothing:
    """No task was granted. `made_way`: those that stood in front are out of the way now, so that others may follow."""

    scheduler_epoch: int
    made_way: bool


@dataclass(frozen=True, slots=True)
class _Rehearse:
    """The queue is in SHADOW: what is handed out comes from the lane beside it."""


#: What one demand comes to; None where the remembered id is another queue's now.
Answer = Claimed | Refusal | _Nothing | _Rehearse | None


def _claim_rehearsals(
    demand: Demand, *, queue: str, limit: int, kinds: Sequence[str] | None
) -> Claimed | Refusal:
    """The next rehearsals. The caller's epoch was the queue's; the fences carry the lane's own."""
    lane = rehearsals.find_lane(queue=queue)
    if lane is None:
        return Claimed(demand.scheduler_epoch, [])
    name, epoch = lane
    answer = claim_tasks(
        queue=name,
        worker=demand.worker,
        scheduler_epoch=epoch,
        owner=demand.owner,
        ttl_seconds=demand.ttl_seconds,
        limit=limit,
        kinds=kinds,
        request=demand.request,
    )
    return (
        replace(answer, scheduler_epoch=demand.scheduler_epoch)
        if isinstance(answer, Claimed)
        else answer
    )


class _Separately(Exception):
    """What is to be said differs from one demand to the next: each is heard alone."""


def _alike(
    demand: Demand, queue: str, queue_id: int, kinds: Sequence[str] | None
) -> tuple[Hashable, ...]:
    """Demands that differ in nothing but owner, request and sender may be met together."""
    credential = replace(demand.worker, request_id="", address="")
    wanted = None if kinds is None else tuple(kinds)
    return (queue, queue_id, credential, demand.scheduler_epoch, demand.ttl_seconds, wanted)


@in_transaction
def _claim_next(
    demands: Sequence[Demand],
    *,
    queue: str,
    queue_id: int,
    kinds: Sequence[str] | None,
    width: int | None = None,
) -> Sequence[Answer]:
    """Grant each demand what it asks for, of the first `width` candidates; several are alike (`_alike`).

    Raises _Separately, so that nothing has happened, where several are not simply granted.
    """
    demand, *others = demands
    width = width or sum(each.limit for each in demands)
    gate, look_up = _once([each.request for each in demands if each.request])
    _, _, *_, queues, stored, _, found, _, clock_rows = run_round_for(
        demand.worker,
        name_point(Point.CLAIM, by_id=True),
        queue_gate(queue_id),
        *gate,
        locking.read_queue(queue_id),
        look_up,
        *in_its_order(candidates(queue_id, kinds, width)),
        CLOCK,
    )
    row = QueueRow._make(queues[0]) if queues else None
    if others and (row is None or row.name != queue or stored or not _is_simple(row, demand)):
        raise _Separately
    if row is None or row.name != queue:
        return [None]
    clock = clock_of(clock_rows)
    answer = answers.stored_answer(demand.request, stored) if demand.request else None
    refusal = _refusal(row, demand, clock, is_repeat=answer is not None)
    if refusal is not None:
        return [refusal]
    if row.rollout_stage == RolloutStage.SHADOW and not is_rehearsal(queue):
        return [_Rehearse()]
    if answer is not None:
        return [answer if isinstance(answer, Refusal) else _replay(answer, row, clock)]
    tasks = [TaskRow._make(candidate) for candidate in found]
    if row.rollout_stage == RolloutStage.IDEMPOTENT_READS or row.intake_share:
        tasks = offered(row, kinds, width)
    return _grant(demands, row, tasks, clock)


def _is_simple(row: QueueRow, demand: Demand) -> bool:
    """Whether nothing but the tasks decides what is granted: no refusal, no lane beside the queue."""
    is_beside = row.rollout_stage == RolloutStage.SHADOW and not is_rehearsal(row.name)
    return not is_beside and _gate_refusal(row, demand, None) is None


@in_transaction
def claim_task(
    *,
    task_id: UUID,
    expected_state_version: int,
    scheduler_epoch: int,
    owner: str,
    worker: Worker,
    ttl_seconds: int | None = None,
    request: RequestKey | None = None,
) -> Claim | Refusal:
    """Grant one task by id, if it is claimable and unchanged since the caller looked.

    Refused besides what `claim_tasks` refuses: STATE_VERSION_MISMATCH, NOT_CLAIMABLE.
    """
    demand = Demand(worker, scheduler_epoch, owner, ttl_seconds, request)
    gate, look_up = _once([request] if request else [])
    _, _, *_, locked, queues, stored, clock_rows = run_round_for(
        worker,
        name_point(Point.CLAIM, by_id=True),
        queue_gates_of_tasks([task_id]),
        *gate,
        locking.lock_tasks([task_id]),
        locking.read_queues_of_tasks([task_id]),
        look_up,
        CLOCK,
    )
    if not locked:
        return not_found("task")
    task, row, clock = TaskRow._make(locked[0]), QueueRow._make(queues[0]), clock_of(clock_rows)
    if not worker.reaches(row.name):
        return not_found("task")
    answer = answers.stored_answer(request, stored) if request else None
    refusal = _refusal(row, demand, clock, task, is_repeat=answer is not None)
    if refusal is not None:
        return refusal
    if isinstance(answer, Refusal):
        return answer
    if answer is not None:
        replay = _replay(answer, row, clock)
        return (
            replay.claims[0] if replay.claims else _record(_taken(task), demand, row, clock, task)
        )
    is_anothers = task.kind == DRILL and not _is_drill(demand, task)
    refusal = (
        _taken(task) if is_anothers else _by_id_refusal(task, row, expected_state_version, clock)
    )
    if refusal is not None:
        return _record(refusal, demand, row, clock, task)
    (granted,) = _grant([demand], row, [task], clock)
    if isinstance(granted, _Nothing):
        return _record(_taken(task), demand, row, clock, task)
    return granted.claims[0]


def _once(requests: Sequence[RequestKey]) -> tuple[list[Statement], Statement]:
    """The gates of the requests' keys, and the look-up of their stored answers."""
    if not requests:
        return [], _NOTHING
    if len(requests) == 1:
        return [answers.one_at_a_time(requests[0])], answers.look_up(requests[0])
    if len({(each.scope, each.key) for each in requests}) < len(requests):
        raise _Separately  # one of them repeats another, and is told what that one is given
    return [answers.each_one_at_a_time(requests)], answers.look_up_all(requests)


def _by_id_refusal(task: TaskRow, row: QueueRow, expected: int, clock: datetime) -> Refusal | None:
    if task.state_version != expected:
        return Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"The task is at state version {task.state_version}, not {expected}; look again.",
            evidence_recorded=True,
            extra={"state_version": task.state_version, "task_state": task.state},
        )
    due = task.lease_expires_at if task.state == TaskState.CLAIMED else task.claimable_at
    claimable = (
        task.state in (TaskState.READY, TaskState.CLAIMED) and due is not None and due <= clock
    )
    return None if claimable and (task.kind == DRILL or _offers(row, task)) else _taken(task)


def _taken(task: TaskRow) -> Refusal:
    return Refusal(
        Outcome.NOT_CLAIMABLE,
        f"The task is {task.state} and can't be claimed now; GET its `explain` says why.",
        evidence_recorded=True,
        extra={"task_state": task.state},
    )


def _refusal(
    row: QueueRow,
    demand: Demand,
    clock: datetime,
    task: TaskRow | None = None,
    *,
    is_repeat: bool = False,
) -> Refusal | None:
    """Pool, contract, epoch and intake, in this order; recorded (contract 7, 12).

    A repeat is told of grants that are there already: a stopped intake doesn't keep them from it, unless the
    database may not be the one that they were given by.
    """
    refusal = _gate_refusal(row, demand, task)
    if (
        is_repeat
        and refusal is not None
        and refusal.outcome is Outcome.INTAKE_STOPPED
        and not row.hold
    ):
        return None
    return None if refusal is None else _record(refusal, demand, row, clock, task)


def _is_drill(demand: Demand, task: TaskRow | None) -> bool:
    """The fence drill takes its canaries whichever pool is active, at every stage, intake or not."""
    return task is not None and task.kind == DRILL and demand.worker.pool == DRILL


def _gate_refusal(row: QueueRow, demand: Demand, task: TaskRow | None) -> Refusal | None:
    worker, is_drill = demand.worker, _is_drill(demand, task)
    if worker.pool != row.active_pool and not is_drill:
        return Refusal(
            Outcome.WRONG_POOL,
            f"Pool `{worker.pool}` is not the active pool of queue `{row.name}`.",
            evidence_recorded=True,
        )
    if contract_number(worker.contract) < contract_number(row.min_contract):
        return Refusal(
            Outcome.WRONG_POOL,
            f"Pool `{row.active_pool}` asks for {row.min_contract}; send the X-Claim-Contract header.",
            evidence_recorded=True,
        )
    mismatch = judge_epoch(demand.scheduler_epoch, epoch=row.scheduler_epoch)
    if mismatch is not None:
        return Refusal(
            Outcome.FENCED,
            f"The queue's epoch is {row.scheduler_epoch}.",
            reason=mismatch,
            evidence_recorded=True,
            current=Current(row.scheduler_epoch),
        )
    hold = hold_of(row)
    if hold:
        return held(hold)
    if row.intake == Intake.STOPPED and not (is_drill or _lets_in(row, task)):
        return Refusal(
            Outcome.INTAKE_STOPPED,
            f"Intake of queue `{row.name}` is stopped.",
            evidence_recorded=True,
        )
    return None


def _lets_in(row: QueueRow, task: TaskRow | None) -> bool:
    """A canary lets a part of the tasks in; which ones, a claim of the next ones asks the database."""
    return row.intake_share > 0 and (task is None or is_let_in(task.task_id, row.intake_share))


def contract_number(contract: str) -> int:
    """3 for `claim.v3`; 0 for a binary that names no contract that we know."""
    name, _, number = contract.partition(".v")
    return (
        int(number)
        if name == "claim" and number.isascii() and number.isdigit() and len(number) < 5
        else 0
    )


def _record(
    refusal: Refusal, demand: Demand, row: QueueRow, clock: datetime, task: TaskRow | None
) -> Refusal:
    subject = f"{demand.worker.label}:{task.task_id if task else row.name}:{demand.scheduler_epoch}"
    fact = refusal_fact(refusal, point=Point.CLAIM, subject=subject, task=task, owner=demand.owner)
    facts = [fact if task else _of_queue(fact, row)]
    if refusal.reason is Reason.AHEAD:
        transaction.on_commit(partial(confirm_if_ahead, row.name, row.scheduler_epoch))
        told = {
            "alarm": "FENCE_AHEAD",
            "point": Point.CLAIM,
            "scheduler_epoch": demand.scheduler_epoch,
        }
        facts.append(
            Fact(EventKind.ALARM, queue_id=row.id, data=told, refusal_key=f"alarm:{subject}")
        )
    run_round(record(facts, actor=demand.worker, at=clock))
    return refusal


def _of_queue(fact: Fact, row: QueueRow) -> Fact:
    return Fact(fact.kind, queue_id=row.id, data=fact.data, refusal_key=fact.refusal_key)


def _grant(
    demands: Sequence[Demand], row: QueueRow, tasks: Sequence[TaskRow], clock: datetime
) -> list[Claimed | _Nothing]:
    """What each demand gets, the first ones first."""
    demand, *others = demands
    tasks, mates = free_scopes(tasks, clock)
    passed = {
        task.task_id: verdict
        for task in (*tasks, *mates)
        if (verdict := _judge(demand, row, task, clock)) is not None
    }
    grants = Grants.of(
        [task for task in tasks if task.task_id in passed],
        [mate for mate in mates if mate.task_id in passed],
        row,
        clock,
        worker=demand.worker,
        ttl=demand.ttl_seconds,
        places=[
            Place(each.owner, each.worker if others else None)
            for each in demands
            for _ in range(each.limit)
        ],
        passed=list(passed.values()),
    )
    statements = grants.statements()
    if not grants.granted:
        if statements:
            run_round(*statements)
        return [_Nothing(row.scheduler_epoch, made_way=bool(statements)) for _ in demands]
    shares = _dealt(demands, grants.attempt_ids)
    statements += answers.store_all(
        [
            (each.request, orjson.dumps(share, default=str).decode())
            for each, share in zip(demands, shares, strict=True)
            if each.request and share
        ]
    )
    reading = grants.reading()
    rounds = close_with_round(*statements, *reading.statements)
    claims = iter(reading.claims(rounds[len(statements) :]))
    return [
        Claimed(row.scheduler_epoch, list(islice(claims, len(share))))
        if share
        else _Nothing(row.scheduler_epoch, made_way=False)
        for share in shares
    ]


def _dealt(demands: Sequence[Demand], attempt_ids: Sequence[UUID]) -> list[list[UUID]]:
    """Each demand's part of what was granted, in order."""
    left = iter(attempt_ids)
    return [list(islice(left, each.limit)) for each in demands]


def _judge(demand: Demand, row: QueueRow, task: TaskRow, clock: datetime) -> IsCurrent | None:
    return judge_grant(
        task, scheduler_epoch=demand.scheduler_epoch, epoch=row.scheduler_epoch, clock=clock
    )


def _replay(answer: str, row: QueueRow, clock: datetime) -> Claimed:
    """The grants of the first answer that are still current, with their remaining seconds (contract 5)."""
    attempt_ids = [UUID(text) for text in orjson.loads(answer)]
    claims = read_claims(attempt_ids, row.scheduler_epoch, clock)
    current = {claim.fence.attempt_id for claim in claims}
    return Claimed(
        row.scheduler_epoch, claims, True, [each for each in attempt_ids if each not in current]
    )


def _offers(row: QueueRow, task: TaskRow) -> bool:
    match row.rollout_stage:
        case RolloutStage.SHADOW:
            return is_rehearsal(row.name) and rehearsals.is_open(row.name)
        case RolloutStage.IDEMPOTENT_READS:
            return task.replay == Replay.READ_ONLY
        case _:
            return True
