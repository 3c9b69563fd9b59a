"""Brings worlds together that can't be told apart from here on, so that a search visits one for many.

Each rule below forgets something that no rule of the contract, and no invariant, will ever ask for again. What a
mutant may still ask for is kept.
"""

from .rules import Model, may_be_out, receipt_on_file
from .world import (
    AFTER_SETTLE,
    BY_OLD_KEY,
    EARLY,
    GONE,
    Answer,
    Call,
    Dispatch,
    Effect,
    Incident,
    Outcome,
    Task,
    World,
)


def forget(model: Model, world: World) -> World:
    """The one world that stands for all those that go on like this one."""
    if world.task in (Task.COMMITTED, Task.SUPERSEDED):
        world = world._replace(holder=GONE, before=GONE, cancels=0, incident=Incident.NONE)
    else:
        # A fence that the guard refuses stays refused: no need to know why.
        checked = model.rules.checked
        if world.holder & checked and world.holder < GONE:
            world = world._replace(holder=GONE)
        if world.before & checked and world.before < GONE:
            world = world._replace(before=GONE)
    if world.absent:
        world = world._replace(absent=world.absent & _useful(model, world))
    if not world.dispatches:
        return world
    last = len(world.dispatches) - 1
    final = world.effect >= Effect.COMMITTED
    dispatches = tuple(
        _after_the_end(d) if final else _dispatch(model, d, newest=number == last)
        for number, d in enumerate(world.dispatches)
    )
    return world if dispatches == world.dispatches else world._replace(dispatches=dispatches)


def _useful(model: Model, world: World) -> int:
    """The look-ups whose verdict might still be taken."""
    rules, downstream = model.rules, model.downstream
    if not rules.counts_dispatches:
        return EARLY | AFTER_SETTLE | BY_OLD_KEY
    if not may_be_out(world.effect) or (rules.receipt_bars_absence and receipt_on_file(world)):
        return 0
    useful = 0 if rules.key_window_at_seal else BY_OLD_KEY
    if model.assertable:
        asserted_early = not rules.assertion_judges_settle_at_look
        useful |= 0 if rules.assertion_judges_key else BY_OLD_KEY
        return useful | AFTER_SETTLE | (EARLY if asserted_early or downstream.resend_seals else 0)
    by_time = downstream.refuses_late or rules.elapsed_time_seals
    useful |= AFTER_SETTLE if by_time or downstream.resend_seals else 0
    # RESENDABLE becomes UNKNOWN again only by a receipt, which bars every absence.
    resend = downstream.resend_seals and world.effect != Effect.RESENDABLE
    return useful | (EARLY if resend or not rules.receipt_bars_absence else 0)


def _dispatch(model: Model, d: Dispatch, *, newest: bool) -> Dispatch:
    rules = model.rules
    # Only the newest dispatch counts in reports and at the gate: whose an older one was matters no more.
    no_use = d.stale & rules.checked or (
        not newest and rules.report_needs_newest and rules.older_receipt_counts
    )
    if no_use and d.stale != GONE:
        d = d._replace(stale=GONE)
    # "Not done" that a report can't make any use of.
    said = not d.unsettled or (d.stale == GONE and not d.redeemed)
    if said and d.answer == Answer.NOT_DONE and d.call == Call.OVER:
        d = d._replace(answer=Answer.NOTHING)
    return d


def _after_the_end(d: Dispatch) -> Dispatch:
    """The slot is COMMITTED or VOID for ever. All that can still go wrong is that a call lands."""
    if d.call == Call.OVER:
        return Dispatch(GONE, 0, d.call, Outcome.CLOSED, late=1, redeemed=d.redeemed)
    return d._replace(stale=GONE, outcome=Outcome.CLOSED, receipt=0)
