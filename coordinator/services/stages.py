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
from coordinator.selectors.promotion import STAGES, Promotion
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


@dataclass(frozen=True, slots=True)
class OpenedStage:
    """The queue's row under its exclusive gate."""

    row: Queue
    clock: datetime


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
    tell_workers(queue, answer)
    return answer


def move_forward(
    opened: OpenedStage,
    target: RolloutStage,
    *,
    reason: str,
    actor: Actor,
    gate: Promotion,
    **told: Any,
) -> StageSet:
    """Write the next stage under the queue's exclusive gate; the caller has measured an open `gate` there.

    Only a confirmed request comes here (promotions.py): that is where the second person is asked for.
    """
    if opened.row.rollout_stage == RolloutStage.SHADOW:
        end_rehearsals(queue=opened.row.name, reason=reason, actor=actor)
    measured = {each.name: each.value for each in gate.criteria}
    return _write(
        opened, target, EventKind.STAGE_PROMOTED, reason, actor, measured=measured, **told
    )


@in_transaction
def _demote(
    queue: str, target: RolloutStage, expected: RolloutStage, reason: str, actor: Actor
) -> StageSet | Refusal:
    opened = _open(queue, "demote", expected, target)
    if not isinstance(opened, OpenedStage):
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


def _open(
    queue: str, point: str, expected: RolloutStage, target: RolloutStage
) -> OpenedStage | StageSet | Refusal:
    found = Queue.objects.filter(name=queue).values_list("pk", flat=True).first()
    if found is None:
        return not_found("queue")
    opened = open_stage(found, point)
    row = opened.row
    if row.rollout_stage == target:
        return StageSet(queue, target, row.scheduler_epoch, changed=False)
    if row.rollout_stage != expected:
        return Refusal(
            Outcome.STATE_VERSION_MISMATCH,
            f"The queue is in stage {row.rollout_stage}, not {expected}; look again.",
            extra={"rollout_stage": row.rollout_stage},
        )
    return opened


def open_stage(queue_id: int, point: str) -> OpenedStage:
    """Take the queue's gate alone, and its row: what is measured from now on holds until the end."""
    run_round(name_point(point), queue_gate(queue_id, exclusive=True))
    row = Queue.objects.select_for_update(of=("self",)).get(pk=queue_id)
    return OpenedStage(row, clock_of(run_round(CLOCK)[0]))


def _write(
    opened: OpenedStage,
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


def tell_workers(queue: str, answer: StageSet | Refusal) -> None:
    """Wake the workers that wait: a stage offers other tasks than the one before."""
    if isinstance(answer, StageSet) and answer.changed:
        for queue_id in Queue.objects.filter(name=queue).values_list("pk", flat=True):
            hints.notify(queue_id)
