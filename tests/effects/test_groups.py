"""What may be out is grouped by its cause: one downstream that fails, many rows (contract 8)."""

import pytest

from coordinator.actors import Worker
from coordinator.selectors.effects import group_effects
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)


def test_what_may_be_out_is_counted_by_cause_the_oldest_first(by: Worker) -> None:
    ledger.register(Guarantee.CONDITIONAL_WRITE)
    ledger.register(Guarantee.IDEMPOTENT_KEY, name="bank")
    held = []
    for number, there in enumerate(["there", "there", "bank", "there"]):
        world.submit(world.node("T", slots={ledger.SLOT: there}), name=str(number))
        claim = world.claim_one(by=by)
        answer = ledger.try_prepare(claim, by=by, downstream=there)
        effect = answer.effect  # type: ignore[union-attr]
        held.append((claim, effect, ledger.accept(effect, claim.fence, by=by)))
    for claim, effect, accepted in held[:3]:
        ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    claim, effect, accepted = held[3]
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)  # nothing of it is out
    ledger.pass_time(held[2][1], seconds=60)
    groups = group_effects()
    assert [(group.downstream, group.state, group.effects) for group in groups] == [
        ("bank", "UNKNOWN", 1),
        ("there", "UNKNOWN", 2),
    ]
    assert all(group.oldest is not None and group.queue == "q" for group in groups)
    assert group_effects(queues=["elsewhere"]) == []
