"""C15 — "retry" wipes the proof that it already went out.

What retries here: reopening, revising, and claiming again. None of them touches what is on file about an effect, and
none gets past one that may be out.
"""

from typing import Any
from uuid import UUID

import pytest

from coordinator.models import Dispatch, EffectSlot, Event, Evidence
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.effects import Prepared
from coordinator.services.reconciliation import Finding, Method, Settled, Verdict, reconcile_effect
from coordinator.services.reopenings import Reopened, reopen_task
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox, Mode
from tests.effects import ledger
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

MANY = 50


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def reopen(of: UUID, who: str = "olga") -> Reopened | Refusal:
    return reopen_task(
        task_id=of,
        expected_state_version=world.task(of).state_version,
        reason="try it again",
        actor=ledger.person(who),
    )


def revise(of: UUID) -> Revised | Refusal:
    return revise_task(
        task_id=of,
        expected_state_version=world.task(of).state_version,
        input={"again": True},
        reason="try it again",
        actor=ledger.person("olga"),
    )


def on_file() -> list[Any]:
    return [
        list(model.objects.order_by("pk").values()) for model in (EffectSlot, Dispatch, Evidence)
    ]


def test_c15_a_payout_that_went_out_is_settled_and_never_paid_again() -> None:
    mailbox.register(guarantee=Guarantee.QUERY_ONLY)
    bank, a, b = Mailbox(Mode.DROP_REPLY), world.worker(name="A"), world.worker(name="B")
    world.submit(node("T", slots={"mail": "mail"}))
    claim = world.claim_one(by=a)
    task_id = claim.fence.task_id
    pay = mailbox.prepared(claim, by=a)
    asked = ledger.approval(mailbox.accept(pay, claim.fence, by=a))
    ledger.say_yes(asked)
    claim = world.claim_one(by=a)
    dispatch = mailbox.accepted(pay, claim.fence, by=a)  # 1
    assert bank.transmit(pay, dispatch) == (DispatchOutcome.UNKNOWN, None)  # and A dies
    world.lapse(task_id)
    assert world.claim(by=b) == []
    assert world.task(task_id).state == "AWAITING_RECONCILIATION"

    before = on_file()
    with nothing_moves():  # 2
        assert refused(reopen(task_id)) is Outcome.ALREADY_SETTLED
        assert refused(revise(task_id)) is Outcome.RECONCILE_FIRST
        assert world.claim(by=b) == []
    assert on_file() == before

    olga, pavel = ledger.person("olga"), ledger.person("pavel")
    with nothing_moves():  # 3
        assert refused(ledger.happened(pay, by=olga, receipt=None)) is Outcome.INVALID
    assert ledger.happened(pay, by=olga, receipt={"mail": 1}) == Settled("COMMITTED")
    settled = on_file()[:2]
    absent = Verdict(Finding.NOT_HAPPENED, 1, Method.OPERATOR, {"statement": ledger.STATEMENT})
    with nothing_moves():  # 4
        answer = reconcile_effect(
            effect_id=pay.effect_id, verdict=absent, actor=pavel, may_assert_absence=True
        )
        assert refused(answer) is Outcome.ALREADY_SETTLED
        same = ledger.happened(pay, by=pavel, receipt={"mail": 1})
        assert same == Settled("COMMITTED", replayed=True)

    last = world.claim_one(by=b)  # 5
    known = mailbox.prepare(last, by=b)
    assert isinstance(known, Prepared)
    assert known.outcome == "COMMITTED"
    assert refused(bank.send_prepared(known.effect, last, by=b)) is Outcome.ALREADY_SETTLED
    world.commit(last, by=b)
    with nothing_moves():  # 6: A wakes
        late = mailbox.report(
            pay, claim, dispatch, DispatchOutcome.COMMITTED, by=a, receipt={"mail": 1}
        )
    assert refused(late) is Outcome.FENCED
    assert on_file()[:2] == settled
    assert Evidence.objects.filter(late=True, said="COMMITTED").count() == 1
    assert (bank.x, bank.xp) == (1, 1)
    told = Event.objects.filter(task_id=task_id).values_list("actor", flat=True)
    assert {"operator:olga", "operator:pavel"} <= set(told)


def test_c15_2_a_cancelled_or_failed_task_is_reopened_with_everything_on_file() -> None:
    mailbox.register(guarantee=Guarantee.QUERY_ONLY)
    by = world.worker()
    world.submit(node("T", slots={"mail": "mail"}))
    claim = world.claim_one(by=by)
    pay = mailbox.prepared(claim, by=by)
    ledger.say_yes(ledger.approval(mailbox.accept(pay, claim.fence, by=by)))
    claim = world.claim_one(by=by)
    mailbox.accepted(pay, claim.fence, by=by)
    task_id = claim.fence.task_id
    cancelled = cancel_task(task_id=task_id, reason="not that", actor=world.operator())
    assert isinstance(cancelled, Cancelled)
    assert [each.effect_id for each in cancelled.effects] == [pay.effect_id]
    before = on_file()
    again = reopen(task_id)
    assert isinstance(again, Reopened)
    assert (again.state, [each.effect_id for each in again.effects]) == (
        "AWAITING_RECONCILIATION",
        [pay.effect_id],
    )
    assert on_file() == before
    assert world.claim(by=by) == []


def test_c15_2_fifty_retries_at_once_are_fifty_refusals() -> None:
    mailbox.register()
    by = world.worker()
    world.submit(*(node(f"T{number}", slots={"mail": "mail"}) for number in range(MANY)))
    claims = world.claim(by=by, limit=MANY)
    for claim in claims:
        effect = mailbox.prepared(claim, by=by)
        assert isinstance(mailbox.accept(effect, claim.fence, by=by), Accepted)
    before = on_file()
    with nothing_moves():
        answers = [revise(claim.fence.task_id) for claim in claims]
    assert [refused(answer) for answer in answers] == [Outcome.RECONCILE_FIRST] * MANY
    assert on_file() == before
    told = Event.objects.filter(kind="REFUSED", data__outcome="RECONCILE_FIRST")
    assert told.values("task_id").distinct().count() == MANY
