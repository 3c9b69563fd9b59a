"""Events: one row a fact, written in the transaction of the fact itself (contract 2, 3)."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import orjson

from coordinator.actors import Actor
from coordinator.fence import TaskRow
from coordinator.outcomes import Refusal
from coordinator.rounds import Statement


class EventKind(StrEnum):
    SUBMITTED = "SUBMITTED"  # → BLOCKED or READY
    UNBLOCKED = "UNBLOCKED"  # BLOCKED → READY: the last parent committed
    REBLOCKED = "REBLOCKED"  # READY → BLOCKED: a parent was revised
    CLAIMED = "CLAIMED"  # → CLAIMED, with a new attempt
    EXPIRED = "EXPIRED"  # an attempt was taken over, or ended by a bump
    STAGED = "STAGED"
    COMMITTED = "COMMITTED"  # CLAIMED → COMMITTED
    RETRY_SCHEDULED = "RETRY_SCHEDULED"  # CLAIMED → READY, later
    FAILED = "FAILED"  # → FAILED
    RELEASED = "RELEASED"  # CLAIMED → READY
    CANCELLED = "CANCELLED"
    SUPERSEDED = "SUPERSEDED"  # by a newer revision
    REOPENED = "REOPENED"  # CANCELLED or FAILED → READY or BLOCKED
    SNOOZED = "SNOOZED"  # READY or BLOCKED, and held back until a time
    WOKEN = "WOKEN"  # it doesn't wait for that time any more
    PARKED = "PARKED"  # CLAIMED → AWAITING_APPROVAL
    HELD_FOR_RECONCILIATION = "HELD_FOR_RECONCILIATION"  # → AWAITING_RECONCILIATION
    SETTLED = "SETTLED"  # AWAITING_… → READY
    EFFECT_PREPARED = "EFFECT_PREPARED"
    EFFECT_ACCEPTED = "EFFECT_ACCEPTED"  # a call may be out from now on
    EFFECT_REDEEMED = "EFFECT_REDEEMED"  # the gate let it through
    EFFECT_COMMITTED = "EFFECT_COMMITTED"  # it happened
    EFFECT_UNKNOWN = "EFFECT_UNKNOWN"  # nobody knows what came of the call
    EFFECT_REFUSED = "EFFECT_REFUSED"  # the downstream said that it did not do it
    EFFECT_RESENDABLE = "EFFECT_RESENDABLE"  # not there when asked; safe to send again
    EFFECT_ABSENT = "EFFECT_ABSENT"  # it has not happened and can't any more
    EFFECT_CLOSED = "EFFECT_CLOSED"  # unredeemed, and closed with the attempt
    EFFECT_VOID = "EFFECT_VOID"
    EVIDENCE_RECORDED = "EVIDENCE_RECORDED"
    APPROVAL_REQUESTED = "APPROVAL_REQUESTED"
    APPROVAL_DECIDED = "APPROVAL_DECIDED"  # one person's word
    APPROVAL_PASSED = "APPROVAL_PASSED"  # to another person; who may decide stays as it is
    APPROVAL_CONSUMED = "APPROVAL_CONSUMED"
    APPROVAL_EXPIRED = "APPROVAL_EXPIRED"
    APPROVAL_VOID = "APPROVAL_VOID"
    REFUSED = "REFUSED"  # nothing changed; `data` has point, outcome and reason
    ALARM = "ALARM"  # somebody should look at this
    RUN_SETTLED = "RUN_SETTLED"
    QUEUE_CREATED = "QUEUE_CREATED"
    POLICY_CHANGED = "POLICY_CHANGED"
    INTAKE_STOPPED = "INTAKE_STOPPED"
    INTAKE_OPENED = "INTAKE_OPENED"
    EPOCH_BUMPED = "EPOCH_BUMPED"
    STAGE_PROMOTED = "STAGE_PROMOTED"
    PROMOTION_ASKED = "PROMOTION_ASKED"  # another person confirms it (STAGE_PROMOTED)
    PROMOTION_WITHDRAWN = "PROMOTION_WITHDRAWN"
    PROMOTION_EXPIRED = "PROMOTION_EXPIRED"
    PROMOTION_VOID = "PROMOTION_VOID"  # the gate turned red, or the stage or the epoch moved
    STAGE_DEMOTED = "STAGE_DEMOTED"  # beside its EPOCH_BUMPED
    SECRET_REVEALED = "SECRET_REVEALED"  # noqa: S105 (a person looked; which places, never what)
    SHADOW_EXPLAINED = "SHADOW_EXPLAINED"  # a person's word on a mismatch
    INCIDENT_OPENED = "INCIDENT_OPENED"  # → STOPPED
    INCIDENT_BUMPED = "INCIDENT_BUMPED"  # STOPPED → BUMPED
    CANDIDATES_DECIDED = "CANDIDATES_DECIDED"  # what revoked attempts had put aside
    INCIDENT_DRAINED = "INCIDENT_DRAINED"  # BUMPED → DRAINED: the gate was found open
    INCIDENT_SWITCHED = "INCIDENT_SWITCHED"  # DRAINED → SWITCHED
    CANARY_SET = "CANARY_SET"  # a part of the tasks is let in; 0 %: none any more
    CANARY_HELD = "CANARY_HELD"  # by the watch: too many of its commits were fenced
    INCIDENT_CLOSED = "INCIDENT_CLOSED"  # SWITCHED → CLOSED
    INCIDENT_ABORTED = "INCIDENT_ABORTED"  # STOPPED → ABORTED
    POOL_CREATED = "POOL_CREATED"
    DOWNSTREAM_REGISTERED = "DOWNSTREAM_REGISTERED"
    DOWNSTREAM_CHANGED = "DOWNSTREAM_CHANGED"
    DOWNSTREAM_ASKED = "DOWNSTREAM_ASKED"  # a look-up to try the adapter; it settles nothing
    CREDENTIAL_CREATED = "CREDENTIAL_CREATED"
    CREDENTIAL_REVOKED = "CREDENTIAL_REVOKED"
    CREDENTIAL_ROTATED = "CREDENTIAL_ROTATED"  # a successor; the old one ends after an overlap
    PERSONAL_TOKEN_CREATED = "PERSONAL_TOKEN_CREATED"  # noqa: S105 (an event, no secret)
    PERSONAL_TOKEN_REVOKED = "PERSONAL_TOKEN_REVOKED"  # noqa: S105
    ROLE_CHANGED = "ROLE_CHANGED"
    PERSON_ADMITTED = "PERSON_ADMITTED"  # an account with a role; its person sets the password
    WAY_IN_GIVEN = "WAY_IN_GIVEN"  # a code to set a new password; the old one counts no more
    PASSWORD_SET = "PASSWORD_SET"  # noqa: S105 (an event; by the person themselves)
    DRILLED = "DRILLED"  # the guard was tried on a queue
    BULK_STARTED = "BULK_STARTED"
    BULK_STOPPED = "BULK_STOPPED"
    BULK_FINISHED = "BULK_FINISHED"
    VIEW_SAVED = "VIEW_SAVED"  # a filter of the list of tasks, kept for everybody
    VIEW_RENAMED = "VIEW_RENAMED"
    VIEW_DELETED = "VIEW_DELETED"
    AUDIT_STARTED = "AUDIT_STARTED"
    AUDITED = "AUDITED"  # a pass over the stored history is over
    BREAK_GLASS_OPENED = "BREAK_GLASS_OPENED"
    BREAK_GLASS_CLOSED = "BREAK_GLASS_CLOSED"
    PERSON_CHANGED = "PERSON_CHANGED"  # an account or a group, in the admin
    PRUNED = "PRUNED"  # what is over and nobody asks for any more was taken away
    IDENTITY_DOUBTED = "IDENTITY_DOUBTED"  # a copy, a restore or a promoted standby: intake is held
    RESTORE_BEGUN = "RESTORE_BEGUN"
    IDENTITY_CONFIRMED = "IDENTITY_CONFIRMED"  # after_restore has done everything
    RESTORE_HOLD_RELEASED = (
        "RESTORE_HOLD_RELEASED"  # a person: no effect that can't be seen has happened
    )


@dataclass(frozen=True, slots=True)
class Fact:
    """An event to be written. `refusal_key` names equal refusals, which are only counted.

    `asked_by`: whose call it tells of, where several callers' are written together.
    """

    kind: EventKind
    queue_id: int | None = None
    run_id: int | None = None
    task_id: UUID | None = None
    attempt_id: UUID | None = None
    state_version: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    refusal_key: str | None = None
    asked_by: Actor | None = None


def task_fact(
    kind: EventKind,
    task: TaskRow,
    *,
    changed: bool = True,
    attempt_id: UUID | None = None,
    asked_by: Actor | None = None,
    **data: Any,
) -> Fact:
    """A fact about a task as it was read; `changed` when this very fact raises its state version."""
    return Fact(
        kind,
        queue_id=task.queue_id,
        run_id=task.run_id,
        task_id=task.task_id,
        attempt_id=attempt_id,
        state_version=task.state_version + changed,
        data={key: value for key, value in data.items() if value is not None},
        asked_by=asked_by,
    )


def refusal_fact(
    refusal: Refusal, *, point: str, subject: str, task: TaskRow | None, **data: Any
) -> Fact:
    """A refusal as a recorded fact. `subject` is who asked (an attempt, or a caller)."""
    told = {
        "point": point,
        "outcome": refusal.outcome,
        "reason": refusal.reason,
        "detail": refusal.detail,
        **data,
    }
    return Fact(
        EventKind.REFUSED,
        queue_id=task.queue_id if task else None,
        run_id=task.run_id if task else None,
        task_id=task.task_id if task else None,
        attempt_id=data.get("attempt_id"),
        state_version=task.state_version if task else None,
        data={
            key: value for key, value in told.items() if value is not None and key != "attempt_id"
        },
        refusal_key=f"{subject}:{point}:{refusal.outcome}:{refusal.reason or ''}",
    )


_INSERT: Final = """
INSERT INTO coordinator_event
  (kind, queue_id, run_id, task_id, attempt_id, state_version, actor, request_id, at, data, refusal_key, repeats)
SELECT f.kind, f.queue_id, f.run_id, f.task_id, f.attempt_id, f.state_version, %s, f.request_id, %s::timestamptz,
       f.data::jsonb, f.refusal_key, f.repeats
FROM unnest(%s::text[], %s::int[], %s::int[], %s::uuid[], %s::uuid[], %s::bigint[], %s::text[], %s::text[],
            %s::text[], %s::int[])
  AS f(kind, queue_id, run_id, task_id, attempt_id, state_version, request_id, data, refusal_key, repeats)
ON CONFLICT (refusal_key) WHERE refusal_key IS NOT NULL
  DO UPDATE SET repeats = coordinator_event.repeats + 1 + excluded.repeats, last_at = excluded.at, xid = excluded.xid
"""


def record(facts: Sequence[Fact], *, actor: Actor, at: datetime) -> Statement:
    """One INSERT for all the facts, in order; equal refusals only raise a counter."""
    times: dict[object, int] = {}
    once: dict[object, Fact] = {}
    for index, fact in enumerate(facts):
        key = fact.refusal_key or index
        times[key] = times.get(key, -1) + 1
        once[key] = fact
    rows = list(once.values())
    return Statement(
        _INSERT,
        (
            actor.label,
            at,
            [str(fact.kind) for fact in rows],
            [fact.queue_id for fact in rows],
            [fact.run_id for fact in rows],
            [fact.task_id for fact in rows],
            [fact.attempt_id for fact in rows],
            [fact.state_version for fact in rows],
            [(fact.asked_by or actor).request_id for fact in rows],
            [_told(fact, fact.asked_by or actor) for fact in rows],
            [fact.refusal_key for fact in rows],
            list(times.values()),
        ),
    )


def _told(fact: Fact, by: Actor) -> str:
    told = {**fact.data, "address": by.address} if by.address else fact.data
    return orjson.dumps(told, default=str).decode()
