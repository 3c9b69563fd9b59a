"""A no that sends the task back to its agent: a revision with the words, and nothing done twice (contract 9, 10)."""

import orjson
import pytest

from coordinator import digests
from coordinator.actors import Actor, Worker
from coordinator.models import Approval, Decision, EffectSlot, Event, Task
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors.approvals import approval_record, find_approval
from coordinator.services.approval_changes import ChangesAsked, ask_for_changes
from coordinator.services.approvals import approve, reject
from coordinator.services.grants import Claim
from coordinator.states import DispatchOutcome, Guarantee, RejectionCode
from tests import world
from tests.effects import ledger
from tests.effects.test_approving import asked, refused

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

WORDS = "Leave the second recipient out."


def change(approval: Approval, by: Actor, **fields: object) -> ChangesAsked | Refusal:
    told: dict[str, object] = {"payload_digest": approval.payload_digest, "reason": WORDS}
    return ask_for_changes(
        approval_id=approval.approval_id,
        actor=by,
        **(told | fields),  # type: ignore[arg-type]
    )


def sent_back(approval: Approval, *, who: str = "paula") -> ChangesAsked:
    answer = change(approval, ledger.person(who))
    assert isinstance(answer, ChangesAsked), answer
    return answer


def test_the_request_ends_rejected_with_its_code_and_the_task_is_revised(by: Worker) -> None:
    claim, _, approval = asked(by)
    answer = sent_back(approval)
    old, new = world.task(claim.fence.task_id), world.task(answer.task_id)
    assert (answer.state, answer.reason_code, answer.revision) == ("REJECTED", "CHANGES_ASKED", 2)
    assert (old.state, new.state, new.supersedes_id) == ("SUPERSEDED", "READY", old.task_id)
    assert (new.input, new.input_digest, new.run.state) == (old.input, old.input_digest, "ACTIVE")
    approval.refresh_from_db()
    assert (approval.state, approval.reason_code, approval.end_reason) == (
        "REJECTED",
        "CHANGES_ASKED",
        WORDS,
    )
    told = Event.objects.get(kind="APPROVAL_DECIDED")
    assert (told.actor, told.data["reason_code"]) == ("operator:paula", "CHANGES_ASKED")
    assert set(Event.objects.filter(task_id=old.task_id).values_list("kind", flat=True)) >= {
        "SUPERSEDED",
        "EFFECT_VOID",
    }


def test_the_next_claim_carries_the_words_and_a_plain_one_none(by: Worker) -> None:
    claim, effect, approval = asked(by)
    assert claim.changes_asked is None
    sent_back(approval)
    (again,) = world.claim(by=by)
    words = again.changes_asked
    assert words is not None
    assert (words.comment, words.asked_by, words.slot) == (WORDS, "paula", ledger.SLOT)
    assert (words.effect_id, words.payload_digest) == (effect.effect_id, effect.payload_digest)
    assert orjson.dumps(words.payload) == digests.canonical(ledger.PAYLOAD)
    assert words.approval_id == approval.approval_id


def test_what_is_prepared_anew_asks_anew_and_both_requests_lead_to_each_other(by: Worker) -> None:
    _, effect, approval = asked(by)
    sent_back(approval)
    again = world.claim_one(by=by)
    changed = ledger.prepare(again, by=by, payload={"to": "a@example.org", "text": "better"})
    second = ledger.approval(ledger.try_accept(changed, again.fence, by=by))
    assert changed.effect_id != effect.effect_id
    first_record, second_record = (
        approval_record(row, with_payload=True)
        for row in (find_approval(approval.approval_id), find_approval(second.approval_id))
        if row is not None
    )
    assert first_record.superseded_by == second.approval_id
    assert second_record.supersedes == approval.approval_id
    ledger.say_yes(second)
    accepted = ledger.accept(changed, world.claim_one(by=by).fence, by=by)
    assert accepted.dispatch_number == 1


def test_a_double_click_revises_once_and_has_the_same_receipt(by: Worker) -> None:
    _, _, approval = asked(by)
    first, again = (sent_back(approval) for _ in range(2))
    assert (again.replayed, again.task_id, again.decisions) == (
        True,
        first.task_id,
        first.decisions,
    )
    assert Task.objects.filter(node_id="T").count() == 2
    assert Decision.objects.count() == 1


def test_another_person_comes_too_late_and_is_told_who_said_what(by: Worker) -> None:
    _, _, approval = asked(by)
    sent_back(approval)
    before = world.fingerprint()
    for answer in (
        change(approval, ledger.person("quentin")),
        approve(
            approval_id=approval.approval_id,
            payload_digest=approval.payload_digest,
            actor=ledger.person("paula"),
        ),
    ):
        assert refused(answer) is Outcome.ALREADY_SETTLED
        assert "paula: REJECTED" in answer.detail  # type: ignore[union-attr]
    assert world.fingerprint() == before


def test_a_plain_no_is_not_repeated_as_asking_for_changes(by: Worker) -> None:
    _, _, approval = asked(by)
    paula = ledger.person("paula")
    reject(
        approval_id=approval.approval_id,
        payload_digest=approval.payload_digest,
        reason="not that",
        code=RejectionCode.NOT_ALLOWED,
        actor=paula,
    )
    assert Approval.objects.get().reason_code == "NOT_ALLOWED"
    assert refused(change(approval, paula)) is Outcome.ALREADY_SETTLED


def test_a_rejection_does_not_pose_as_asking_for_changes(by: Worker) -> None:
    _, _, approval = asked(by)
    answer = reject(
        approval_id=approval.approval_id,
        payload_digest=approval.payload_digest,
        reason="not that",
        code=RejectionCode.CHANGES_ASKED,
        actor=ledger.person("paula"),
    )
    assert isinstance(answer, Refusal)
    assert [error.pointer for error in answer.errors] == ["/reason_code"]


@pytest.mark.parametrize(
    ("who", "fields", "outcome"),
    [
        ("alice", {}, Outcome.FORBIDDEN),  # world.submit's operator
        ("paula", {"payload_digest": "sha256:" + "0" * 64}, Outcome.PAYLOAD_CONFLICT),
        ("paula", {"expected_version": 1}, Outcome.STATE_VERSION_MISMATCH),
        ("paula", {"reason": " "}, Outcome.INVALID),
        ("paula", {"reason": "no"}, Outcome.INVALID),
    ],
)
def test_what_is_refused_moves_nothing(
    by: Worker, who: str, fields: dict[str, object], outcome: Outcome
) -> None:
    _, _, approval = asked(by)
    before = world.fingerprint()
    assert refused(change(approval, ledger.person(who), **fields)) is outcome
    assert world.fingerprint() == before


def test_a_worker_asks_nobody_for_changes(by: Worker) -> None:
    _, _, approval = asked(by)
    assert refused(change(approval, by)) is Outcome.FORBIDDEN


def test_past_its_time_it_expires_and_the_task_is_not_revised(by: Worker) -> None:
    claim, _, approval = asked(by)
    with world.guarded():
        Approval.objects.update(expires_at=approval.requested_at)
    assert refused(change(approval, ledger.person("paula"))) is Outcome.ALREADY_SETTLED
    assert Approval.objects.get().state == "EXPIRED"
    assert world.task(claim.fence.task_id).state == "READY"
    assert Event.objects.get(kind="APPROVAL_EXPIRED").actor == "system:approvals"


def two_slots(by: Worker) -> tuple[Claim, Approval]:
    """A task whose first effect is approved and sent, and whose second one waits for a person."""
    for name in ("mail", "fax"):
        ledger.register(Guarantee.NONE, name=name)
    world.submit(world.node("T", slots={"mail": "mail", "fax": "fax"}))
    claim = world.claim_one(by=by)
    mail = ledger.try_prepare(claim, by=by, slot="mail", downstream="mail").effect  # type: ignore[union-attr]
    ledger.say_yes(ledger.approval(ledger.try_accept(mail, claim.fence, by=by)))
    claim = world.claim_one(by=by)
    accepted = ledger.accept(mail, claim.fence, by=by)
    ledger.report(mail, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    fax = ledger.try_prepare(claim, by=by, slot="fax", downstream="fax").effect  # type: ignore[union-attr]
    return claim, ledger.approval(ledger.try_accept(fax, claim.fence, by=by))


def test_what_has_happened_is_not_done_again_by_asking_for_changes(by: Worker) -> None:
    _, approval = two_slots(by)
    before = world.fingerprint()
    answer = change(approval, ledger.person("paula"))
    assert refused(answer) is Outcome.ALREADY_COMMITTED
    assert "`mail`" in answer.detail  # type: ignore[union-attr]
    assert world.fingerprint() == before


def test_of_an_approval_and_a_wish_at_once_one_wins(by: Worker) -> None:
    """Both take the task's row; whoever comes second is told what the first one said."""
    _, _, approval = asked(by)
    paula, quentin = ledger.person("paula"), ledger.person("quentin")
    with world.holding_task(approval.effect.task_id) as holder:
        rivals: list[world.Rival[object]] = [
            world.Rival(lambda: change(approval, paula)),
            world.Rival(
                lambda: approve(
                    approval_id=approval.approval_id,
                    payload_digest=approval.payload_digest,
                    actor=quentin,
                )
            ),
        ]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
        holder.release()
    answers = [rival.result() for rival in rivals]
    lost = [answer for answer in answers if isinstance(answer, Refusal)]
    assert [answer.outcome for answer in lost] == [Outcome.ALREADY_SETTLED]
    assert Decision.objects.count() == 1
    state = Approval.objects.get().state
    assert Task.objects.filter(node_id="T").count() == (2 if state == "REJECTED" else 1)
    assert EffectSlot.objects.count() == 1
