"""C05 — the client gives up at 15 s, the work starts at 20 s, and nobody holds the id.

The id of an effect is known before anything is sent, and a timeout is not a failure: nothing is sent again until
somebody has asked by that id. The library's side of it is in tests/downstreams/test_perform.py; a worker process killed
between its permission and its call is in tests/races/test_lost_answer.py.
"""

from typing import Any

import pytest

from coordinator.actors import system
from coordinator.models import Dispatch, EffectSlot, Evidence
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.effects import EffectFilters, list_effects
from coordinator.services.deadlines import pass_deadlines
from coordinator.services.effect_rows import EffectView
from coordinator.services.effects import Prepared
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import Finding, Method, Settled, Verdict, reconcile_effect
from coordinator.services.reports import Recorded
from coordinator.states import Guarantee
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import LookUpDown, Mailbox, Mode
from tests.cases.moving_clock import advance
from tests.effects import ledger
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

CALL = {"call": "+00 000 000", "say": "hello"}


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def unknown_list() -> list[str]:
    """What a person sees as not settled."""
    return [effect.effect_id for effect in list_effects(EffectFilters(may_be_out=True))]


def dialled(phone: Mailbox) -> tuple[Claim, EffectView]:
    """Step 1: A's call is permitted and made, its answer never comes, and A dies."""
    a = world.worker(name="A")
    world.submit(node("T", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    effect = mailbox.prepared(claim, by=a, payload=CALL)
    assert phone.send_prepared(effect, claim, by=a) == Recorded("UNKNOWN")
    assert phone.x == 1
    with nothing_moves():
        assert refused(world.try_commit(claim, by=a)) is Outcome.RECONCILE_FIRST
    world.lapse(claim.fence.task_id)
    return claim, effect


def test_c05_a_timeout_is_looked_up_by_its_id_and_never_dialled_again() -> None:
    mailbox.register()
    phone, b, c = Mailbox(Mode.DROP_REPLY), world.worker(name="B"), world.worker(name="C")
    first, effect = dialled(phone)
    claim = first
    for number in range(1, 5):  # 2, and 3: three more automatic retries
        claim = world.claim_one(by=b, owner=f"B{number}")
        again = mailbox.prepare(claim, by=b, payload=CALL)
        assert isinstance(again, Prepared)
        assert (again.outcome, again.effect.effect_id) == ("UNKNOWN", effect.effect_id)
        with nothing_moves():
            answer = phone.send_prepared(again.effect, claim, by=b)
            assert refused(answer) is Outcome.RECONCILE_FIRST
        assert unknown_list() == [effect.effect_id]
        world.lapse(first.fence.task_id)
    assert phone.reconcile(effect, by=ledger.person("olga")) == Settled("COMMITTED")  # 4
    last = world.claim_one(by=c)
    known = mailbox.prepare(last, by=c, payload=CALL)
    assert isinstance(known, Prepared)
    assert known.outcome == "COMMITTED"
    assert refused(phone.send_prepared(known.effect, last, by=c)) is Outcome.ALREADY_SETTLED
    world.commit(last, by=c)
    assert (phone.x, phone.xp, EffectSlot.objects.count(), Dispatch.objects.count()) == (1, 1, 1, 1)


def test_c05_2_where_no_worker_can_settle_it_the_task_waits_on_the_list() -> None:
    """A phone that dedupes nothing: its task is parked, and no retry is handed out at all."""
    by = world.worker()
    claim, effect = ledger.approved_and_sent(by=by, guarantee=Guarantee.QUERY_ONLY)
    for _ in range(4):
        world.lapse(claim.fence.task_id)
        assert world.claim(by=by) == []
    assert world.task(claim.fence.task_id).state == "AWAITING_RECONCILIATION"
    assert unknown_list() == [effect.effect_id]
    assert Dispatch.objects.count() == 1
    ledger.happened(effect, by=ledger.person("olga"))
    assert unknown_list() == []
    world.commit(world.claim_one(by=by), by=by)


def test_c05_5_a_lost_request_is_sent_under_the_same_key_once_its_absence_is_known() -> None:
    mailbox.register()
    phone, c = Mailbox(Mode.LOSE_REQUEST), world.worker(name="C")
    _, effect = dialled(phone)
    assert phone.reconcile(effect, by=ledger.person("olga")) == Settled("RESENDABLE")
    phone.mode = Mode.NORMAL
    claim = world.claim_one(by=c)
    again = mailbox.prepare(claim, by=c, payload=CALL)
    assert isinstance(again, Prepared)
    assert again.effect.effect_id == effect.effect_id
    assert phone.send_prepared(again.effect, claim, by=c) == Recorded("COMMITTED")
    world.commit(claim, by=c)
    assert set(phone.arrived) == {effect.effect_id}
    assert (phone.x, phone.xp) == (2, 1)


def test_c05_6_a_look_up_that_is_down_or_does_not_know_settles_nothing() -> None:
    mailbox.register()
    phone = Mailbox(Mode.DROP_REPLY, look_up_works=False)
    _, effect = dialled(phone)
    b = world.worker(name="B")
    claim = world.claim_one(by=b, owner="B")
    with pytest.raises(LookUpDown):
        phone.reconcile(effect, by=b, fence=claim.fence)
    # Without a look-up, and with one that was never stamped: no evidence.
    unstamped = Verdict(Finding.NOT_HAPPENED, 1, Method.QUERY, "it said: unknown")
    words = Verdict(Finding.NOT_HAPPENED, 1, Method.OPERATOR, "it did not answer")
    with nothing_moves():
        for verdict, outcome in (
            (unstamped, Outcome.INVALID),
            (words, Outcome.ABSENCE_NOT_SEALED),
        ):
            answer = reconcile_effect(
                effect_id=effect.effect_id, verdict=verdict, actor=b, fence=claim.fence
            )
            assert refused(answer) is outcome
    assert ledger.state(effect) == "UNKNOWN"
    assert unknown_list() == [effect.effect_id]
    assert Evidence.objects.filter(said="NOT_HAPPENED", detail__counted=True).count() == 0
    phone.look_up_works = True
    assert phone.reconcile(effect, by=b, fence=claim.fence) == Settled("COMMITTED")
    world.commit(claim, by=b)
    assert phone.xp == 1


def test_c05_end_the_key_is_on_the_list_before_the_first_byte_has_gone_out() -> None:
    """A dies between its permission and its call: what is durable is enough to find it again."""
    mailbox.register()
    a = world.worker(name="A")
    world.submit(node("T", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    effect = mailbox.prepared(claim, by=a, payload=CALL)
    mailbox.accepted(effect, claim.fence, by=a)
    with world.holding("SELECT 1") as elsewhere:  # another connection, as after a restart
        seen = elsewhere.execute("SELECT effect_id, state, payload FROM coordinator_effectslot")
        assert [(row[0], row[1]) for row in seen] == [(effect.effect_id, "ACCEPTED")]
    assert unknown_list() == [effect.effect_id]
    advance(61)
    assert pass_deadlines(actor=system("deadlines")) == 1
    assert ledger.state(effect) == "UNKNOWN"
    assert unknown_list() == [effect.effect_id]
