"""What the coordinator does to a slot, as pure functions: each takes a world under the row lock and gives the next.

The steps that call these, with the guard before them, are in attempts.py and people.py.
"""

from .rules import Guarantee, Model, all_late, may_be_out, receipt_on_file
from .world import (
    GONE,
    KEY_LAPSED,
    OLD_GENERATION,
    REVIVED,
    Answer,
    Approval,
    Denied,
    Dispatch,
    Effect,
    Outcome,
    Task,
    Violation,
    World,
)

#: Task states that a cancel, a revise or a bump still finds unfinished.
UNFINISHED = frozenset(
    {Task.READY, Task.CLAIMED, Task.AWAITING_APPROVAL, Task.AWAITING_RECONCILIATION}
)


def close(world: World, *, redeemed_too: bool) -> World:
    """Close dispatches for the gate: no redemption after this. A redeemed one is past closing, but for a final seal."""
    return world._replace(
        dispatches=tuple(
            d._replace(outcome=Outcome.CLOSED)
            if d.unsettled and (redeemed_too or not d.redeemed)
            else d
            for d in world.dispatches
        )
    )


def to_prepared(world: World) -> World:
    """The slot's word that every call that was ever allowed has not happened and can't any more."""
    return world._replace(effect=Effect.PREPARED).denied(Denied.LEDGER)


def end_attempt(model: Model, world: World) -> World:
    """Effects as in take-over (contract 7): a gated call that nobody redeemed is closed, another is UNKNOWN."""
    if model.downstream.guarantee is Guarantee.GATED and may_be_out(world.effect):
        redeemed = any(d.redeemed and d.unsettled for d in world.dispatches)
        if model.rules.closes_at_ends:
            world = close(world, redeemed_too=False)
        if not redeemed:
            return to_prepared(world)
    if world.effect == Effect.ACCEPTED:
        return world._replace(effect=Effect.UNKNOWN)
    return world


def make_ready(model: Model, world: World) -> World:
    """READY, or AWAITING_RECONCILIATION where an effect may be out that no worker can settle (contract 7)."""
    stuck = may_be_out(world.effect) and not model.can_settle(world)
    return world._replace(task=Task.AWAITING_RECONCILIATION if stuck else Task.READY)


def leave_task(model: Model, world: World) -> World:
    """Release, fail and park: the attempt ends and its fence is dead from here on."""
    return make_ready(model, end_attempt(model, world).aged(OLD_GENERATION))


def grant(model: Model, world: World) -> World:
    """Claim a READY task, or take a lapsed one over. Where nobody could go on, nothing is granted (contract 7)."""
    if world.task == Task.CLAIMED:
        world = end_attempt(model, world)
        if may_be_out(world.effect) and not model.can_settle(world):
            world = world._replace(task=Task.AWAITING_RECONCILIATION)
            return world.aged(OLD_GENERATION)
    older = world.aged(OLD_GENERATION)
    return older._replace(task=Task.CLAIMED, holder=0, before=older.holder)


def accept(model: Model, world: World, *, stale: int) -> World:
    """A new dispatch: durable before any byte goes out. A grant of an approver is consumed in the same transaction.
    The look-ups that were made before judged another count of dispatches: STALE_EVIDENCE."""
    return world._replace(
        effect=Effect.ACCEPTED,
        approval=model.usual_approval,
        absent=0 if model.rules.counts_dispatches else world.absent,
        dispatches=(*world.dispatches, Dispatch(stale, world.payload)),
    )


def void_approval(world: World) -> World:
    """Cancel, revise and a bump: what was asked or granted is asked anew (contract 9)."""
    granted = world.approval != Approval.NOT_NEEDED
    return world._replace(approval=Approval.NEEDED) if granted else world


def finish(world: World, task: Task, to: Denied) -> World:
    """COMMITTED or SUPERSEDED: the fences die, and what is PREPARED becomes VOID (8.6)."""
    done = world.effect == Effect.COMMITTED
    if world.effect == Effect.PREPARED:
        world = world._replace(effect=Effect.VOID)
    world = void_approval(world)._replace(task=task).aged(OLD_GENERATION)
    return world if done else world.denied(to)


def denial(world: World, violation: Violation) -> Violation | None:
    """Whether it is already false to say, here and now, that the effect has not happened."""
    return violation if world.performed and world.effect != Effect.COMMITTED else None


def record_report(model: Model, world: World, number: int, answer: Answer) -> World:
    """8.3, from any attempt at any time. `Answer.NOTHING` is a report of UNKNOWN."""
    rules, d = model.rules, world.dispatches[number]
    newest = number == len(world.dispatches) - 1 or not rules.report_needs_newest
    current = model.current(d.stale, world)
    counts = current and newest and d.unsettled and may_be_out(world.effect)
    if world.effect == Effect.RESENDABLE and current and not rules.report_counts_on_resendable:
        return world.changed(number, receipt=1) if answer == Answer.DONE else world
    if answer == Answer.DONE:
        if counts:
            world = world.changed(number, outcome=Outcome.COMMITTED)
            return world._replace(effect=Effect.COMMITTED)
        if current and not newest and not rules.older_receipt_counts:
            return world.changed(number, receipt=1)
        return keep_receipt(model, world, number)
    if not counts:
        return world
    if answer == Answer.NOT_DONE:
        return record_refusal(model, world, number)
    if world.effect == Effect.ACCEPTED:
        return world._replace(effect=Effect.UNKNOWN)
    return world


def keep_receipt(model: Model, world: World, number: int) -> World:
    """A receipt that counts no more is kept, and is the one refusal that may move a slot: it bars the next accept."""
    if world.effect >= Effect.COMMITTED:
        return world  # recorded, but there is nothing left to move
    world = world.changed(number, receipt=1)
    if model.rules.receipt_revives:
        world = world._replace(before=GONE | REVIVED)
    moved = world.effect in (Effect.PREPARED, Effect.RESENDABLE)
    if moved and model.rules.receipt_moves_ledger:
        return world._replace(effect=Effect.UNKNOWN)
    return world


def record_refusal(model: Model, world: World, number: int) -> World:
    """The downstream said that it did not do it: PREPARED, if no other dispatch is open, else nobody knows."""
    world = world.changed(number, outcome=Outcome.REFUSED)
    others = any(d.unsettled for d in world.dispatches)
    if others and model.rules.refused_needs_others_closed:
        unknown = world.effect == Effect.ACCEPTED
        return world._replace(effect=Effect.UNKNOWN) if unknown else world
    return to_prepared(world)


def settle(model: Model, world: World, effect: Effect) -> World:
    """A verdict moves the slot, and wakes the task only from AWAITING_RECONCILIATION (contract 7)."""
    world = to_prepared(world) if effect == Effect.PREPARED else world._replace(effect=effect)
    return make_ready(model, world) if world.task == Task.AWAITING_RECONCILIATION else world


def not_happened(model: Model, world: World, *, begun_late: bool) -> World | None:
    """8.4: the world after NOT_HAPPENED, sealed as strongly as it can be; None for ABSENCE_NOT_SEALED."""
    rules, downstream = model.rules, model.downstream
    if world.effect not in (Effect.UNKNOWN, Effect.RESENDABLE):
        return None
    if rules.receipt_bars_absence and receipt_on_file(world):
        return None
    if downstream.guarantee is Guarantee.GATED:
        if any(d.redeemed and d.unsettled for d in world.dispatches):
            return None
        closed = close(world, redeemed_too=False) if rules.closes_at_not_happened else world
        return settle(model, closed, Effect.PREPARED)
    if downstream.forgetful and world.place == KEY_LAPSED and rules.key_window_at_seal:
        return None
    by_time = downstream.refuses_late or rules.elapsed_time_seals
    if by_time and begun_late and all_late(world):
        return settle(model, close(world, redeemed_too=True), Effect.PREPARED)
    if downstream.resend_seals:
        sealed = Effect.RESENDABLE if rules.resendable_is_a_state else Effect.PREPARED
        return settle(model, world, sealed) if world.effect != sealed else None
    return None
