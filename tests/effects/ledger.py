"""Effects for tests: plain functions over the services, keyword-only. Time is moved, nobody sleeps."""

from typing import Any
from uuid import UUID

from django.contrib.auth.models import User
from django.db import connection

from coordinator.actors import Actor, ActorKind, Worker
from coordinator.fence import Fence
from coordinator.ids import new_id
from coordinator.models import Approval, Dispatch, EffectSlot
from coordinator.outcomes import Refusal
from coordinator.services.acceptances import Accepted, accept_effect
from coordinator.services.answers import RequestKey
from coordinator.services.approvals import Decided, approve
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.gate import Redeemed, redeem_dispatch
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import (
    Finding,
    LookUpStarted,
    Method,
    Settled,
    Verdict,
    reconcile_effect,
    start_look_up,
)
from coordinator.services.reports import Recorded, Report, report_effect
from coordinator.states import DispatchOutcome, Guarantee
from tests import world

SLOT = "out"
PAYLOAD = {"to": "a@example.org", "text": "hello"}
#: Long enough to say something.
STATEMENT = "The host was powered off and its disk is here on my desk."


def register(guarantee: Guarantee, *, name: str = "there", **fields: Any) -> str:
    """A downstream; keys are valid for an hour, calls last 30 s and settle within 60 s, unless given."""
    valid = {"key_valid_seconds": 3600} if guarantee is Guarantee.IDEMPOTENT_KEY else {}
    world.downstream(name=name, guarantee=guarantee, **(valid | fields))
    return name


def claimed(
    *, by: Worker, guarantee: Guarantee = Guarantee.CONDITIONAL_WRITE, **fields: Any
) -> Claim:
    """A claim of a task with one slot at a downstream of this class."""
    there = register(guarantee, **fields)
    world.submit(world.node("T", slots={SLOT: there}), world.node("next", "T"))
    return world.claim_one(by=by)


def try_prepare(
    claim: Claim,
    *,
    by: Worker,
    payload: Any = None,
    slot: str = SLOT,
    downstream: str = "there",
    condition: Any = None,
) -> Prepared | Refusal:
    return prepare_effect(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        slot=slot,
        downstream=downstream,
        payload=PAYLOAD if payload is None else payload,
        condition=condition,
        worker=by,
    )


def prepare(claim: Claim, *, by: Worker, payload: Any = None) -> EffectView:
    answer = try_prepare(claim, by=by, payload=payload)
    assert isinstance(answer, Prepared), answer
    return answer.effect


def key() -> RequestKey:
    return RequestKey("test", new_id().hex, "digest")


def try_accept(
    effect: EffectView,
    fence: Fence,
    *,
    by: Worker,
    request: RequestKey | None = None,
    digest: str | None = None,
) -> Accepted | Refusal:
    return accept_effect(
        effect_id=effect.effect_id,
        fence=fence,
        payload_digest=digest or effect.payload_digest,
        worker=by,
        request=request or key(),
    )


def accept(effect: EffectView, fence: Fence, *, by: Worker) -> Accepted:
    answer = try_accept(effect, fence, by=by)
    assert isinstance(answer, Accepted), answer
    return answer


def sent(
    *, by: Worker, guarantee: Guarantee = Guarantee.CONDITIONAL_WRITE, **fields: Any
) -> tuple[Claim, EffectView, Accepted]:
    """A claim whose one effect was accepted: its call may be out."""
    claim = claimed(by=by, guarantee=guarantee, **fields)
    effect = prepare(claim, by=by)
    return claim, effect, accept(effect, claim.fence, by=by)


def report(
    effect: EffectView,
    claim: Claim,
    accepted: Accepted,
    outcome: DispatchOutcome,
    *,
    by: Worker,
    receipt: Any = "r1",
) -> Recorded | Refusal:
    said = Report(
        accepted.dispatch_id, outcome, receipt if outcome is DispatchOutcome.COMMITTED else None
    )
    return report_effect(effect_id=effect.effect_id, fence=claim.fence, report=said, worker=by)


def looked_up(effect: EffectView, *, by: Actor, fence: Fence | None = None) -> LookUpStarted:
    started = start_look_up(effect_id=effect.effect_id, actor=by, fence=fence)
    assert isinstance(started, LookUpStarted), started
    return started


def absent(
    effect: EffectView,
    *,
    by: Actor,
    fence: Fence | None = None,
    dispatches: int = 1,
    lookup_id: UUID | None = None,
    stamps: bool = True,
) -> Settled | Refusal:
    """Looked up by the exact key, and not there."""
    if stamps and lookup_id is None:
        lookup_id = looked_up(effect, by=by, fence=fence).lookup_id
    verdict = Verdict(Finding.NOT_HAPPENED, dispatches, Method.QUERY, "not there", lookup_id)
    return reconcile_effect(effect_id=effect.effect_id, verdict=verdict, actor=by, fence=fence)


def happened(
    effect: EffectView,
    *,
    by: Actor,
    fence: Fence | None = None,
    dispatches: int = 1,
    receipt: Any = "r1",
) -> Settled | Refusal:
    verdict = Verdict(Finding.HAPPENED, dispatches, Method.QUERY, "there", None, receipt)
    return reconcile_effect(effect_id=effect.effect_id, verdict=verdict, actor=by, fence=fence)


def asserted(
    effect: EffectView,
    *,
    by: Actor,
    dispatches: int = 1,
    statement: str = STATEMENT,
    may: bool = True,
    lookup_id: UUID | None = None,
) -> Settled | Refusal:
    """A person's word that it has not happened and can't; they looked just now, unless `lookup_id` says when."""
    seen = lookup_id or looked_up(effect, by=by).lookup_id
    verdict = Verdict(
        Finding.NOT_HAPPENED, dispatches, Method.OPERATOR, {"statement": statement}, seen
    )
    return reconcile_effect(
        effect_id=effect.effect_id, verdict=verdict, actor=by, may_assert_absence=may
    )


def person(name: str) -> Actor:
    """A person who can decide, as an actor."""
    user, _ = User.objects.get_or_create(username=name)
    return Actor(ActorKind.OPERATOR, name, user.pk)


def slot(effect: EffectView) -> EffectSlot:
    return EffectSlot.objects.get(effect_id=effect.effect_id)


def state(effect: EffectView) -> str:
    return slot(effect).state


def newest(effect: EffectView) -> Accepted:
    """The newest acceptance of an effect, as whoever asked for it knows it."""
    row = Dispatch.objects.filter(effect_id=effect.effect_id).latest("number")
    token = f"{row.scheduler_epoch}.{effect.task_id}.{row.claim_generation}.{row.number}"
    return Accepted(
        row.dispatch_id, row.number, effect.effect_id, token, None, row.call_deadline, 0
    )


def approval(refusal: Accepted | Refusal) -> Approval:
    """The approval that an acceptance asked for."""
    assert isinstance(refusal, Refusal), refusal
    return Approval.objects.get(approval_id=refusal.extra["approval_id"])


def say_yes(asked: Approval, *, who: str = "paula") -> None:
    """A person approves exactly what was asked for."""
    decided = approve(
        approval_id=asked.approval_id, payload_digest=asked.payload_digest, actor=person(who)
    )
    assert isinstance(decided, Decided), decided


def pass_time(effect: EffectView, *, seconds: float) -> None:
    """Let so many seconds have gone by for one effect: its acceptances, deadlines and look-ups are older."""
    with world.guarded("prune"), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE coordinator_dispatch DISABLE TRIGGER USER")
        cursor.execute("ALTER TABLE coordinator_effectslot DISABLE TRIGGER USER")
        for table, columns in (
            ("dispatch", ("accepted_at", "call_deadline")),
            ("effectslot", ("first_accepted_at", "accepted_at", "call_deadline", "unknown_since")),
            ("lookup", ("started_at",)),
        ):
            moved = ", ".join(
                f"{column} = {column} - make_interval(secs => {seconds})" for column in columns
            )
            cursor.execute(
                f"UPDATE coordinator_{table} SET {moved} WHERE effect_id = %s", [effect.effect_id]
            )
        cursor.execute("ALTER TABLE coordinator_dispatch ENABLE TRIGGER USER")
        cursor.execute("ALTER TABLE coordinator_effectslot ENABLE TRIGGER USER")


def approved_and_sent(*, by: Worker, guarantee: Guarantee) -> tuple[Claim, EffectView]:
    """A NON_REPLAYABLE effect that a person has approved, accepted: its call may be out."""
    claim = claimed(by=by, guarantee=guarantee)
    effect = prepare(claim, by=by)
    asked = approval(try_accept(effect, claim.fence, by=by))
    approve(
        approval_id=asked.approval_id, payload_digest=effect.payload_digest, actor=person("paula")
    )
    claim = world.claim_one(by=by)
    accept(effect, claim.fence, by=by)
    return claim, effect


def redeem(
    effect: EffectView,
    accepted: Accepted,
    *,
    gate: Worker | None = None,
    redeem_id: str = "call-1",
    fencing_token: str | None = None,
    payload_digest: str | None = None,
) -> Redeemed | Refusal:
    """What the tool's gate asks before it acts."""
    return redeem_dispatch(
        effect_id=effect.effect_id,
        dispatch_id=accepted.dispatch_id,
        redeem_id=redeem_id,
        fencing_token=fencing_token or accepted.fencing_token,
        payload_digest=payload_digest or effect.payload_digest,
        gate=gate or world.worker(name="gate", scopes=["gate"]),
    )
