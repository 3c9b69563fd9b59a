"""C14 — approved by id, changed in between.

An approval is for exact bytes. A revision is a new task with an effect of its own, so that what was approved before has
no way to reach it. How hidden characters are shown to people is in tests/console/test_visible.py.
"""

from typing import Any
from uuid import UUID

import pytest

from coordinator.actors import Worker
from coordinator.models import Approval, Dispatch
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.approvals import Decided, approve
from coordinator.services.effect_rows import EffectView
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import Guarantee
from tests import world
from tests.api.callers import Api
from tests.cases import mailbox
from tests.cases.mailbox import Mailbox
from tests.effects import ledger
from tests.history import nothing_moves
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

V1, V2, V3 = ({"pay": amount, "to": "X"} for amount in (100, 900, 500))


def refused(answer: Any) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def asked(payload: Any, *, by: Worker) -> tuple[Claim, EffectView, Approval]:
    """The next task of the queue asks for this payload."""
    claim = world.claim_one(by=by)
    effect = mailbox.prepared(claim, by=by, payload=payload)
    return claim, effect, ledger.approval(mailbox.accept(effect, claim.fence, by=by))


def revised(of: UUID, payload: Any) -> Revised:
    answer = revise_task(
        task_id=of,
        expected_state_version=world.task(of).state_version,
        input=payload,
        reason="another amount",
        actor=world.operator(),
    )
    assert isinstance(answer, Revised), answer
    return answer


def says_yes(approval: Approval, digest: str | None = None) -> Decided | Refusal:
    return approve(
        approval_id=approval.approval_id,
        payload_digest=digest or approval.payload_digest,
        actor=ledger.person("paula"),
    )


@pytest.mark.usefixtures("lane")
def test_c14_what_was_approved_is_what_is_sent() -> None:
    mailbox.register(guarantee=Guarantee.NONE)
    box, by = Mailbox(), world.worker()
    world.submit(node("T", slots={"mail": "mail"}, input=V1))
    v1, _, r1 = asked(V1, by=by)  # 1
    revised(v1.fence.task_id, V2)  # 2: while P looks at the page
    with nothing_moves():
        late = says_yes(r1)
    assert refused(late) is Outcome.ALREADY_SETTLED
    assert isinstance(late, Refusal)
    assert late.extra["state"] == "VOID"
    assert box.x == 0

    _, pay2, r2 = asked(V2, by=by)  # 3
    with nothing_moves():
        assert refused(says_yes(r2, r1.payload_digest)) is Outcome.PAYLOAD_CONFLICT
    assert isinstance(says_yes(r2), Decided)
    held = world.claim_one(by=by)
    revised(held.fence.task_id, V3)  # 4: before the acceptance
    with nothing_moves():
        assert refused(box.send_prepared(pay2, held, by=by)) is Outcome.STALE_INPUT
    v3, _, r3 = asked(V3, by=by)
    assert r3.approval_id not in (r1.approval_id, r2.approval_id)

    revised(v3.fence.task_id, V2)  # 5: v2's exact content again, as v4
    _, pay4, r4 = asked(V2, by=by)
    assert pay4.payload_digest == pay2.payload_digest
    assert r4.approval_id != r2.approval_id
    states = [Approval.objects.get(pk=each.pk).state for each in (r1, r2, r3, r4)]
    assert states == ["VOID", "VOID", "VOID", "PENDING"]
    assert (box.x, Dispatch.objects.count()) == (0, 0)

    assert isinstance(says_yes(r4), Decided)
    last = world.claim_one(by=by)
    assert box.send_prepared(pay4, last, by=by) == Recorded("COMMITTED")
    assert [mail.payload for mail in box.mails] == [V2]
    world.commit(last, by=by)


@pytest.mark.usefixtures("lane")
def test_c14_6_characters_that_nobody_sees_make_other_bytes() -> None:
    mailbox.register(guarantee=Guarantee.NONE)
    by = world.worker()
    hidden = ["X", "X\u200b", "\u202eX", "X\ufeff", "\u2066X\u2069"]
    world.submit(*(node(f"T{number}", slots={"mail": "mail"}) for number in range(len(hidden))))
    approvals = [asked({"to": text}, by=by)[2] for text in hidden]
    assert len({each.payload_digest for each in approvals}) == len(hidden)
    plain, zero_width, *_ = approvals
    with nothing_moves():
        answer = says_yes(zero_width, plain.payload_digest)
    assert refused(answer) is Outcome.PAYLOAD_CONFLICT


def test_c14_7_without_a_digest_nothing_is_approved(api: Api) -> None:
    mailbox.register(guarantee=Guarantee.NONE)
    by = world.worker()
    world.submit(node("T", slots={"mail": "mail"}))
    _, _, approval = asked(V1, by=by)
    path = f"/approvals/{approval.approval_id}/approve"
    with nothing_moves():
        for body in ({}, {"comment": "fine"}, {"payload_digest": None}, {"payload_digest": ""}):
            reply = api.approver.post(path, body)
            assert (reply.status, reply.pointers) == (422, {"/payload_digest"})
    assert api.approver.post(path, {"payload_digest": approval.payload_digest}).status == 200
