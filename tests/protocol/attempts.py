"""What workers do, each call through the guard: claim, prepare, accept, send, report, commit, release.

A step stands for a message that takes hold at the coordinator. A message that is lost is a step that is not taken; one
that is late is a step that is taken after others; one that is repeated is a step that is taken again, wherever that
changes anything. An answer of accept that is lost and asked for again is a worker that pauses before it sends: the
replay gives the same dispatch and no new deadline (contract 5).
"""

from collections.abc import Iterator

from . import ledger
from .rules import Guarantee, Model, may_be_out, receipt_on_file
from .world import (
    KEY_FRESH,
    KEY_LAPSED,
    Answer,
    Approval,
    Call,
    Denied,
    Effect,
    Incident,
    Outcome,
    Step,
    Task,
    Violation,
    World,
)


def steps(model: Model, world: World) -> Iterator[Step]:
    yield from _claims(model, world)
    for who, stale in (("holder", world.holder), ("before", world.before)):
        if model.current(stale, world):
            yield from _holder(model, world, who, stale)
    for number in range(len(world.dispatches)):
        yield from _sends(model, world, number)
        yield from _reports(model, world, number)


def _claims(model: Model, world: World) -> Iterator[Step]:
    if world.incident == Incident.BUMPED:
        return  # intake is stopped
    if world.task == Task.READY:
        yield Step("claimant", "claims the task", ledger.grant(model, world))
    elif world.task == Task.CLAIMED:
        after = ledger.grant(model, world)
        if after.task == Task.CLAIMED:
            yield Step("claimant", "takes over: the lease has run out", after)
        else:
            text = "the lease runs out, and the task waits for a person"
            yield Step("coordinator", text, after)


def _holder(model: Model, world: World, who: str, stale: int) -> Iterator[Step]:
    """What a fence that passes the guard may do."""
    wrong = Violation.STALE_OWNER if stale else None
    if world.effect == Effect.UNBOUND:
        yield Step(who, "prepares the effect", world._replace(effect=Effect.PREPARED))
    if world.effect in (Effect.PREPARED, Effect.RESENDABLE):
        if not (model.rules.binds_payload_once or world.payload):
            text = "prepares the slot again, with bytes of its own"
            yield Step(who, text, world._replace(payload=1))
        yield from _accepts(model, world, who, stale)
    if not may_be_out(world.effect) or not model.rules.commit_refuses_may_be_out:
        after = ledger.finish(world, Task.COMMITTED, Denied.COMMIT)
        wrong = wrong or ledger.denial(world, Violation.COMMIT_DENIES)
        yield Step(who, "commits the task", after, wrong)
    yield Step(who, "releases the task", ledger.leave_task(model, world))


def _accepts(model: Model, world: World, who: str, stale: int) -> Iterator[Step]:
    rules, count = model.rules, len(world.dispatches)
    if count == model.dispatches:
        return  # the bound of this search
    if world.approval not in (Approval.NOT_NEEDED, Approval.APPROVED):
        parked = ledger.leave_task(model, world)
        text = "asks to send, and is parked: APPROVAL_REQUIRED"
        after = parked._replace(task=Task.AWAITING_APPROVAL, approval=Approval.PENDING)
        yield Step(who, text, after)
        return
    keyed = model.downstream.guarantee is Guarantee.IDEMPOTENT_KEY and rules.key_window_at_accept
    starts_anew = keyed and world.place == KEY_LAPSED and world.effect == Effect.PREPARED
    if keyed and count and world.place != KEY_FRESH and not starts_anew:
        return
    wrong = Violation.STALE_OWNER if stale else None
    if receipt_on_file(world):
        wrong = Violation.RECEIPT_IGNORED
    after = ledger.accept(model, world, stale=stale)
    if starts_anew:  # no call that went before can arrive: the key is known from this one on
        after = after._replace(place=KEY_FRESH)
    yield Step(who, f"accepts dispatch {count + 1}", after, wrong)


def _sends(model: Model, world: World, number: int) -> Iterator[Step]:
    d = world.dispatches[number]
    who, name = f"owner of {number + 1}", f"the call of dispatch {number + 1}"
    if d.call == Call.HELD:
        yield Step(who, f"sends {name}", world.changed(number, call=Call.SENT))
    elif not model.rules.one_transmission and d.call == Call.OVER:
        after = world.changed(number, call=Call.SENT)
        yield Step(who, f"sends {name} once more", after, Violation.SENT_TWICE)


def _reports(model: Model, world: World, number: int) -> Iterator[Step]:
    """Reports of the attempt that made the dispatch, current or not; and the gate's own, which needs no fence."""
    d = world.dispatches[number]
    who, name = f"owner of {number + 1}", f"dispatch {number + 1}"
    unknown = ledger.record_report(model, world, number, Answer.NOTHING)
    if unknown != world:
        yield Step(who, f"gives up waiting, and reports {name} UNKNOWN", unknown)
    if d.answer == Answer.NOTHING:
        return
    outcome = "COMMITTED" if d.answer == Answer.DONE else "REFUSED"
    late = "" if model.current(d.stale, world) else ", late"
    after = ledger.record_report(model, world, number, d.answer)
    if after != world:
        yield Step(who, f"reports {name} {outcome}{late}", after)
    if d.redeemed and d.unsettled and may_be_out(world.effect):
        yield Step("gate", f"reports {name} {outcome}", _gate_report(model, world, number))


def _gate_report(model: Model, world: World, number: int) -> World:
    """8.5: the gate may report the outcome of the dispatch that it redeemed."""
    if world.dispatches[number].answer == Answer.DONE:
        recorded = world.changed(number, outcome=Outcome.COMMITTED)
        return ledger.settle(model, recorded, Effect.COMMITTED)
    after = ledger.record_refusal(model, world, number)
    waits = after.task == Task.AWAITING_RECONCILIATION
    return ledger.make_ready(model, after) if waits else after
