"""C21 — the run fails after the tool worked, and starts over.

A retried run is another attempt of the same task: its effects are where it left them. The library's side, with a
handler that raises, is in tests/downstreams/test_perform.py.
"""

from typing import Any

import pytest

from coordinator.actors import Worker
from coordinator.models import EffectSlot
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.effects import Prepared
from coordinator.services.endings import Failed, RetryScheduled, fail_attempt
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded
from coordinator.states import Guarantee
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

CHARGE = {"amount": 20}


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def model_fails(claim: Claim, *, by: Worker, retryable: bool = True) -> RetryScheduled | Failed:
    answer = fail_attempt(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        error={"type": "ModelError", "message": "500"},
        retryable=retryable,
        retry_after_seconds=None,
        usage=None,
        worker=by,
    )
    assert isinstance(answer, RetryScheduled | Failed), answer
    return answer


def next_run(claim: Claim, *, by: Worker) -> Claim:
    world.make_due(claim.fence.task_id)
    return world.claim_one(by=by)


def charged(*slots: str, by: Worker, card: Mailbox) -> Claim:
    """Run 1: its first step charges the card, its model fails."""
    mailbox.register(name="card", guarantee=Guarantee.IDEMPOTENT_KEY)
    world.submit(node("T", slots=dict.fromkeys(slots, "card")))
    claim = world.claim_one(by=by)
    sent = card.send(claim, by=by, payload=CHARGE, slot=slots[0], downstream="card")
    assert sent == Recorded("COMMITTED")
    assert isinstance(model_fails(claim, by=by), RetryScheduled)
    return claim


def test_c21_1_to_3_a_run_that_starts_over_gets_its_receipt_and_does_not_charge() -> None:
    by, card = world.worker(), Mailbox()
    claim = charged("s1", by=by, card=card)
    for _ in range(2):  # 2: runs 2 and 3
        claim = next_run(claim, by=by)
        (handed,) = claim.effects
        assert handed.state == "COMMITTED"
        known = mailbox.prepare(claim, by=by, payload=CHARGE, slot="s1", downstream="card")
        assert isinstance(known, Prepared)
        assert known.outcome == "COMMITTED"
        assert known.effect.receipt is not None
        with nothing_moves():
            again = card.send_prepared(known.effect, claim, by=by)
            assert refused(again) is Outcome.ALREADY_SETTLED
        model_fails(claim, by=by)
    assert card.x == 1

    claim = next_run(claim, by=by)  # 3: other bytes, same meaning
    number = mailbox.prepare(claim, by=by, payload={"amount": 20.00}, slot="s1", downstream="card")
    assert isinstance(number, Prepared)  # 20.00 is written 20 in the canonical form
    assert number.outcome == "COMMITTED"
    with nothing_moves():
        text = mailbox.prepare(
            claim, by=by, payload={"amount": "20.00"}, slot="s1", downstream="card"
        )
    assert refused(text) is Outcome.PAYLOAD_CONFLICT
    assert isinstance(model_fails(claim, by=by, retryable=False), Failed)  # and stops for a person
    assert (card.x, card.xp) == (1, 1)


def test_c21_4_a_run_that_means_to_charge_twice_has_two_slots() -> None:
    by, card = world.worker(), Mailbox()
    claim = next_run(charged("s1", "s1b", by=by, card=card), by=by)
    second = card.send(claim, by=by, payload=CHARGE, slot="s1b", downstream="card")
    assert second == Recorded("COMMITTED")
    assert EffectSlot.objects.values("effect_id").distinct().count() == 2
    world.commit(claim, by=by)
    assert (card.x, card.xp, len(set(card.arrived))) == (2, 2, 2)


def test_c21_5_another_order_of_steps_finds_the_charge_by_its_slot() -> None:
    by, card = world.worker(), Mailbox()
    claim = next_run(charged("charge", "notify", by=by, card=card), by=by)
    first = card.send(claim, by=by, payload={"note": 1}, slot="notify", downstream="card")
    assert first == Recorded("COMMITTED")
    with nothing_moves():
        again = card.send(claim, by=by, payload=CHARGE, slot="charge", downstream="card")
    assert refused(again) is Outcome.ALREADY_SETTLED
    with nothing_moves():  # a step that the plan does not name is not a way round it
        invented = card.send(claim, by=by, payload=CHARGE, slot="charge-2", downstream="card")
    assert refused(invented) is Outcome.INVALID
    world.commit(claim, by=by)
    assert [mail.payload for mail in card.mails] == [CHARGE, {"note": 1}]
