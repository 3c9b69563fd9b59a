"""A slot is declared in the plan, and bound once to one payload (contract 8.1)."""

import pytest

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Downstream, EffectSlot
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.effects import Prepared
from coordinator.states import Guarantee
from tests import world
from tests.effects import ledger
from tests.history import nothing_moves

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def test_the_id_of_an_effect_is_made_of_task_node_and_slot_alone(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    task_id = str(claim.fence.task_id)
    assert effect.effect_id == digests.effect_id(task_id=task_id, node_id="T", slot=ledger.SLOT)


def test_the_first_call_binds_and_the_same_again_returns_the_slot(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    first = ledger.try_prepare(claim, by=by)
    again = ledger.try_prepare(claim, by=by)
    assert isinstance(first, Prepared)
    assert isinstance(again, Prepared)
    assert (first.created, again.created) == (True, False)
    assert first.effect.effect_id == again.effect.effect_id
    assert EffectSlot.objects.count() == 1


def test_the_order_of_members_is_no_difference_and_another_value_is(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    ledger.prepare(claim, by=by, payload={"a": 1, "b": [1, 2]})
    assert isinstance(ledger.try_prepare(claim, by=by, payload={"b": [1, 2], "a": 1}), Prepared)
    with nothing_moves():
        conflict = ledger.try_prepare(claim, by=by, payload={"a": 1, "b": [2, 1]})
    assert isinstance(conflict, Refusal)
    assert conflict.outcome is Outcome.PAYLOAD_CONFLICT
    assert conflict.extra["payload_digest"] == EffectSlot.objects.get().payload_digest


def test_the_condition_is_part_of_what_is_bound(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    assert isinstance(ledger.try_prepare(claim, by=by, condition={"version": 1}), Prepared)
    conflict = ledger.try_prepare(claim, by=by, condition={"version": 2})
    assert isinstance(conflict, Refusal)
    assert conflict.outcome is Outcome.PAYLOAD_CONFLICT


@pytest.mark.parametrize(
    ("slot", "downstream", "pointer"),
    [("other", "there", "/slot"), (ledger.SLOT, "elsewhere", "/downstream")],
)
def test_what_the_plan_does_not_declare_is_refused_by_name(
    by: Worker, slot: str, downstream: str, pointer: str
) -> None:
    claim = ledger.claimed(by=by)
    ledger.register(Guarantee.CONDITIONAL_WRITE, name="elsewhere")
    with nothing_moves():
        answer = ledger.try_prepare(claim, by=by, slot=slot, downstream=downstream)
    assert isinstance(answer, Refusal)
    assert [error.pointer for error in answer.errors] == [pointer]
    assert EffectSlot.objects.count() == 0


def test_the_guarantee_is_copied_so_that_the_registry_changes_no_bound_effect(by: Worker) -> None:
    claim = ledger.claimed(by=by, settle_seconds=7)
    effect = ledger.prepare(claim, by=by)
    Downstream.objects.update(guarantee=Guarantee.NONE, settle_seconds=0)
    slot = ledger.slot(effect)
    assert (slot.guarantee, slot.settle_seconds) == (Guarantee.CONDITIONAL_WRITE, 7)


def test_a_taker_over_gets_the_bound_payload_and_cannot_compose_another(by: Worker) -> None:
    first = ledger.claimed(by=by)
    effect = ledger.prepare(first, by=by)
    world.lapse(first.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    (handed,) = second.effects
    assert (handed.effect_id, handed.state) == (effect.effect_id, "PREPARED")
    assert handed.payload_digest == effect.payload_digest
    answer = ledger.try_prepare(second, by=by, payload={"mine": True})
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.PAYLOAD_CONFLICT
    late = ledger.try_prepare(first, by=by)
    assert isinstance(late, Refusal)
    assert late.outcome is Outcome.FENCED


def test_a_committed_task_leaves_what_was_only_prepared_void(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    world.commit(claim, by=by)
    assert ledger.state(effect) == "VOID"


def test_another_workers_attempt_is_not_ones_own(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    answer = ledger.try_prepare(claim, by=world.worker(name="other"))
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.FORBIDDEN
    assert EffectSlot.objects.count() == 0
