"""C06 — one key, two different requests.

The contract decides step 5: a revision is a new task with effects of its own, refused while one of the old may be out;
what has happened is listed in its answer.
"""

import json
import re
from typing import Any

import pytest

from coordinator.models import Dispatch, EffectSlot, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.effects import Prepared
from coordinator.services.reports import Recorded
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.api.callers import Api, attempt_path
from tests.api.callers import node as api_node
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.history import nothing_moves
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

H1 = {"amount": 20, "to": "X"}
H2 = {"amount": 20, "to": "X", "metadata": {"retry": 1}}


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def revise(of: Any) -> Revised | Refusal:
    return revise_task(
        task_id=of,
        expected_state_version=world.task(of).state_version,
        input={"other": True},
        reason="other words",
        actor=world.operator(),
    )


@pytest.mark.usefixtures("lane")
def test_c06_1_to_3_a_slot_has_one_payload_for_ever_and_others_permit_nothing() -> None:
    mailbox.register()
    a = world.worker(name="A")
    world.submit(node("pay", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    first, again = (mailbox.prepare(claim, by=a, payload=H1) for _ in range(2))  # 1
    assert isinstance(first, Prepared)
    assert isinstance(again, Prepared)
    assert first.effect.effect_id == again.effect.effect_id
    with nothing_moves():  # 2
        conflict = mailbox.prepare(claim, by=a, payload=H2)
    assert refused(conflict) is Outcome.PAYLOAD_CONFLICT
    assert isinstance(conflict, Refusal)
    assert conflict.extra["payload_digest"] == first.effect.payload_digest
    assert EffectSlot.objects.get().payload_digest == first.effect.payload_digest
    with nothing_moves():  # 3: the body that was given has another digest
        other = "sha256:" + "2" * 64
        assert (
            refused(mailbox.accept(first.effect, claim.fence, by=a, digest=other))
            is Outcome.PAYLOAD_CONFLICT
        )
    assert Dispatch.objects.count() == 0
    told = Event.objects.filter(refusal_key__isnull=False, data__outcome="PAYLOAD_CONFLICT")
    assert {event.data["point"] for event in told} == {"prepare", "accept"}


def test_c06_4_order_and_spacing_are_no_difference(api: Api) -> None:
    mailbox.register()
    api.submit(api_node("pay", slots={"mail": "mail"}))
    claim = api.claim()
    path = attempt_path(claim, "effects")
    body = {"fence": claim["fence"], "slot": "mail", "downstream": "mail", "payload": H1}
    first = api.worker.post(path, body)
    assert first.status == 201
    turned = {**body, "payload": dict(reversed(H1.items()))}
    wide = re.sub(r": 20\b", ": 2.0e1", json.dumps(turned, indent=3)).encode()
    assert b"2.0e1" in wide
    again = api.worker.send("POST", path, raw=wide)
    assert again.status == 200
    assert again.body["effect"] == first.body["effect"]


@pytest.mark.usefixtures("lane")
def test_c06_5_a_revision_voids_what_was_only_prepared() -> None:
    mailbox.register()
    a = world.worker(name="A")
    world.submit(node("pay", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    k1 = mailbox.prepared(claim, by=a, payload=H1)
    revised = revise(claim.fence.task_id)
    assert isinstance(revised, Revised)
    assert revised.effects == []
    second = world.claim_one(by=a)
    k2 = mailbox.prepared(second, by=a, payload=H2)
    assert k2.effect_id != k1.effect_id
    assert EffectSlot.objects.get(effect_id=k1.effect_id).state == "VOID"
    with nothing_moves():
        assert refused(mailbox.accept(k1, claim.fence, by=a)) is Outcome.STALE_INPUT
        # Nor does the new attempt get anywhere with the old key.
        assert refused(mailbox.accept(k1, second.fence, by=a)) is Outcome.NOT_FOUND
    box = Mailbox()
    assert box.send_prepared(k2, second, by=a) == Recorded("COMMITTED")
    assert [mail.payload for mail in box.mails] == [H2]


@pytest.mark.usefixtures("lane")
def test_c06_5_a_revision_waits_for_a_call_without_outcome_and_lists_what_has_happened() -> None:
    mailbox.register()
    a, box = world.worker(name="A"), Mailbox()
    world.submit(node("pay", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    k1 = mailbox.prepared(claim, by=a, payload=H1)
    dispatch = mailbox.accepted(k1, claim.fence, by=a)
    outcome, receipt = box.transmit(k1, dispatch)
    with nothing_moves():
        assert refused(revise(claim.fence.task_id)) is Outcome.RECONCILE_FIRST
    assert outcome is DispatchOutcome.COMMITTED
    mailbox.report(k1, claim, dispatch, outcome, by=a, receipt=receipt)
    revised = revise(claim.fence.task_id)
    assert isinstance(revised, Revised)
    assert [(each.effect_id, each.state) for each in revised.effects] == [
        (k1.effect_id, "COMMITTED")
    ]
    assert box.x == 1


@pytest.mark.usefixtures("lane")
def test_c06_6_the_key_of_one_slot_does_nothing_for_another() -> None:
    mailbox.register()
    mailbox.register(name="invoices", guarantee=Guarantee.CONDITIONAL_WRITE)
    a = world.worker(name="A")
    slots = {"invoice.create": "invoices", "invoice.pay": "mail"}
    run = world.submit(node("T", slots=slots), node("other", slots={"mail": "mail"}))
    claim, other = (world.claim_one(by=a, of=world.task_id(run, name)) for name in ("T", "other"))
    create = mailbox.prepared(claim, by=a, payload=H1, slot="invoice.create", downstream="invoices")
    pay = mailbox.prepared(claim, by=a, payload=H1, slot="invoice.pay", downstream="mail")
    assert create.effect_id != pay.effect_id
    assert create.payload_digest != pay.payload_digest  # the downstream is part of what is bound
    with nothing_moves():
        crossed = mailbox.accept(create, claim.fence, by=a, digest=pay.payload_digest)
        assert refused(crossed) is Outcome.PAYLOAD_CONFLICT
        misplaced = mailbox.prepare(
            claim, by=a, payload=H1, slot="invoice.pay", downstream="invoices"
        )
        assert refused(misplaced) is Outcome.INVALID
        assert refused(mailbox.accept(create, other.fence, by=a)) is Outcome.NOT_FOUND
    assert Dispatch.objects.count() == 0
