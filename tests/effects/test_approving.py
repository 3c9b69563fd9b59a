"""A person decides on one exact payload, and one grant allows one dispatch, ever (contract 9)."""

from functools import partial

import pytest

from coordinator.actors import Actor, ActorKind, Worker, system
from coordinator.ids import new_id
from coordinator.models import Approval, Decision, Dispatch, Downstream, Event
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.approvals import Decided, approve, expire_approvals, reject
from coordinator.services.cancels import cancel_task
from coordinator.services.effect_rows import EffectView
from coordinator.services.epochs import bump_epoch
from coordinator.services.grants import Claim
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def asked(by: Worker, **fields: object) -> tuple[Claim, EffectView, Approval]:
    """A NON_REPLAYABLE task, parked while a person decides."""
    claim = ledger.claimed(by=by, guarantee=Guarantee.NONE, **fields)
    effect = ledger.prepare(claim, by=by)
    return claim, effect, ledger.approval(ledger.try_accept(effect, claim.fence, by=by))


def say_yes(approval: Approval, by: Actor, digest: str | None = None) -> Decided | Refusal:
    return approve(
        approval_id=approval.approval_id, payload_digest=digest or approval.payload_digest, actor=by
    )


def test_asking_parks_the_task_and_a_repeat_asks_nothing_new(by: Worker) -> None:
    claim, effect, approval = asked(by)
    assert world.task(claim.fence.task_id).state == "AWAITING_APPROVAL"
    again = ledger.try_accept(effect, claim.fence, by=by)
    assert refused(again) is Outcome.APPROVAL_REQUIRED
    assert ledger.approval(again) == approval
    assert world.claim(by=by) == []
    assert Dispatch.objects.count() == 0


def test_approved_the_task_goes_on_and_the_grant_is_used_up_by_one_dispatch(by: Worker) -> None:
    _, effect, approval = asked(by)
    decided = say_yes(approval, ledger.person("paula"))
    assert isinstance(decided, Decided)
    assert decided.state == "APPROVED"
    claim = world.claim_one(by=by)
    accepted = ledger.accept(effect, claim.fence, by=by)
    assert Approval.objects.get().state == "CONSUMED"
    ledger.report(effect, claim, accepted, DispatchOutcome.REFUSED, by=by)
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.APPROVAL_REQUIRED
    assert Dispatch.objects.count() == 1


def test_a_double_click_is_one_decision_with_the_same_receipt(by: Worker) -> None:
    _, _, approval = asked(by)
    first, again = (say_yes(approval, ledger.person("paula")) for _ in range(2))
    assert isinstance(first, Decided)
    assert isinstance(again, Decided)
    assert (again.replayed, again.decisions, again.state) == (True, first.decisions, first.state)
    assert Decision.objects.count() == 1


def test_whoever_comes_second_is_told_who_decided_what(by: Worker) -> None:
    _, _, approval = asked(by)
    say_yes(approval, ledger.person("paula"))
    late = reject(
        approval_id=approval.approval_id,
        payload_digest=approval.payload_digest,
        reason="no, not that",
        actor=ledger.person("quentin"),
    )
    assert refused(late) is Outcome.ALREADY_SETTLED
    assert isinstance(late, Refusal)
    assert "paula: APPROVED" in late.detail
    assert Decision.objects.count() == 1


def test_two_people_at_once_make_one_decision(by: Worker) -> None:
    claim, _, approval = asked(by)
    people = [ledger.person("paula"), ledger.person("quentin")]
    with world.holding_task(claim.fence.task_id) as holder:
        rivals = [world.Rival(partial(say_yes, approval, who)) for who in people]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
        holder.release()
    answers = [rival.result() for rival in rivals]
    assert sorted(isinstance(answer, Decided) for answer in answers) == [False, True]
    assert Decision.objects.count() == 1


def test_two_approvers_are_two_people(by: Worker) -> None:
    claim, effect, approval = asked(by, required_approvers=2)
    paula = ledger.person("paula")
    for _ in range(2):
        answer = say_yes(approval, paula)
        assert isinstance(answer, Decided)
        assert answer.state == "PENDING"
    assert world.task(claim.fence.task_id).state == "AWAITING_APPROVAL"
    second = say_yes(approval, ledger.person("quentin"))
    assert isinstance(second, Decided)
    assert second.state == "APPROVED"
    ledger.accept(effect, world.claim_one(by=by).fence, by=by)


def test_a_word_is_bound_to_the_decisions_that_were_seen(by: Worker) -> None:
    _, _, approval = asked(by, required_approvers=2)
    said = partial(
        approve, approval_id=approval.approval_id, payload_digest=approval.payload_digest
    )
    first = said(actor=ledger.person("paula"), expected_version=0)
    assert isinstance(first, Decided)
    assert first.version == 1
    stale = said(actor=ledger.person("quentin"), expected_version=0)
    assert refused(stale) is Outcome.STATE_VERSION_MISMATCH
    assert isinstance(stale, Refusal)
    assert (stale.extra["version"], stale.evidence_recorded) == (1, True)
    assert Approval.objects.get().state == "PENDING"
    assert Decision.objects.count() == 1
    again = said(actor=ledger.person("paula"), expected_version=0)
    assert isinstance(again, Decided)
    assert again.replayed  # a repeat of one's own word is no new look
    last = said(actor=ledger.person("quentin"), expected_version=1)
    assert isinstance(last, Decided)
    assert last.state == "APPROVED"


def test_whoever_comes_after_the_time_is_refused_and_time_itself_ended_it(by: Worker) -> None:
    claim, _, approval = asked(by)
    with world.guarded():
        Approval.objects.update(expires_at=approval.requested_at)
    late = say_yes(approval, ledger.person("paula"))
    assert refused(late) is Outcome.ALREADY_SETTLED
    assert isinstance(late, Refusal)
    assert late.extra["state"] == "EXPIRED"
    assert Approval.objects.get().state == "EXPIRED"
    assert world.task(claim.fence.task_id).state == "READY"
    told = Event.objects.get(kind="APPROVAL_EXPIRED")
    assert told.actor == "system:approvals"
    assert Event.objects.get(kind="REFUSED").actor == "operator:paula"
    assert Decision.objects.count() == 0


def test_whoever_submitted_the_run_does_not_approve_it(by: Worker) -> None:
    _, _, approval = asked(by)
    assert (
        refused(say_yes(approval, ledger.person("alice"))) is Outcome.FORBIDDEN
    )  # world.submit's operator
    assert Decision.objects.count() == 0


def test_a_worker_never_approves(by: Worker) -> None:
    _, _, approval = asked(by)
    assert refused(say_yes(approval, by)) is Outcome.FORBIDDEN


def test_other_bytes_than_those_that_were_seen_are_not_approved(by: Worker) -> None:
    _, _, approval = asked(by)
    answer = say_yes(approval, ledger.person("paula"), digest="sha256:" + "0" * 64)
    assert refused(answer) is Outcome.PAYLOAD_CONFLICT
    assert Approval.objects.get().state == "PENDING"


def test_rejected_the_task_fails_with_the_reason_and_its_run_with_it(by: Worker) -> None:
    claim, _, approval = asked(by)
    reject(
        approval_id=approval.approval_id,
        payload_digest=approval.payload_digest,
        reason="wrong recipient",
        actor=ledger.person("paula"),
    )
    task = world.task(claim.fence.task_id)
    assert (task.state, task.run.state) == ("FAILED", "FAILED")
    assert Approval.objects.get().end_reason == "wrong recipient"


@pytest.mark.parametrize("is_granted", [False, True])
def test_what_nobody_used_in_time_expires_and_the_next_acceptance_asks_anew(
    by: Worker, is_granted: bool
) -> None:
    claim, effect, approval = asked(by)
    if is_granted:
        say_yes(approval, ledger.person("paula"))
    assert expire_approvals(actor=system("approvals")) == 0
    with world.guarded():
        Approval.objects.update(expires_at=approval.requested_at)
    assert expire_approvals(actor=system("approvals")) == 1
    assert (Approval.objects.get().state, world.task(claim.fence.task_id).state) == (
        "EXPIRED",
        "READY",
    )
    assert refused(say_yes(approval, ledger.person("quentin"))) is Outcome.ALREADY_SETTLED
    second = ledger.approval(ledger.try_accept(effect, world.claim_one(by=by).fence, by=by))
    assert second.approval_id != approval.approval_id


def test_an_expired_grant_permits_nothing_even_before_it_was_swept(by: Worker) -> None:
    _, effect, approval = asked(by)
    say_yes(approval, ledger.person("paula"))
    with world.guarded():
        Approval.objects.update(expires_at=approval.requested_at)
    answer = ledger.try_accept(effect, world.claim_one(by=by).fence, by=by)
    assert refused(answer) is Outcome.APPROVAL_REQUIRED
    assert Dispatch.objects.count() == 0


@pytest.mark.parametrize("is_granted", [False, True])
def test_cancelling_voids_it(by: Worker, is_granted: bool) -> None:
    claim, _, approval = asked(by)
    if is_granted:
        say_yes(approval, ledger.person("paula"))
    cancel_task(task_id=claim.fence.task_id, reason="enough", actor=world.operator())
    assert Approval.objects.get().state == "VOID"


def test_a_bump_voids_what_is_pending_and_the_next_acceptance_asks_anew(by: Worker) -> None:
    claim, effect, approval = asked(by)
    bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=world.operator())
    assert (Approval.objects.get().state, world.task(claim.fence.task_id).state) == (
        "VOID",
        "READY",
    )
    second = ledger.approval(ledger.try_accept(effect, world.claim_one(by=by).fence, by=by))
    assert second.approval_id != approval.approval_id


def test_a_grant_outlives_the_generation_that_asked_for_it(by: Worker) -> None:
    _, effect, approval = asked(by)
    say_yes(approval, ledger.person("paula"))
    first = world.claim_one(by=by)
    world.lapse(first.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert isinstance(ledger.try_accept(effect, second.fence, by=by), Accepted)


def test_effects_of_such_tasks_are_serial_at_their_downstream(by: Worker) -> None:
    ledger.register(Guarantee.NONE)
    effects = []
    for kind in ("one", "two"):
        world.submit(world.node("T", kind=kind, slots={ledger.SLOT: "there"}), name=kind)
        claim = world.claim_one(by=by)
        effect = ledger.prepare(claim, by=by)
        say_yes(
            ledger.approval(ledger.try_accept(effect, claim.fence, by=by)), ledger.person("paula")
        )
        effects.append((effect, world.claim_one(by=by)))
    (first, holder), (second, other) = effects
    accepted = ledger.accept(first, holder.fence, by=by)
    assert refused(ledger.try_accept(second, other.fence, by=by)) is Outcome.SERIAL_BUSY
    ledger.report(first, holder, accepted, DispatchOutcome.COMMITTED, by=by)
    ledger.accept(second, other.fence, by=by)


def test_a_parked_task_does_not_hold_its_serial_key(by: Worker) -> None:
    ledger.register(Guarantee.NONE)
    for name in ("first", "second"):
        world.submit(world.node("T", slots={ledger.SLOT: "there"}), name=name)
    first = world.claim_one(by=by)
    assert world.claim(by=by) == []  # one of a kind at a time
    ledger.try_accept(ledger.prepare(first, by=by), first.fence, by=by)
    assert len(world.claim(by=by)) == 1
    assert Downstream.objects.count() == 1


def test_an_actor_without_a_name_in_the_register_is_no_person() -> None:
    ghost = Actor(ActorKind.SYSTEM, "ghost")
    answer = approve(approval_id=new_id(), payload_digest="sha256:" + "0" * 64, actor=ghost)
    assert refused(answer) is Outcome.FORBIDDEN
