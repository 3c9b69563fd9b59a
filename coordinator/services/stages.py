"""A queue's rollout stage: forward through a measured gate, back at any time (contract 13)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from coordinator.actors import Actor
from coordinator.clock import CLOCK, clock_of
from coordinator.gates import queue_gate
from coordinator.models import Queue
from coordinator.outcomes import FieldError, Outcome, Refusal, invalid, not_found
from coordinator.rounds import name_point, run_round
from coordinator.selectors.promotion import STAGES, measure, next_stage
from coordinator.states import RolloutStage

from . import hints
from .epochs import bump_epoch
from .events import EventKind, Fact, record
from .rehearsals import end_rehearsals
from .texts import check_reason
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class StageSet:
    """`changed` is false where the queue was in that stage already."""

    queue: str
    rollout_stage: str
    scheduler_epoch: int
    changed: bool


def promote(
    *, queue: str, expected_stage: RolloutStage, confirm: str, reason: str, actor: Actor
) -> StageSet | Refusal:
    """Move the queue one stage forward, where every criterion of the gate is met under its exclusive gate.

    `confirm` is the queue's name, typed out. Refused: GATE_CLOSED with what blocks,
    STATE_VERSION_MISMATCH where the stage isn't the expected one, INVALID, NOT_FOUND.
    """
    faults = check_reason(reason)
    if confirm != queue:
        faults.append(FieldError("/confirm", f"Type the queue's name: {queue}."))
    target = next_stage(expected_stage)
    if target is None:
        faults.append(FieldError("/expected_stage", "There is no stage after this one."))
    if faults or target is None:
        return invalid(*faults)
    answer = _promote(queue, expected_stage, target, reason, actor)
    _tell(queue, answer)
    return answer


def demote(
    *,
    queue: str,
    to_stage: RolloutStage,
    expected_stage: RolloutStage,
    reason: str,
    actor: Actor,
) -> StageSet | Refusal:
    """Move the queue back, one stage or more, and bump its epoch in the same transaction: always possible.

    From the return on nothing that was claimed in the later stage is accepted any more.
    Refused: STATE_VERSION_MISMATCH where the stage isn't the expected one, INVALID, NOT_FOUND.
    """
    faults = check_reason(reason)
    if STAGES.index(to_stage) >= STAGES.index(expected_stage):
        faults.append(FieldError("/to_stage", f"It is no stage before {expected_stage}."))
    if faults:
        return invalid(*faults)
    answer = _demote(queue, to_stage, expected_stage, reason, actor)
    _tell(queue, answer)
    return answer


@in_transaction
def _promote(
    queue: str, expected: RolloutStage, target: RolloutStage, reason: str, actor: Actor
) -> StageSet | Refusal:
    opened = _open(queue, "promote", expected, target)
    if not isinstance(opened, _Opened):
        return opened
    gate = measure(opened.row)
    if not gate.open:
        blocking = [each for each in gate.criteria if not each.ok]
        return Refusal(
            Outcome.GATE_CLOSED,
            " ".join(each.detail for each in blocking),
            extra={"blocking": blocking},
        )
    if expected == RolloutStage.SHADOW:
        end_rehearsals(queue=queue, reason=reason, actor=actor)
    measured = {each.name: each.value for each in gate.criteria}
    return _write(opened, target, EventKind.STAGE_PROMOTED, reason, actor, measured=measured)


@in_transaction
def _demote(
    queue: str, target: RolloutStage, expected: RolloutStage, reason: str, actor: Actor
) -> StageSet | Refusal:
    opened = _open(queue, "demote", expected, target)
    if not isinstance(opened, _Opened):
        return opened
    bumped = bump_epoch(
        queue=queue, expected_epoch=opened.row.scheduler_epoch, reason=reason, actor=actor
    )
    if isinstance(bumped, Refusal):
        return bumped
    if target == RolloutStage.SHADOW:
        end_rehearsals(queue=queue, reason=reason, actor=actor)
    opened.row.scheduler_epoch = bumped.scheduler_epoch
    return _write(opened, target, EventKind.STAGE_DEMOTED, reason, actor, revoked=bumped.revoked)


@dataclass(frozen=True, slots=True)
class _Opened:
    """The queue's row under its exclusive gate."""

    row: Queue
    clock: datetime


def _open(
    queue: str, point: str, expected: RolloutStage, target: RolloutStage
) -> _Opened | StageSet | Refusal:
    found = Queue.objects.filter(name=queue).values_list("pk", flat=True).first()
    if found is None:
        return not_found("queue")
    run_round(name_point(point), queue_gate(found, exclusive=True))
    row = Queue.objects.select_for_update(of=("self",)).get(pk=found)
    clock = clock_of(run_round(CLOCK)[0])
    if row.rollout_stage == target:
        return StageSet(queue, target, row.scheduler_epoch, changed=False)
    if row.rollout_stage != expected:
        return Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"The queue is in stage {row.rollout_stage}, not {expected}; look again.",
            extra={"rollout_stage": row.rollout_stage},
        )
    return _Opened(row, clock)


def _write(
    opened: _Opened,
    target: RolloutStage,
    kind: EventKind,
    reason: str,
    actor: Actor,
    **told: Any,
) -> StageSet:
    row = opened.row
    Queue.objects.filter(pk=row.pk).update(rollout_stage=target, stage_since=opened.clock)
    data = {"from": row.rollout_stage, "to": target, "reason": reason, **told}
    run_round(
        name_point("stage_change"),
        record([Fact(kind, queue_id=row.pk, data=data)], actor=actor, at=opened.clock),
    )
    return StageSet(row.name, target, row.scheduler_epoch, changed=True)


def _tell(queue: str, answer: StageSet | Refusal) -> None:
    """Wake the workers that wait: a stage offers other tasks than the one before."""
    if isinstance(answer, StageSet) and answer.changed:
        for queue_id in Queue.objects.filter(name=queue).values_list("pk", flat=True):
            hints.notify(queue_id)
