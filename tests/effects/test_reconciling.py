"""Finding out what came of a call: the two seals of absence, and a person's word (contract 8.4)."""

import pytest

from coordinator.actors import Worker
from coordinator.models import Event, Evidence
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import Cancelled, cancel_task
from coordinator.services.epochs import bump_epoch
from coordinator.services.reconciliation import Settled
from coordinator.services.revisions import Revised, revise_task
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

RESENDS = [Guarantee.CONDITIONAL_WRITE, Guarantee.IDEMPOTENT_KEY, Guarantee.RESERVATION]


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


@pytest.mark.parametrize("guarantee", RESENDS)
def test_where_sending_again_is_safe_absence_is_resendable_and_still_may_be_out(
    by: Worker, guarantee: Guarantee
) -> None:
    claim, effect, _ = ledger.sent(by=by, guarantee=guarantee)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert ledger.absent(effect, by=by, fence=second.fence) == Settled("RESENDABLE")
    assert refused(world.try_commit(second, by=by)) is Outcome.RECONCILE_FIRST
    again = ledger.accept(effect, second.fence, by=by)
    assert (again.dispatch_number, again.idempotency_key) == (2, effect.effect_id)


def test_a_receiver_that_refuses_late_calls_seals_absence_for_good_once_they_cannot_arrive(
    by: Worker,
) -> None:
    claim, effect, _ = ledger.sent(by=by, guarantee=Guarantee.QUERY_ONLY, refuses_late=True)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert refused(ledger.absent(effect, by=by, fence=second.fence)) is Outcome.ABSENCE_NOT_SEALED
    ledger.pass_time(
        effect, seconds=91
    )  # 30 to send, 60 to arrive; the look-up is stamped after that
    assert ledger.absent(effect, by=by, fence=second.fence) == Settled("PREPARED")
    world.commit(second, by=by)
    assert ledger.state(effect) == "VOID"


def test_a_look_up_from_before_the_last_arrival_proves_nothing(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by, guarantee=Guarantee.QUERY_ONLY, refuses_late=True)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    early = ledger.looked_up(effect, by=by, fence=second.fence)
    ledger.pass_time(effect, seconds=91)
    answer = ledger.absent(effect, by=by, fence=second.fence, lookup_id=early.lookup_id)
    assert refused(answer) is Outcome.ABSENCE_NOT_SEALED


def test_a_look_up_that_was_not_stamped_is_no_evidence(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    assert (
        refused(ledger.absent(effect, by=by, fence=second.fence, stamps=False)) is Outcome.INVALID
    )
    assert ledger.state(effect) == "UNKNOWN"


def test_evidence_about_fewer_dispatches_is_stale(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    second = world.claim_one(by=by, owner="second")
    started = ledger.looked_up(effect, by=by, fence=second.fence)
    ledger.absent(effect, by=by, fence=second.fence)
    ledger.accept(effect, second.fence, by=by)
    answer = ledger.absent(effect, by=by, fence=second.fence, lookup_id=started.lookup_id)
    assert refused(answer) is Outcome.STALE_EVIDENCE


def test_it_happened_needs_a_receipt_and_is_final(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    operator = ledger.person("olga")
    assert refused(ledger.happened(effect, by=operator, receipt=None)) is Outcome.INVALID
    assert ledger.happened(effect, by=operator) == Settled("COMMITTED")
    assert ledger.happened(effect, by=operator) == Settled("COMMITTED", replayed=True)
    assert refused(ledger.absent(effect, by=operator)) is Outcome.ALREADY_SETTLED
    assert (
        refused(ledger.happened(effect, by=operator, receipt="another")) is Outcome.ALREADY_SETTLED
    )
    world.commit(claim, by=by)


def test_what_was_never_sent_has_nothing_to_reconcile(by: Worker) -> None:
    claim = ledger.claimed(by=by)
    effect = ledger.prepare(claim, by=by)
    operator = ledger.person("olga")
    assert refused(ledger.happened(effect, by=operator, dispatches=0)) is Outcome.ALREADY_SETTLED
    assert refused(ledger.absent(effect, by=operator, dispatches=0)) is Outcome.ALREADY_SETTLED


def test_a_call_that_may_be_out_right_now_is_not_absent(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    assert refused(ledger.absent(effect, by=by, fence=claim.fence)) is Outcome.ABSENCE_NOT_SEALED


def test_a_worker_reconciles_under_its_fence_only(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=by, owner="second")
    assert refused(ledger.happened(effect, by=by)) is Outcome.INVALID
    assert refused(ledger.happened(effect, by=by, fence=claim.fence)) is Outcome.FENCED
    assert ledger.state(effect) == "UNKNOWN"


@pytest.mark.parametrize("guarantee", [Guarantee.NONE, Guarantee.QUERY_ONLY])
def test_what_no_worker_can_settle_waits_for_a_person_and_keeps_its_place(
    by: Worker, guarantee: Guarantee
) -> None:
    claim, effect = ledger.approved_and_sent(by=by, guarantee=guarantee)
    world.lapse(claim.fence.task_id)
    assert world.claim(by=by) == []
    task = world.task(claim.fence.task_id)
    assert (task.state, task.serial_held) == ("AWAITING_RECONCILIATION", True)
    assert Event.objects.filter(kind="HELD_FOR_RECONCILIATION").count() == 1
    operator = ledger.person("olga")
    assert ledger.happened(effect, by=operator) == Settled("COMMITTED")
    task = world.task(claim.fence.task_id)
    assert (task.state, task.serial_held) == ("READY", False)
    world.commit(world.claim_one(by=by, owner="second"), by=by)


def test_a_persons_word_counts_late_in_writing_and_costs_an_approval(by: Worker) -> None:
    claim, effect = ledger.approved_and_sent(by=by, guarantee=Guarantee.NONE)
    operator = ledger.person("olga")
    world.lapse(claim.fence.task_id)
    world.claim(by=by)
    assert refused(ledger.asserted(effect, by=operator, may=False)) is Outcome.ABSENCE_NOT_SEALED
    assert (
        refused(ledger.asserted(effect, by=operator)) is Outcome.ABSENCE_NOT_SEALED
    )  # it may still arrive
    early = ledger.looked_up(effect, by=operator)
    ledger.pass_time(effect, seconds=91)
    answer = ledger.asserted(effect, by=operator, lookup_id=early.lookup_id)
    assert refused(answer) is Outcome.ABSENCE_NOT_SEALED  # they looked before it could have arrived
    assert refused(ledger.asserted(effect, by=operator, statement="sure")) is Outcome.INVALID
    assert ledger.asserted(effect, by=operator) == Settled("PREPARED")
    second = world.claim_one(by=by, owner="second")
    assert refused(ledger.try_accept(effect, second.fence, by=by)) is Outcome.APPROVAL_REQUIRED
    assert Evidence.objects.filter(kind="operator", said="NOT_HAPPENED").exists()


def test_a_persons_word_does_not_count_while_the_sender_is_alive(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    ledger.redeem(effect, accepted)
    ledger.report(effect, claim, accepted, DispatchOutcome.UNKNOWN, by=by)
    ledger.pass_time(effect, seconds=91)
    operator = ledger.person("olga")
    assert refused(ledger.asserted(effect, by=operator)) is Outcome.ABSENCE_NOT_SEALED
    assert world.task(claim.fence.task_id).state == "CLAIMED"


def test_cancelling_un_sends_nothing_and_says_what_may_be_out(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    receipt = cancel_task(task_id=claim.fence.task_id, reason="enough", actor=world.operator())
    assert isinstance(receipt, Cancelled)
    assert [(each.effect_id, each.state) for each in receipt.effects] == [
        (effect.effect_id, "UNKNOWN")
    ]
    again = cancel_task(task_id=claim.fence.task_id, reason="enough", actor=world.operator())
    assert again == receipt
    assert ledger.happened(effect, by=ledger.person("olga")) == Settled("COMMITTED")
    assert world.task(claim.fence.task_id).state == "CANCELLED"


def test_a_revision_waits_until_nothing_may_be_out_and_says_what_has_happened(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)

    def revise() -> Revised | Refusal:
        return revise_task(
            task_id=claim.fence.task_id,
            expected_state_version=world.task(claim.fence.task_id).state_version,
            input={"other": True},
            reason="better",
            actor=world.operator(),
        )

    assert refused(revise()) is Outcome.RECONCILE_FIRST
    ledger.happened(effect, by=ledger.person("olga"))
    revised = revise()
    assert isinstance(revised, Revised)
    assert [each.effect_id for each in revised.effects] == [effect.effect_id]


def test_a_bump_leaves_calls_unknown_and_their_tasks_to_who_can_settle_them(by: Worker) -> None:
    claim, effect, _ = ledger.sent(by=by)
    bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=world.operator())
    assert (ledger.state(effect), world.task(claim.fence.task_id).state) == ("UNKNOWN", "READY")
    assert refused(ledger.try_accept(effect, claim.fence, by=by)) is Outcome.FENCED
    second = world.claim_one(by=by, owner="second")
    assert ledger.happened(effect, by=by, fence=second.fence) == Settled("COMMITTED")
