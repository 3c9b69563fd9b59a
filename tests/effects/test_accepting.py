"""One acceptance permits one transmission; a lost answer is never sent again blindly (contract 8.2, 8.3)."""

from datetime import timedelta

import pytest

from coordinator.actors import Worker, system
from coordinator.models import Dispatch, Event, Evidence
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted
from coordinator.services.deadlines import pass_deadlines
from coordinator.services.effect_rows import EffectView
from coordinator.services.endings import release_attempt
from coordinator.services.grants import Claim
from coordinator.services.reports import Recorded
from coordinator.states import DispatchOutcome, Guarantee, TaskState
from tests import world
from tests.console.test_approvals import client_of
from tests.effects import ledger
from tests.history import nothing_moves

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def test_an_acceptance_carries_what_the_downstream_needs(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    fence = claim.fence
    assert accepted.idempotency_key == effect.effect_id
    assert (
        accepted.fencing_token
        == f"{fence.scheduler_epoch}.{fence.task_id}.{fence.claim_generation}.1"
    )
    assert accepted.call_deadline_seconds == 30
    assert ledger.state(effect) == "ACCEPTED"


def test_while_a_call_may_be_out_nobody_may_send_nor_commit(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.RECONCILE_FIRST
    assert refused(world.try_commit(claim, by=by)) is Outcome.RECONCILE_FIRST
    assert Dispatch.objects.count() == 1


def test_a_repeated_acceptance_is_one_dispatch_with_what_is_left_of_its_deadline(
    by: Worker,
) -> None:
    claim = ledger.claimed(by=by)
    effect, request = ledger.prepare(claim, by=by), ledger.key()
    first = ledger.try_accept(effect, claim.fence, by=by, request=request)
    again = ledger.try_accept(effect, claim.fence, by=by, request=request)
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert (again.dispatch_id, again.replayed) == (first.dispatch_id, True)
    assert again.call_deadline_seconds <= first.call_deadline_seconds
    assert Dispatch.objects.count() == 1


def test_a_repeated_acceptance_does_not_permit_once_its_attempt_is_over(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect, request = ledger.prepare(claim, by=by), ledger.key()
    ledger.try_accept(effect, claim.fence, by=by, request=request)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=by, owner="second")
    assert refused(ledger.try_accept(effect, claim.fence, by=by, request=request)) is Outcome.FENCED


def test_a_repeated_acceptance_does_not_permit_once_its_deadline_has_passed(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect, request = ledger.prepare(claim, by=by), ledger.key()
    ledger.try_accept(effect, claim.fence, by=by, request=request)
    ledger.pass_time(effect, seconds=31)
    assert (
        refused(ledger.try_accept(effect, claim.fence, by=by, request=request))
        is Outcome.RECONCILE_FIRST
    )


def test_another_digest_than_the_bound_one_permits_nothing(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    answer = ledger.try_accept(effect, claim.fence, by=by, digest="sha256:" + "0" * 64)
    assert refused(answer) is Outcome.PAYLOAD_CONFLICT
    assert Dispatch.objects.count() == 0


def test_a_receipt_settles_it_and_the_next_attempt_does_not_call(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    answer = ledger.report(
        effect, claim, accepted, DispatchOutcome.COMMITTED, by=by, receipt={"id": 7}
    )
    assert answer == Recorded("COMMITTED")
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    settled = ledger.try_accept(effect, second.fence, by=by)
    assert refused(settled) is Outcome.ALREADY_SETTLED
    world.commit(second, by=by)
    assert Dispatch.objects.count() == 1


def test_a_refusal_of_the_downstream_is_not_having_happened(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    assert ledger.report(effect, claim, accepted, DispatchOutcome.REFUSED, by=by) == Recorded(
        "PREPARED"
    )
    again = ledger.accept(effect, claim.fence, by=by)
    assert (again.dispatch_number, again.idempotency_key) == (2, accepted.idempotency_key)


def test_a_lost_answer_is_unknown_and_no_permission(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    assert ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by) == Recorded(
        "UNKNOWN"
    )
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.RECONCILE_FIRST
    repeat = ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    assert repeat == Recorded("UNKNOWN")


def test_an_acceptance_past_its_deadline_becomes_unknown_by_itself(by: Worker) -> None:
    _, effect, _ = ledger.sent(by=by)
    assert pass_deadlines(actor=system("deadlines")) == 0
    ledger.pass_time(effect, seconds=31)
    assert pass_deadlines(actor=system("deadlines")) == 1
    assert pass_deadlines(actor=system("deadlines")) == 0
    assert ledger.state(effect) == "UNKNOWN"


def test_a_take_over_leaves_the_call_unknown(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert [handed.state for handed in second.effects] == ["UNKNOWN"]
    assert refused(world.try_commit(second, by=by)) is Outcome.RECONCILE_FIRST
    assert ledger.slot(effect).unknown_since is not None


def test_a_late_receipt_is_kept_and_bars_its_absence(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    ledger.absent(effect, by=by, fence=second.fence)
    assert ledger.state(effect) == "RESENDABLE"
    late = ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    assert refused(late) is Outcome.FENCED
    assert isinstance(late, Refusal)
    assert late.evidence_recorded
    assert ledger.state(effect) == "UNKNOWN"
    assert refused(ledger.absent(effect, by=by, fence=second.fence)) is Outcome.ABSENCE_NOT_SEALED
    assert Evidence.objects.filter(late=True).count() == 1


def test_a_receipt_of_an_older_dispatch_raises_the_suspicion_of_a_duplicate(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    ledger.absent(effect, by=by, fence=second.fence)
    ledger.accept(effect, second.fence, by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    assert ledger.slot(effect).duplicate_suspected
    assert Event.objects.filter(kind="ALARM", data__alarm="DUPLICATE_SUSPECTED").count() == 1


def test_a_report_on_a_dispatch_that_the_attempt_did_not_make_is_refused(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    with nothing_moves():
        answer = ledger.report(effect, second, accepted, DispatchOutcome.COMMITTED, by=by)
    assert refused(answer) is Outcome.INVALID


def test_a_stranger_reports_nothing(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    stranger = world.worker(name="stranger")
    answer = ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=stranger)
    assert refused(answer) is Outcome.FORBIDDEN
    assert (ledger.state(effect), Evidence.objects.count()) == ("ACCEPTED", 0)


def test_a_key_that_would_be_forgotten_before_the_call_can_have_arrived_is_not_sent_again(
    by: Worker,
) -> None:
    claim, effect, _ = ledger.sent(by=by, guarantee=Guarantee.IDEMPOTENT_KEY, key_valid_seconds=200)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert not isinstance(ledger.absent(effect, by=by, fence=second.fence), Refusal)
    ledger.pass_time(effect, seconds=111)  # 200 - (30 to send + 60 to arrive) = 110
    answer = ledger.try_accept(effect, second.fence, by=by)
    assert refused(answer) is Outcome.RECONCILE_FIRST
    assert isinstance(answer, Refusal)
    assert "An earlier call may still arrive: an operator settles the effect first" in answer.detail


#: Of the effects below: 30 seconds to send, 60 to arrive, and then a key that is good for 200.
FORGOTTEN = 290


def put_aside(by: Worker, *, seconds: float) -> tuple[Claim, EffectView]:
    """An effect with a key whose call was refused by its downstream; its task is claimed by a second owner."""
    claim, effect, accepted = ledger.sent(
        by=by, guarantee=Guarantee.IDEMPOTENT_KEY, key_valid_seconds=200
    )
    ledger.report(effect, claim, accepted, DispatchOutcome.REFUSED, by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert ledger.state(effect) == "PREPARED"
    ledger.pass_time(effect, seconds=seconds)
    return second, effect


def test_where_nothing_is_out_an_old_key_is_sent_as_a_first_one_once_it_is_forgotten(
    by: Worker,
) -> None:
    claim, effect = put_aside(by, seconds=FORGOTTEN - 60)
    before = world.fingerprint()
    answer = ledger.try_accept(effect, claim.fence, by=by)
    assert refused(answer) is Outcome.RECONCILE_FIRST
    assert isinstance(answer, Refusal)
    deadline = ledger.slot(effect).call_deadline
    assert deadline is not None
    at = deadline + timedelta(seconds=60 + 200)
    assert answer.extra["sendable_at"] == at.isoformat()
    assert f"from {at.isoformat()} on" in answer.detail
    assert "revise the task" in answer.detail
    assert world.fingerprint() == before
    page = f"/effects/{effect.effect_id}"
    told = "it is sent as a first call once the downstream has forgotten the key"
    anna = client_of("anna")
    assert told in anna.get(page).content.decode()
    ledger.pass_time(effect, seconds=61)
    assert told not in anna.get(page).content.decode()
    accepted = ledger.try_accept(effect, claim.fence, by=by)
    assert isinstance(accepted, Accepted)
    assert (accepted.dispatch_number, accepted.idempotency_key) == (2, effect.effect_id)


def test_an_old_key_whose_absence_was_asserted_goes_on_by_an_approval(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by, guarantee=Guarantee.IDEMPOTENT_KEY, key_valid_seconds=200)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
    paula = ledger.person("paula")
    ledger.pass_time(effect, seconds=FORGOTTEN + 1)
    assert refused(ledger.absent(effect, by=paula)) is Outcome.ABSENCE_NOT_SEALED
    assert not isinstance(ledger.asserted(effect, by=paula), Refusal)
    assert ledger.state(effect) == "PREPARED"
    second = world.claim_one(by=by, owner="second")
    parked = ledger.try_accept(effect, second.fence, by=by)
    assert refused(parked) is Outcome.APPROVAL_REQUIRED
    ledger.say_yes(ledger.approval(parked))
    third = world.claim_one(by=by, owner="third")
    assert isinstance(ledger.try_accept(effect, third.fence, by=by), Accepted)


def test_a_second_call_under_an_old_key_is_sealed_by_no_look_up_by_key(by: Worker) -> None:
    """Its validity counts from the first acceptance: what the key says of the second is a person's to judge."""
    claim, effect = put_aside(by, seconds=FORGOTTEN + 1)
    assert isinstance(ledger.try_accept(effect, claim.fence, by=by), Accepted)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
    assert world.task(claim.fence.task_id).state == TaskState.AWAITING_RECONCILIATION
    answer = ledger.absent(effect, by=ledger.person("paula"), dispatches=2)
    assert refused(answer) is Outcome.ABSENCE_NOT_SEALED
