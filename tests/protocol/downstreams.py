"""What happens outside, where the coordinator sees nothing: calls arrive, tools act, time passes, others interfere.

`World.place` is what the downstream remembers:

    CONDITIONAL_WRITE   0 the condition holds · 1 it is false, by our write · 2 by another writer's
    IDEMPOTENT_KEY      0 the key is fresh · 1 too old to send again · 2 perhaps forgotten
    RESERVATION         0 nothing is reserved · 1 reserved
    FENCING_TOKEN       the highest dispatch number seen
"""

from collections.abc import Iterator

from .rules import Guarantee, Key, Model, all_late
from .world import (
    KEY_CLOSING,
    KEY_FRESH,
    KEY_LAPSED,
    Answer,
    Call,
    Denied,
    Effect,
    Step,
    Violation,
    World,
)

HOLDS, FALSE_BY_US, FALSE_BY_ANOTHER = range(3)

_DENIALS = {
    Denied.LEDGER: Violation.LEDGER_DENIES,
    Denied.COMMIT: Violation.COMMIT_DENIES,
    Denied.CANCEL: Violation.CANCEL_DENIES,
    Denied.DRAIN: Violation.DRAIN_DENIES,
}


def steps(model: Model, world: World) -> Iterator[Step]:
    yield from _memory(model, world)
    for number, d in enumerate(world.dispatches):
        if d.call in (Call.SENT, Call.INSIDE):
            yield from _arrivals(model, world, number)
        elif not model.rules.redeems_once or not model.rules.redeem_id_per_execution:
            yield from _second_execution(model, world, number)
    if model.downstream.time_passes and not all_late(world):
        yield _time(model, world)
    last = len(world.dispatches) - 1
    if last >= 0 and world.dispatches[last].late and world.effect == Effect.ACCEPTED:
        after = world._replace(effect=Effect.UNKNOWN)
        yield Step("coordinator", f"sweeps dispatch {last + 1}, past its deadline: UNKNOWN", after)


def _arrivals(model: Model, world: World, number: int) -> Iterator[Step]:
    match model.downstream.guarantee:
        case Guarantee.CONDITIONAL_WRITE:
            yield from _conditional(model, world, number)
        case Guarantee.IDEMPOTENT_KEY:
            yield from _keyed(model, world, number)
        case Guarantee.RESERVATION:
            yield from _reserved(model, world, number)
        case Guarantee.GATED:
            yield from _gated(model, world, number)
        case Guarantee.FENCING_TOKEN:
            if number + 1 >= world.place:
                after = world._replace(place=number + 1)
                yield _performs(model, after, number, "passes the token and is performed")
        case Guarantee.QUERY_ONLY | Guarantee.NONE:
            yield _performs(model, world, number, "arrives and is performed")
    d = world.dispatches[number]
    if d.call == Call.SENT and d.answer == Answer.NOTHING and not d.redeemed:
        yield from _refuses(model, world, number)


def _performs(model: Model, world: World, number: int, text: str, *, stays: bool = True) -> Step:
    """The outside effect. Its answer starts back; whether it is ever heard is another matter."""
    d = world.dispatches[number]
    call = d.call if model.downstream.repeats and stays else Call.OVER
    after = world.changed(number, call=call, answer=Answer.DONE)._replace(performed=1)
    wrong = _DENIALS.get(d.denied)
    if world.performed:
        wrong = Violation.PERFORMED_TWICE
    elif d.payload:
        wrong = Violation.OTHER_PAYLOAD
    return Step("downstream", f"the call of dispatch {number + 1} {text}", after, wrong)


def _answers(model: Model, world: World, number: int, text: str, answer: Answer) -> Iterator[Step]:
    """An arrival that changes nothing outside. The newest clear answer is the one that the worker may hear."""
    d = world.dispatches[number]
    after = world.changed(
        number,
        call=d.call if model.downstream.repeats else Call.OVER,
        answer=d.answer if answer == Answer.NOTHING else answer,
    )
    if after != world:
        yield Step("downstream", f"the call of dispatch {number + 1} {text}", after)


def _refuses(model: Model, world: World, number: int) -> Iterator[Step]:
    """Refused for a reason of the downstream's own, truly not done: bad bytes, no credit, no right."""
    call = Call.OVER if model.downstream.refusal_final else Call.SENT
    after = world.changed(number, call=call, answer=Answer.NOT_DONE)
    yield Step("downstream", f"the call of dispatch {number + 1} is refused: not done", after)


def _conditional(model: Model, world: World, number: int) -> Iterator[Step]:
    if world.place == HOLDS:
        after = world._replace(place=FALSE_BY_US)
        yield _performs(model, after, number, "finds its condition true and is performed")
        return
    taken_for = {Effect.COMMITTED: Answer.DONE, Effect.PREPARED: Answer.NOT_DONE}
    answer = taken_for.get(model.rules.false_condition, Answer.NOTHING)
    yield from _answers(model, world, number, "finds its condition false (412)", answer)


def _keyed(model: Model, world: World, number: int) -> Iterator[Step]:
    if world.performed and world.place != KEY_LAPSED:
        text = "is known by its key, and gets the first answer"
        yield from _answers(model, world, number, text, Answer.DONE)
    else:
        yield _performs(model, world, number, "brings a key not known, and is performed")


def _reserved(model: Model, world: World, number: int) -> Iterator[Step]:
    """Reserve under the effect_id, then confirm, once per name for ever. A reservation may lapse in between."""
    named = model.downstream.named
    if world.performed and named:
        text = "is told that this name is confirmed already"
        yield from _answers(model, world, number, text, Answer.DONE)
        return
    if world.dispatches[number].call == Call.SENT or model.downstream.repeats:
        after = world.changed(number, call=Call.INSIDE)._replace(place=1)
        if after != world:
            yield Step("downstream", f"dispatch {number + 1} reserves", after)
    if world.dispatches[number].call != Call.INSIDE:
        return
    if world.place or not named:
        yield _performs(model, world, number, "confirms its reservation: performed")
    else:
        after = world.changed(number, call=Call.OVER, answer=Answer.NOT_DONE)
        yield Step("downstream", f"dispatch {number + 1} confirms too late: lapsed", after)


def _gated(model: Model, world: World, number: int) -> Iterator[Step]:
    """8.5. The tool asks the gate, and acts some time after it was let in; what is not let in does nothing."""
    d, rules = world.dispatches[number], model.rules
    name = f"dispatch {number + 1}"
    if d.call == Call.INSIDE:
        yield _performs(model, world, number, "was let in, and the tool acts", stays=False)
        after = world.changed(number, call=Call.OVER, answer=Answer.NOT_DONE)
        yield Step("downstream", f"{name} was let in, but the tool refuses: not done", after)
        return
    newest = number == len(world.dispatches) - 1
    fits_slot = newest and world.effect in (Effect.ACCEPTED, Effect.UNKNOWN)
    current = model.current(d.stale, world)
    if (
        d.unsettled
        and (fits_slot or not rules.redeem_needs_slot)
        and (current or not rules.redeem_needs_current)
    ):
        after = world.changed(number, call=Call.INSIDE, redeemed=1)
        wrong = Violation.STALE_OWNER if d.stale else None
        yield Step("gate", f"lets {name} in: REDEEMED", after, wrong)


def _second_execution(model: Model, world: World, number: int) -> Iterator[Step]:
    """The network delivers a redeemed call once more, to a gate that has the one or the other fault."""
    d = world.dispatches[number]
    if d.redeemed and d.call == Call.OVER and model.downstream.repeats:
        after = world.changed(number, call=Call.INSIDE)
        text = f"lets dispatch {number + 1} in once more"
        wrong = None if model.rules.redeems_once else Violation.REDEEMED_TWICE
        yield Step("gate", text, after, wrong)


def _time(model: Model, world: World) -> Step:
    """The oldest deadline + settle passes: what was sent can arrive no more; what was not, if its receiver says so."""
    number = next(n for n, d in enumerate(world.dispatches) if not d.late)
    ends = {Call.SENT} | ({Call.HELD, Call.INSIDE} if model.downstream.held_calls_end else set())
    d = world.dispatches[number]
    after = world.changed(number, late=1, call=Call.OVER if d.call in ends else d.call)
    return Step("time", f"the deadline and the settle time of dispatch {number + 1} pass", after)


def _memory(model: Model, world: World) -> Iterator[Step]:
    """What a downstream forgets, and what others do to it."""
    downstream = model.downstream
    match downstream.guarantee:
        case Guarantee.CONDITIONAL_WRITE if world.place == HOLDS and downstream.another_writer:
            after = world._replace(place=FALSE_BY_ANOTHER)
            yield Step("another writer", "writes first: the condition is false", after)
        case Guarantee.CONDITIONAL_WRITE if world.place and downstream.value_returns:
            yield Step("another writer", "restores the old value", world._replace(place=HOLDS))
        case Guarantee.RESERVATION if world.place:
            yield Step("downstream", "lets the reservation lapse", world._replace(place=0))
        case Guarantee.IDEMPOTENT_KEY if world.dispatches and downstream.time_passes:
            yield from _key_ages(model, world)
        case _:
            pass


def _key_ages(model: Model, world: World) -> Iterator[Step]:
    if world.place == KEY_FRESH:
        text = "the key grows too old to send again"
        yield Step("time", text, world._replace(place=KEY_CLOSING))
    if world.place == KEY_CLOSING and all_late(world):
        out = any(d.call != Call.OVER for d in world.dispatches)
        if not out or model.downstream.key is Key.LAPSES:
            yield Step("time", "the key's validity ends", world._replace(place=KEY_LAPSED))
