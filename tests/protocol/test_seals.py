"""The coordinator's own rules of seals and ends, held against the model in every world that the model reaches."""

from datetime import UTC, datetime, timedelta
from functools import cache
from uuid import UUID

import pytest

from coordinator import seals
from coordinator.seals import DispatchRow, EffectRow, Seal

from . import ledger
from .rules import Guarantee, Model, all_late, receipt_on_file
from .scenarios import PROMISED
from .search import reachable
from .world import AFTER_SETTLE, EARLY, KEY_LAPSED, Dispatch, Effect, Outcome, World

CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
AGO = {EARLY: timedelta(seconds=300), AFTER_SETTLE: timedelta(seconds=1)}  # when somebody looked
PASSED, COMING = CLOCK - timedelta(seconds=100), CLOCK + timedelta(seconds=100)
ID = UUID(int=0)


def effect_row(model: Model, world: World) -> EffectRow:
    """The slot as the coordinator would hold it: settle is 10 s, a key is good for 1,000 s."""
    lapsed = model.downstream.forgetful and world.place == KEY_LAPSED
    return EffectRow(
        effect_id="",
        task_id=ID,
        node_id="node",
        slot="slot",
        downstream="downstream",
        payload_digest="",
        state=world.effect.name,
        dispatches=len(world.dispatches),
        receipt=None,
        first_accepted_at=CLOCK - timedelta(seconds=2_000 if lapsed else 500),
        call_deadline=None,
        guarantee=model.downstream.guarantee.name,
        call_timeout_seconds=5,
        key_valid_seconds=1_000,
        settle_seconds=10,
        refuses_late=model.downstream.refuses_late,
        serial_scope="",
        required_approvers=1,
        is_exclusive=not model.replayable,
        needs_approval=False,
        happened_on_file=receipt_on_file(world),
        verdict=None,
        verdict_dispatches=None,
    )


def dispatch_row(number: int, d: Dispatch) -> DispatchRow:
    return DispatchRow(
        dispatch_id=UUID(int=number),
        effect_id="",
        number=number,
        attempt_id=ID,
        claim_generation=1,
        scheduler_epoch=1,
        accepted_at=PASSED,
        call_deadline=PASSED if d.late else COMING,
        redeemed_at=PASSED if d.redeemed else None,
        redeem_id=None,
        closed_at=PASSED if d.outcome == Outcome.CLOSED else None,
        outcome=d.outcome.name if d.outcome in (Outcome.COMMITTED, Outcome.REFUSED) else None,
    )


Called = tuple[Model, World, EffectRow, tuple[DispatchRow, ...]]


@cache
def called_worlds(promise: str) -> list[Called]:
    """Each world with a dispatch and an unsettled slot, once for all that the coordinator can't tell apart."""
    model = Model(downstream=next(p.downstream for p in PROMISED if p.name == promise))
    found: dict[tuple[EffectRow, tuple[DispatchRow, ...]], World] = {}
    for world in reachable(model):
        if world.dispatches and Effect.UNBOUND < world.effect < Effect.COMMITTED:
            rows = tuple(dispatch_row(n, d) for n, d in enumerate(world.dispatches, start=1))
            found.setdefault((effect_row(model, world), rows), world)
    assert len(found) > 10
    return [(model, world, effect, rows) for (effect, rows), world in found.items()]


each_promise = pytest.mark.parametrize(
    "promise",
    [pytest.param(p.name, marks=pytest.mark.xdist_group(p.name)) for p in PROMISED],
)


def sealed_by_model(model: Model, world: World, looked: int) -> Seal | None:
    after = ledger.not_happened(model, world, begun_late=looked == AFTER_SETTLE)
    if after is None:
        return None
    return Seal.FINAL if after.effect == Effect.PREPARED else Seal.RESEND


@each_promise
def test_the_coordinator_seals_absence_as_the_model_does(promise: str) -> None:
    for model, world, effect, rows in called_worlds(promise):
        if world.effect not in (Effect.UNKNOWN, Effect.RESENDABLE):
            continue
        for looked in (EARLY, AFTER_SETTLE) if all_late(world) else (EARLY,):
            sealed = seals.absence_seal(effect, rows, looked_at=CLOCK - AGO[looked], clock=CLOCK)
            wanted = sealed_by_model(model, world, looked)
            same_again = wanted is None and world.effect == Effect.RESENDABLE
            if model.downstream.guarantee is Guarantee.GATED:
                # The coordinator lets the end of the attempt close what nobody redeemed: no less, but later.
                assert sealed is None or sealed is wanted, world
            elif same_again:
                assert sealed in (None, Seal.RESEND), world
            else:
                assert sealed is wanted, world


@each_promise
def test_the_coordinator_ends_holds_as_the_model_does(promise: str) -> None:
    for model, world, effect, rows in called_worlds(promise):
        after = ledger.end_attempt(model, world)
        assert seals.after_hold(effect, rows).value == after.effect.name, world
        closes = [seals.closes_with_hold(effect, row) for row in rows]
        closed = [
            old.outcome != new.outcome
            for old, new in zip(world.dispatches, after.dispatches, strict=True)
        ]
        if effect.may_be_out:
            assert closes == closed, world


@each_promise
def test_a_task_waits_for_a_person_where_the_model_says_so(promise: str) -> None:
    for model, world, effect, _ in called_worlds(promise):
        if effect.may_be_out and not receipt_on_file(world):
            assert seals.worker_can_settle(effect, CLOCK) == model.can_settle(world), world
