"""What is done without a fence: look-ups and verdicts, approvals, cancel, reopen, revise, and the incident.

A worker's reconciliation is not a step of its own: a verdict is judged by its evidence and not by its owner, so that
the coordinator's own look-up, which needs no fence and comes at any time, can do all that a worker's can.
"""

from collections.abc import Iterator

from . import ledger
from .downstreams import FALSE_BY_ANOTHER
from .ledger import UNFINISHED
from .rules import Guarantee, Model, all_late, may_be_out, receipt_on_file
from .world import (
    AFTER_SETTLE,
    BY_OLD_KEY,
    EARLY,
    KEY_LAPSED,
    OLD_CANCEL,
    OLD_EPOCH,
    OLD_GENERATION,
    Approval,
    Denied,
    Effect,
    Incident,
    Step,
    Task,
    Violation,
    World,
)


def steps(model: Model, world: World) -> Iterator[Step]:
    if world.dispatches and may_be_out(world.effect):
        yield from _happened(model, world)
        yield from _looks(model, world)
        yield from _absences(model, world)
    if world.task == Task.AWAITING_APPROVAL:
        approved = world._replace(task=Task.READY, approval=Approval.APPROVED)
        yield Step("approver", "approves exactly these bytes", approved)
    yield from _cancels(model, world)
    yield from _incidents(model, world)


def _happened(model: Model, world: World) -> Iterator[Step]:
    settled = ledger.settle(model, world, Effect.COMMITTED)
    if receipt_on_file(world):
        yield Step("coordinator", "settles it by the late receipt: HAPPENED", settled)
    elif world.performed and not model.downstream.askable and model.assertable:
        yield Step("operator", "finds the receipt elsewhere: HAPPENED", settled)
    elif world.performed and model.downstream.askable:
        yield Step("coordinator", "looks it up, sees it, and settles it: HAPPENED", settled)


def _looks(model: Model, world: World) -> Iterator[Step]:
    """A look-up that sees nothing. Its verdict may be written down much later, and more than once.

    An operator can look where a key has been forgotten, or where nothing can be asked: at the world itself.
    """
    old_key = model.downstream.forgetful and world.place == KEY_LAPSED
    if old_key:
        after = world._replace(absent=world.absent | BY_OLD_KEY)
        if after != world:
            yield Step("coordinator", "looks it up by a key that is forgotten: nothing", after)
    by_key = model.downstream.askable and not old_key
    if not world.performed and (by_key or model.assertable):
        after = world._replace(absent=world.absent | (AFTER_SETTLE if all_late(world) else EARLY))
        if after != world:
            who = "coordinator" if by_key else "operator"
            yield Step(who, "looks it up and sees nothing", after)
    if model.rules.lost_race_seals and world.place == FALSE_BY_ANOTHER:
        closed = ledger.close(world, redeemed_too=True)
        after = ledger.settle(model, closed, Effect.PREPARED)
        yield Step(
            "coordinator", "sees another's write in its place: it can't happen any more", after
        )


def _absences(model: Model, world: World) -> Iterator[Step]:
    # The gate's own record is read under the row lock: no look-up that could be late.
    gated = model.downstream.guarantee is Guarantee.GATED
    for bit in (EARLY,) if gated else (EARLY, AFTER_SETTLE, BY_OLD_KEY):
        if not (gated or world.absent & bit):
            continue
        after = ledger.not_happened(model, world, begun_late=bit != EARLY)
        if after is not None and after != world:
            text = f"writes down NOT_HAPPENED: the slot is {after.effect.name}"
            yield Step("coordinator", text, after)
    asserted = _assert_absence(model, world)
    if asserted is not None:
        text = "gives their word that it has not happened and that the old process will not wake"
        yield Step("operator", text, asserted)


def _assert_absence(model: Model, world: World) -> World | None:
    """8.4: the way out of slots that nothing else settles; a person's word, and a new approval for the next send."""
    if not model.assertable or world.effect not in (Effect.UNKNOWN, Effect.RESENDABLE):
        return None
    looked = AFTER_SETTLE
    if not model.rules.assertion_judges_settle_at_look:
        looked |= EARLY
    if not model.rules.assertion_judges_key:
        looked |= BY_OLD_KEY
    ended = world.dispatches[-1].stale
    if not (world.absent & looked and ended and all_late(world)):
        return None
    if model.rules.receipt_bars_absence and receipt_on_file(world):
        return None
    closed = ledger.close(world, redeemed_too=True)._replace(approval=Approval.NEEDED)
    return ledger.settle(model, closed, Effect.PREPARED)


def _cancels(model: Model, world: World) -> Iterator[Step]:
    if world.task in UNFINISHED and not world.cancels:
        yield _cancel(model, world)
    if world.task in UNFINISHED and not may_be_out(world.effect):
        after = ledger.finish(world, Task.SUPERSEDED, Denied.COMMIT)
        wrong = ledger.denial(world, Violation.COMMIT_DENIES)
        yield Step("operator", "revises the task: it is superseded", after, wrong)
    if world.task == Task.CANCELLED:
        yield Step("operator", "reopens the task", ledger.make_ready(model, world))


def _cancel(model: Model, world: World) -> Step:
    after = ledger.end_attempt(model, world).aged(OLD_GENERATION | OLD_CANCEL)
    after = ledger.void_approval(after)._replace(task=Task.CANCELLED, cancels=1)
    if may_be_out(after.effect) and model.rules.cancel_lists_may_be_out:
        return Step("operator", "cancels the task: the receipt lists the effect", after)
    wrong = ledger.denial(after, Violation.CANCEL_DENIES)
    if after.effect != Effect.COMMITTED:
        after = after.denied(Denied.CANCEL)
    return Step("operator", "cancels the task: the receipt lists nothing", after, wrong)


def _incidents(model: Model, world: World) -> Iterator[Step]:
    """One bump. Old leases only run out (12); the gate opens when no effect may be out."""
    if world.incident == Incident.NONE and world.task not in (Task.COMMITTED, Task.SUPERSEDED):
        after = ledger.end_attempt(model, world).aged(OLD_EPOCH)._replace(incident=Incident.BUMPED)
        if world.task == Task.AWAITING_APPROVAL:
            after = ledger.void_approval(after)._replace(task=Task.READY)
        yield Step("operator", "stops intake and bumps the epoch", after)
    if world.incident != Incident.BUMPED:
        return
    if not may_be_out(world.effect) or not model.rules.drain_counts_may_be_out:
        after = world._replace(incident=Incident.RESUMED)
        if world.effect != Effect.COMMITTED:
            after = after.denied(Denied.DRAIN)
        wrong = ledger.denial(world, Violation.DRAIN_DENIES)
        yield Step("operator", "finds the gate open, switches and resumes", after, wrong)
