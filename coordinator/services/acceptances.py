"""Tool acceptance: durable permission for one transmission, given before any byte goes out (contract 8.2, 9)."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
from django.conf import settings

from coordinator.actors import Worker
from coordinator.fence import Call, Fence, IsRepeat, Point, TaskRow
from coordinator.gates import try_downstream_of
from coordinator.ids import new_id
from coordinator.outcomes import Outcome, Refusal, Retry, not_found
from coordinator.rounds import Statement
from coordinator.seals import EffectRow, key_still_valid, sendable_at
from coordinator.states import (
    ApprovalState,
    AttemptState,
    EffectState,
    Guarantee,
    RolloutStage,
    TaskState,
)

from . import answers
from .answers import RequestKey
from .effect_books import brief
from .effect_rows import Slot, lock_effect, slots_of
from .endings import end_attempt
from .events import EventKind, task_fact
from .hearings import Hearing, call_digest, open_hearing
from .holds import Freed, end_holds, free_tasks
from .locking import seconds_until
from .transactions import in_transaction


@dataclass(frozen=True, slots=True)
class Accepted:
    """Permission to send once, until the deadline. `idempotency_key` is the effect's id."""

    dispatch_id: UUID
    dispatch_number: int
    idempotency_key: str
    fencing_token: str
    condition: orjson.Fragment | None
    call_deadline: datetime
    call_deadline_seconds: float
    replayed: bool = False
    outcome: str = "ACCEPTED"


_APPROVALS: Final = """
SELECT approval_id, state, expires_at, payload_digest FROM coordinator_approval
WHERE effect_id = %s AND dispatch_number = (SELECT dispatches + 1 FROM coordinator_effectslot WHERE effect_id = %s)
  AND state IN ('PENDING', 'APPROVED') ORDER BY approval_id FOR UPDATE
"""
_CONDITION: Final = "SELECT condition FROM coordinator_effectslot WHERE effect_id = %s"
_BUSY: Final = """
SELECT o.effect_id FROM coordinator_effectslot e JOIN coordinator_effectslot o
  ON o.downstream = e.downstream AND o.serial_scope = e.serial_scope AND o.effect_id <> e.effect_id
WHERE e.effect_id = %s AND e.is_exclusive AND o.is_exclusive AND o.state IN ('ACCEPTED', 'UNKNOWN', 'RESENDABLE')
LIMIT 1
"""


def accept_effect(
    *, effect_id: str, fence: Fence, payload_digest: str, worker: Worker, request: RequestKey
) -> Accepted | Refusal:
    """Permit one transmission of the bound payload, or say why not; only ACCEPTED ever permits a send.

    Refused besides the fence's refusals: PAYLOAD_CONFLICT, ALREADY_SETTLED (with the
    receipt), RECONCILE_FIRST (a call may be out, by anyone), SERIAL_BUSY, STAGE_FORBIDS,
    INTAKE_STOPPED (during an incident), APPROVAL_REQUIRED (parks the task), INVALID, NOT_FOUND.
    """
    digest = call_digest(Point.ACCEPT, [effect_id, payload_digest])
    return _accept(effect_id, fence, payload_digest, worker, request, digest=digest)


@in_transaction
def _accept(
    effect_id: str,
    fence: Fence,
    payload_digest: str,
    worker: Worker,
    request: RequestKey,
    *,
    digest: str,
) -> Accepted | Refusal:
    hearing = open_hearing(
        Point.ACCEPT,
        [(fence.attempt_id, fence)],
        worker=worker,
        extra=[
            try_downstream_of(effect_id),
            *lock_effect(effect_id),
            Statement(_APPROVALS, (effect_id, effect_id)),
            Statement(_CONDITION, (effect_id,)),
            Statement(_BUSY, (effect_id,)),
            answers.look_up(request),
        ],
    )
    exclusive, effects, dispatches, approvals, conditions, busy, stored = hearing.extra
    call = Call(Point.ACCEPT, fence, worker.id, digest)
    verdict = hearing.judge(call, fence.attempt_id, queue=None, usage=None)
    if isinstance(verdict, Refusal):
        hearing.write()
        return verdict
    if isinstance(verdict, IsRepeat):
        return parked_answer(verdict.answer)
    if not effects or effects[0][1] != fence.task_id:
        return not_found("effect of this task")
    (slot,) = slots_of(effects, dispatches)
    known = answers.stored_answer(request, stored)
    if isinstance(known, Refusal):
        return known
    context = _Acceptance(
        hearing=hearing,
        fence=fence,
        slot=slot,
        condition=conditions[0][0],
        approvals=approvals,
        digest=digest,
        request=request,
        is_busy=bool(busy) or any(not locked for (locked,) in exclusive),
    )
    if known is not None:
        return context.again(orjson.loads(known))
    return context.judge(payload_digest)


def parked_answer(answer: dict[str, Any]) -> Refusal:
    """What the parking acceptance was answered with; a repeat gets the same (contract 3)."""
    return Refusal(
        Outcome.APPROVAL_REQUIRED,
        "A person must approve this exact payload; the task is parked and its attempt has ended.",
        evidence_recorded=True,
        extra={**answer, "replayed": True},
    )


@dataclass(frozen=True, slots=True)
class _Acceptance:
    """One acceptance of a current attempt, with everything that decides it under lock."""

    hearing: Hearing
    fence: Fence
    slot: Slot
    condition: str | None
    approvals: list[tuple[Any, ...]]
    digest: str
    request: RequestKey
    is_busy: bool

    @property
    def effect(self) -> EffectRow:
        return self.slot.effect

    @property
    def task(self) -> TaskRow:
        return self.hearing.tasks[self.fence.task_id]

    def judge(self, payload_digest: str) -> Accepted | Refusal:
        refusal = self._refusal(payload_digest)
        if refusal is not None:
            return self._refuse(refusal)
        if not (self.effect.is_exclusive or self.effect.needs_approval):
            return self._accept(None)
        granted = self._granted()
        return self._accept(granted) if granted is not None else self._park()

    def _refuse(self, refusal: Refusal) -> Refusal:
        self.hearing.refuse(
            refusal, self.fence, self.task, self.hearing.attempts[self.fence.attempt_id]
        )
        self.hearing.write()
        return refusal

    def _refusal(self, payload_digest: str) -> Refusal | None:
        effect = self.effect
        if payload_digest != effect.payload_digest:
            return Refusal(
                Outcome.PAYLOAD_CONFLICT,
                "`payload_digest` is not the bound payload's.",
                evidence_recorded=True,
                extra={"payload_digest": effect.payload_digest},
            )
        match effect.state:
            case EffectState.COMMITTED:
                receipt = orjson.Fragment(effect.receipt or "null")
                extra = {"receipt": receipt, "state": effect.state}
                return Refusal(
                    Outcome.ALREADY_SETTLED, "It has happened; here is its receipt.", extra=extra
                )
            case EffectState.ACCEPTED | EffectState.UNKNOWN:
                return Refusal(
                    Outcome.RECONCILE_FIRST,
                    f"A call may be out ({effect.state}). Look it up and reconcile it; never send again blindly.",
                    evidence_recorded=True,
                    extra={"effects": [brief(effect)]},
                )
            case _:
                return self._forbidden() or self._key_refusal()

    def _forbidden(self) -> Refusal | None:
        queue = self.hearing.queues[self.task.queue_id]
        stage = queue.rollout_stage
        if (
            queue.incident_id is not None and not queue.intake_share
        ):  # a canary has to be able to work
            return Refusal(
                Outcome.INTAKE_STOPPED,
                f"Queue `{queue.name}` has an open incident: nothing new is sent until it is over.",
                evidence_recorded=True,
                extra={"incident_id": str(queue.incident_id)},
            )
        if stage != RolloutStage.CONDITIONAL_WRITES:
            return Refusal(
                Outcome.STAGE_FORBIDS,
                f"The queue is in stage {stage}: it sends nothing.",
                evidence_recorded=True,
            )
        if self.is_busy:
            return Refusal(
                Outcome.SERIAL_BUSY,
                f"Another effect may be out at `{self.effect.downstream}` in this serial scope.",
                evidence_recorded=True,
            )
        return None

    def _key_refusal(self) -> Refusal | None:
        """A key that the downstream may forget before a call can have arrived is not a key any more (adr/0027).

        Where nothing of it is out, a call is a first one again once the downstream has forgotten all that went before.
        """
        effect = self.effect
        if effect.state == EffectState.PREPARED:
            at = sendable_at(effect, self.slot.dispatches, self.hearing.clock)
            return None if at is None else self._old_key(_NOTHING_OUT.format(at=at.isoformat()), at)
        if effect.guarantee != Guarantee.IDEMPOTENT_KEY or not effect.dispatches:
            return None
        takes = timedelta(seconds=effect.call_timeout_seconds + effect.settle_seconds)
        if key_still_valid(effect, self.hearing.clock + takes):
            return None
        return self._old_key(_MAY_ARRIVE)

    def _old_key(self, told: str, at: datetime | None = None) -> Refusal:
        extra: dict[str, Any] = {"effects": [brief(self.effect)]}
        if at is not None:
            extra["sendable_at"] = at.isoformat()
        detail = f"The key's validity would end before this call can have arrived. {told}"
        return Refusal(Outcome.RECONCILE_FIRST, detail, evidence_recorded=True, extra=extra)

    def _granted(self) -> UUID | None:
        """The approval that this dispatch consumes, if a person has given one that still stands."""
        for approval_id, state, expires_at, digest in self.approvals:
            fits = digest == self.effect.payload_digest and expires_at > self.hearing.clock
            if state == ApprovalState.APPROVED and fits:
                return approval_id  # type: ignore[no-any-return]
        return None

    def _accept(self, approval_id: UUID | None) -> Accepted:
        effect, clock, task = self.effect, self.hearing.clock, self.task
        number, dispatch_id = effect.dispatches + 1, new_id()
        deadline = clock + timedelta(seconds=effect.call_timeout_seconds)
        answer = Accepted(
            dispatch_id=dispatch_id,
            dispatch_number=number,
            idempotency_key=effect.effect_id,
            fencing_token=fencing_token(self.fence, number),
            condition=None if self.condition is None else orjson.Fragment(self.condition),
            call_deadline=deadline,
            call_deadline_seconds=float(effect.call_timeout_seconds),
        )
        self.hearing.facts.append(
            task_fact(
                EventKind.EFFECT_ACCEPTED,
                task,
                changed=False,
                attempt_id=self.fence.attempt_id,
                effect_id=effect.effect_id,
                slot=effect.slot,
                dispatch_number=number,
                approval_id=approval_id,
            )
        )
        stored = orjson.dumps({"dispatch_id": str(dispatch_id)}).decode()
        consumed = [Statement(_CONSUME, (clock, approval_id))] if approval_id is not None else []
        self.hearing.write(
            *consumed,
            Statement(
                _DISPATCH,
                (
                    dispatch_id,
                    effect.effect_id,
                    number,
                    self.fence.attempt_id,
                    self.fence.claim_generation,
                    self.fence.scheduler_epoch,
                    self.request.key,
                    clock,
                    deadline,
                ),
            ),
            Statement(_ACCEPT, (clock, clock, deadline, effect.effect_id)),
            answers.store(self.request, stored),
        )
        return answer

    def again(self, stored: dict[str, str]) -> Accepted | Refusal:
        """A replayed acceptance is 200 only while its dispatch is the newest and still open (contract 5)."""
        newest, clock = self.slot.newest, self.hearing.clock
        is_newest = newest is not None and str(newest.dispatch_id) == stored["dispatch_id"]
        if (
            newest is None
            or not is_newest
            or self.effect.state != EffectState.ACCEPTED
            or newest.call_deadline <= clock
        ):
            refusal = self._refusal(self.effect.payload_digest)
            if refusal is None or newest is None or not is_newest:
                refusal = Refusal(
                    Outcome.RECONCILE_FIRST,
                    "This acceptance is over; its call may be out.",
                    evidence_recorded=True,
                    extra={"effects": [brief(self.effect)]},
                )
            return self._refuse(refusal)
        return Accepted(
            dispatch_id=newest.dispatch_id,
            dispatch_number=newest.number,
            idempotency_key=self.effect.effect_id,
            fencing_token=fencing_token(self.fence, newest.number),
            condition=None if self.condition is None else orjson.Fragment(self.condition),
            call_deadline=newest.call_deadline,
            call_deadline_seconds=seconds_until(newest.call_deadline, clock),
            replayed=True,
        )

    def _park(self) -> Refusal:
        """Ask a person, and let go of the task meanwhile (contract 9)."""
        effect, clock, task = self.effect, self.hearing.clock, self.task
        pending = [
            row for row in self.approvals if row[2] > clock and row[3] == effect.payload_digest
        ]
        stale = [row[0] for row in self.approvals if row not in pending]
        approval_id = pending[0][0] if pending else new_id()
        told: dict[str, Any] = {"approval_id": str(approval_id), "effect_id": effect.effect_id}
        ends = end_holds([task], clock)
        freed = Freed(task, TaskState.AWAITING_APPROVAL)
        self.hearing.facts += [
            *ends.facts,
            task_fact(EventKind.PARKED, task, attempt_id=self.fence.attempt_id, **told),
        ]
        if not pending:
            asked = task_fact(
                EventKind.APPROVAL_REQUESTED, task, attempt_id=self.fence.attempt_id, **told
            )
            self.hearing.facts.append(asked)
        self.hearing.write(
            *([Statement(_EXPIRE, (clock, stale))] if stale else []),
            *([] if pending else [self._ask(approval_id)]),
            end_attempt(
                attempt_id=self.fence.attempt_id,
                state=AttemptState.PARKED,
                digest=self.digest,
                answer=told,
                clock=clock,
            ),
            *free_tasks([freed], ends, clock),
        )
        refusal = parked_answer(told)
        return replace(refusal, extra=told, retry_as=Retry.AFTER)

    def _ask(self, approval_id: UUID) -> Statement:
        effect, clock = self.effect, self.hearing.clock
        expires = clock + timedelta(seconds=settings.APPROVAL_SECONDS)
        return Statement(
            _ASK,
            (
                approval_id,
                effect.effect_id,
                effect.payload_digest,
                effect.dispatches + 1,
                effect.required_approvers,
                self.hearing.worker.label,
                clock,
                expires,
            ),
        )


def fencing_token(fence: Fence, number: int) -> str:
    """`<epoch>.<task_id>.<generation>.<dispatch_number>`, comparable within one task only (contract 8.2)."""
    return f"{fence.scheduler_epoch}.{fence.task_id}.{fence.claim_generation}.{number}"


_DISPATCH: Final = """
INSERT INTO coordinator_dispatch
  (dispatch_id, effect_id, number, attempt_id, claim_generation, scheduler_epoch, request_id, accepted_at,
   call_deadline)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_NOTHING_OUT: Final = (
    "Nothing of it is out: from {at} on, when the downstream has forgotten the key, it is sent as a first call;"
    " or revise the task, whose effects have keys of their own."
)
_MAY_ARRIVE: Final = (
    "An earlier call may still arrive: an operator settles the effect first, by its receipt or by asserting its"
    " absence; or cancels the task."
)
_ACCEPT: Final = """
UPDATE coordinator_effectslot SET state = 'ACCEPTED', dispatches = dispatches + 1, accepted_at = %s,
  first_accepted_at = coalesce(first_accepted_at, %s), call_deadline = %s, unknown_since = NULL,
  needs_approval = false, out_on_suspicion = false,
  verdict = NULL, verdict_dispatches = NULL, probes = 0, probe_after = NULL
WHERE effect_id = %s
"""
_CONSUME: Final = (
    "UPDATE coordinator_approval SET state = 'CONSUMED', ended_at = %s WHERE approval_id = %s"
)
_EXPIRE: Final = """
UPDATE coordinator_approval SET state = 'EXPIRED', ended_at = %s, end_reason = 'nobody acted in time'
WHERE approval_id = ANY(%s::uuid[])
"""
_ASK: Final = """
INSERT INTO coordinator_approval
  (approval_id, effect_id, payload_digest, dispatch_number, state, required_approvers, policy_version, requested_by,
   requested_at, expires_at)
VALUES (%s, %s, %s, %s, 'PENDING', %s, 1, %s, %s, %s)
"""
