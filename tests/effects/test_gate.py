"""The gate: only the tool itself can stop a worker that froze between the answer and the call (contract 8.5)."""

import pytest

from coordinator.actors import Worker
from coordinator.models import Dispatch
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import cancel_task
from coordinator.services.endings import release_attempt
from coordinator.services.epochs import bump_epoch
from coordinator.services.gate import Redeemed
from coordinator.services.reports import Recorded, Report, report_by_gate
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


def refused(answer: object) -> Outcome:
    assert isinstance(answer, Refusal), answer
    return answer.outcome


def test_a_dispatch_is_redeemed_once_and_its_repeat_gets_the_same_answer(by: Worker) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    gate = world.worker(name="gate", scopes=["gate"])
    assert ledger.redeem(effect, accepted, gate=gate) == Redeemed(accepted.dispatch_id)
    again = ledger.redeem(effect, accepted, gate=gate)
    assert again == Redeemed(accepted.dispatch_id, replayed=True)
    another = ledger.redeem(effect, accepted, gate=gate, redeem_id="call-2")
    assert refused(another) is Outcome.ALREADY_REDEEMED


@pytest.mark.parametrize("end", ["take-over", "release", "cancel", "bump"])
def test_every_end_of_the_attempt_closes_what_was_not_redeemed(by: Worker, end: str) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    task_id = claim.fence.task_id
    match end:
        case "take-over":
            world.lapse(task_id)
            world.claim_one(by=by, owner="second")
        case "release":
            release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
        case "cancel":
            cancel_task(task_id=task_id, reason="enough", actor=world.operator())
        case _:
            bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=world.operator())
    assert ledger.state(effect) == "PREPARED"
    assert Dispatch.objects.get().closed_at is not None
    assert refused(ledger.redeem(effect, accepted)) in (Outcome.FENCED, Outcome.CANCELLED)
    assert Dispatch.objects.get().redeemed_at is None


def test_what_was_redeemed_stays_unknown_when_its_attempt_ends(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    ledger.redeem(effect, accepted)
    world.lapse(claim.fence.task_id)
    assert world.claim(by=by) == []
    assert (ledger.state(effect), world.task(claim.fence.task_id).state) == (
        "UNKNOWN",
        "AWAITING_RECONCILIATION",
    )


def test_the_gate_tells_what_came_of_the_call_that_it_let_through(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    gate = world.worker(name="gate", scopes=["gate"])
    ledger.redeem(effect, accepted, gate=gate)
    said = Report(accepted.dispatch_id, DispatchOutcome.COMMITTED, "r1")

    def tell(redeem_id: str) -> Recorded | Refusal:
        return report_by_gate(
            effect_id=effect.effect_id, redeem_id=redeem_id, report=said, gate=gate
        )

    assert refused(tell("another")) is Outcome.INVALID
    assert tell("call-1") == Recorded("COMMITTED")
    world.commit(claim, by=by)


def test_the_gates_word_lets_a_waiting_task_go_on(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    gate = world.worker(name="gate", scopes=["gate"])
    ledger.redeem(effect, accepted, gate=gate)
    world.lapse(claim.fence.task_id)
    world.claim(by=by)
    said = Report(accepted.dispatch_id, DispatchOutcome.COMMITTED, "r1")
    report_by_gate(effect_id=effect.effect_id, redeem_id="call-1", report=said, gate=gate)
    world.commit(world.claim_one(by=by, owner="second"), by=by)


@pytest.mark.parametrize(
    ("forged", "outcome"),
    [
        (("1.x.1.1", None), Outcome.INVALID),
        ((None, "sha256:" + "0" * 64), Outcome.PAYLOAD_CONFLICT),
    ],
)
def test_a_forged_token_or_other_bytes_open_nothing(
    by: Worker, forged: tuple[str | None, str | None], outcome: Outcome
) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    token, digest = forged
    answer = ledger.redeem(effect, accepted, fencing_token=token, payload_digest=digest)
    assert refused(answer) is outcome
    assert Dispatch.objects.get().redeemed_at is None


def test_a_dispatch_past_its_deadline_opens_nothing(by: Worker) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    ledger.pass_time(effect, seconds=31)
    assert refused(ledger.redeem(effect, accepted)) is Outcome.FENCED


def test_a_gate_of_another_queue_sees_nothing(by: Worker) -> None:
    _, effect, accepted = ledger.sent(by=by, guarantee=Guarantee.GATED)
    world.queue(name="elsewhere")
    gate = world.worker(name="gate", queues=["elsewhere"], scopes=["gate"])
    assert refused(ledger.redeem(effect, accepted, gate=gate)) is Outcome.NOT_FOUND
