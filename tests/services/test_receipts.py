"""A success that is told, however late, is never sent again over (contract 8.3)."""

from dataclasses import dataclass
from uuid import UUID

import pytest
from django.db import connection
from uuid_utils.compat import uuid7

from coordinator.actors import Actor, Worker
from coordinator.models import Downstream, EffectSlot
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.acceptances import Accepted, accept_effect
from coordinator.services.answers import RequestKey
from coordinator.services.effects import Prepared, prepare_effect
from coordinator.services.endings import release_attempt
from coordinator.services.grants import Claim
from coordinator.services.reconciliation import (
    Finding,
    LookUpStarted,
    Method,
    Settled,
    Verdict,
    reconcile_effect,
    start_look_up,
)
from coordinator.services.reports import Recorded, Report, report_effect
from coordinator.states import DispatchOutcome, EffectState, Guarantee
from tests import world

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@dataclass
class Slot:
    """One prepared effect, and its attempt's calls."""

    claim: Claim
    by: Worker
    effect_id: str
    digest: str

    def accept(self) -> Accepted | Refusal:
        return accept_effect(
            effect_id=self.effect_id,
            fence=self.claim.fence,
            payload_digest=self.digest,
            worker=self.by,
            request=RequestKey(self.by.name, uuid7().hex, "accept"),
        )

    def send(self) -> UUID:
        accepted = self.accept()
        assert isinstance(accepted, Accepted), accepted
        return accepted.dispatch_id

    def report(self, dispatch_id: UUID, outcome: DispatchOutcome) -> Recorded | Refusal:
        receipt = {"written": True} if outcome is DispatchOutcome.COMMITTED else None
        return report_effect(
            effect_id=self.effect_id,
            fence=self.claim.fence,
            report=Report(dispatch_id, outcome, receipt=receipt),
            worker=self.by,
        )

    def look_and_see_nothing(self) -> Settled | Refusal:
        """The worker's own look-up, written down as NOT_HAPPENED."""
        started = start_look_up(effect_id=self.effect_id, actor=self.by, fence=self.claim.fence)
        assert isinstance(started, LookUpStarted), started
        verdict = Verdict(
            Finding.NOT_HAPPENED, started.dispatches, Method.QUERY, "absent", started.lookup_id
        )
        return reconcile_effect(
            effect_id=self.effect_id, verdict=verdict, actor=self.by, fence=self.claim.fence
        )

    def send_unheard(self) -> UUID:
        """Send, hear nothing, look, see nothing: RESENDABLE."""
        dispatch_id = self.send()
        self.report(dispatch_id, DispatchOutcome.UNKNOWN)
        assert self.look_and_see_nothing() == Settled(EffectState.RESENDABLE)
        return dispatch_id

    @property
    def row(self) -> EffectSlot:
        return EffectSlot.objects.get(effect_id=self.effect_id)


@pytest.fixture
def slot() -> Slot:
    world.queue()
    by = world.worker()
    Downstream.objects.create(name="store", kind="s3", guarantee=Guarantee.CONDITIONAL_WRITE)
    world.submit(world.node("a", slots={"report": "store"}))
    claim = world.claim_one(by=by)
    prepared = prepare_effect(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        slot="report",
        downstream="store",
        payload={"text": "X"},
        worker=by,
    )
    assert isinstance(prepared, Prepared), prepared
    return Slot(claim, by, prepared.effect.effect_id, prepared.effect.payload_digest)


def test_a_success_told_after_a_look_up_that_saw_nothing_settles_the_slot(slot: Slot) -> None:
    dispatch_id = slot.send_unheard()

    told = slot.report(dispatch_id, DispatchOutcome.COMMITTED)

    assert told == Recorded(EffectState.COMMITTED)
    refused = slot.accept()
    assert isinstance(refused, Refusal)
    assert refused.outcome is Outcome.ALREADY_SETTLED
    assert slot.row.dispatches == 1


def test_a_refusal_told_after_a_look_up_that_saw_nothing_means_that_nothing_is_out(
    slot: Slot,
) -> None:
    dispatch_id = slot.send_unheard()
    assert slot.report(dispatch_id, DispatchOutcome.REFUSED) == Recorded(EffectState.PREPARED)


def test_a_refused_second_call_says_nothing_of_the_first(slot: Slot) -> None:
    slot.send_unheard()
    second = slot.send()
    assert slot.report(second, DispatchOutcome.REFUSED) == Recorded(EffectState.UNKNOWN)
    assert isinstance(world.try_commit(slot.claim, by=slot.by), Refusal)


def test_a_success_of_an_older_call_bars_the_next_send_and_every_absence(slot: Slot) -> None:
    first = slot.send_unheard()
    slot.send_unheard()

    told = slot.report(first, DispatchOutcome.COMMITTED)

    assert isinstance(told, Refusal)
    assert told.outcome is Outcome.STALE_EVIDENCE
    assert told.extra["state"] == EffectState.UNKNOWN
    row = slot.row
    assert (row.state, row.happened_on_file) == (EffectState.UNKNOWN, True)
    assert row.duplicate_suspected
    refused = slot.accept()
    assert isinstance(refused, Refusal)
    assert refused.outcome is Outcome.RECONCILE_FIRST
    absent = slot.look_and_see_nothing()
    assert isinstance(absent, Refusal)
    assert absent.outcome is Outcome.ABSENCE_NOT_SEALED
    assert slot.row.dispatches == 2


def test_nobody_asserts_the_absence_of_what_has_a_receipt_on_file(slot: Slot) -> None:
    dispatch_id = slot.send()
    release_attempt(attempt_id=slot.claim.fence.attempt_id, fence=slot.claim.fence, worker=slot.by)
    late = slot.report(dispatch_id, DispatchOutcome.COMMITTED)
    assert isinstance(late, Refusal)
    assert late.evidence_recorded
    _let_the_call_settle()

    answer = reconcile_effect(
        effect_id=slot.effect_id,
        verdict=Verdict(
            Finding.NOT_HAPPENED,
            dispatches=1,
            method=Method.OPERATOR,
            detail={"statement": "The machine was scrapped an hour ago."},
        ),
        actor=_alice(),
        may_assert_absence=True,
    )

    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.ABSENCE_NOT_SEALED
    assert slot.row.state == EffectState.UNKNOWN


def _alice() -> Actor:
    return world.operator()


def _let_the_call_settle() -> None:
    """Every call's deadline and settle time were over a day ago. Nobody sleeps."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE coordinator_dispatch DISABLE TRIGGER USER")
        cursor.execute(
            "UPDATE coordinator_dispatch SET call_deadline = call_deadline - interval '1 day'"
        )
        cursor.execute("ALTER TABLE coordinator_dispatch ENABLE TRIGGER USER")
