"""C13 — one click, several executions.

Two waiting calls with the same payload are two grants; each is used up by the one acceptance that it permits.
"""

from functools import partial
from typing import Any

import pytest

from coordinator.models import Approval, Decision, Dispatch, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.approvals import Decided, approve
from coordinator.services.effect_rows import EffectView
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded
from coordinator.states import Guarantee
from tests import world
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.effects import ledger
from tests.history import nothing_moves
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def says_yes(approval: Approval, who: str) -> Decided | Refusal:
    return approve(
        approval_id=approval.approval_id,
        payload_digest=approval.payload_digest,
        actor=ledger.person(who),
    )


def waiting(name: str, *, by: Any) -> tuple[Claim, EffectView, Approval]:
    """A task of its own that has asked for its mail."""
    run = world.submit(node(name, slots={"mail": "mail"}), name=name)
    claim = world.claim_one(by=by, of=world.task_id(run, name))
    effect = mailbox.prepared(claim, by=by)
    return claim, effect, ledger.approval(mailbox.accept(effect, claim.fence, by=by))


def test_c13_one_click_is_one_execution() -> None:
    mailbox.register(guarantee=Guarantee.NONE)
    box, by = Mailbox(), world.worker()
    (first, mail1, r1), (second, mail2, r2) = (waiting(name, by=by) for name in ("T1", "T2"))  # 1
    assert r1.approval_id != r2.approval_id
    assert mail1.payload_digest == mail2.payload_digest

    receipt = says_yes(r1, "paula")  # 2
    assert isinstance(receipt, Decided)
    again = world.claim_one(by=by)
    assert again.fence.task_id == first.fence.task_id
    assert box.send_prepared(mail1, again, by=by) == Recorded("COMMITTED")
    with nothing_moves():
        assert refused(box.send_prepared(mail2, second, by=by)) is Outcome.APPROVAL_REQUIRED
    assert world.claim(by=by) == []
    assert box.x == 1

    with nothing_moves():  # 3: the double click, and a retry of the request
        for _ in range(2):
            repeat = says_yes(r1, "paula")
            assert isinstance(repeat, Decided)
            assert (repeat.replayed, repeat.decisions) == (True, receipt.decisions)
        assert box.x == 1
    world.commit(again, by=by)

    people = [ledger.person(name).name for name in ("paula", "quentin")]  # 4
    answers: list[Any] = at_once(*(partial(says_yes, r2, name) for name in people))
    winners = [answer for answer in answers if isinstance(answer, Decided)]
    losers = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [len(winners), len(losers)] == [1, 1]
    assert losers[0].outcome is Outcome.ALREADY_SETTLED
    (decision,) = Decision.objects.filter(approval=r2).select_related("operator")
    assert f"{decision.operator.username}: APPROVED" in losers[0].detail
    told = Event.objects.filter(kind="APPROVAL_DECIDED", data__approval_id=str(r2.approval_id))
    assert [event.actor for event in told] == [f"operator:{decision.operator.username}"]

    resumed: list[Any] = at_once(*[partial(world.claim, by=by)] * 2)  # 5: two workers, one grant
    ((grant,),) = [claims for claims in resumed if claims]
    accept = partial(mailbox.accept, mail2, grant.fence, by=by)
    permits: list[Any] = at_once(accept, accept)  # and two acceptances under it
    (go,) = [permit for permit in permits if isinstance(permit, Accepted)]
    (no_go,) = [permit for permit in permits if isinstance(permit, Refusal)]
    assert no_go.outcome is Outcome.RECONCILE_FIRST
    outcome, mail = box.transmit(mail2, go)
    mailbox.report(mail2, grant, go, outcome, by=by, receipt=mail)
    world.commit(grant, by=by)
    assert box.x == 2
    assert Dispatch.objects.count() == Approval.objects.filter(state="CONSUMED").count() == 2


def test_c13_6_the_same_person_twice_is_one_of_two() -> None:
    mailbox.register(guarantee=Guarantee.NONE, required_approvers=2)
    box, by = Mailbox(), world.worker()
    _, mail, approval = waiting("T", by=by)
    for _ in range(2):
        answer = says_yes(approval, "paula")
        assert isinstance(answer, Decided)
        assert answer.state == "PENDING"
        assert world.claim(by=by) == []
    says_yes(approval, "quentin")
    assert box.send_prepared(mail, world.claim_one(by=by), by=by) == Recorded("COMMITTED")
    assert box.x == 1
