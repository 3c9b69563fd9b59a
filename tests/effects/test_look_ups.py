"""The coordinator asks by itself, with patience, and believes only what settles (contract 8.4)."""

from typing import ClassVar

import pytest

from coordinator.actors import Worker, system
from coordinator.models import Evidence
from coordinator.services.effect_rows import EffectView
from coordinator.services.endings import release_attempt
from coordinator.services.look_ups import MAX_PROBES, look_up_effects
from coordinator.states import Guarantee
from tenure.downstreams.base import (
    Absent,
    Adapter,
    Bound,
    Call,
    DontKnow,
    Found,
    Happened,
    Sent,
    Unknown,
)
from tenure.downstreams.base import Guarantee as SdkGuarantee
from tests import world
from tests.effects import ledger

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


class Register(Adapter):
    """A downstream in this process: what it holds is told by the exact effect_id."""

    kind: ClassVar[str] = "register"
    limits: ClassVar[str] = "lives as long as the test"

    def __init__(self, held: dict[str, str], *, is_up: bool = True) -> None:
        super().__init__(SdkGuarantee.CONDITIONAL_WRITE)
        self.held, self.is_up, self.asked = held, is_up, 0

    def send(self, call: Call) -> Sent:
        return Unknown(detail=f"{call.effect_id} is not sent here")

    def look_up(self, effect: Bound, *, deadline: float) -> Found:
        assert deadline > 0
        self.asked += 1
        if not self.is_up:
            return DontKnow(detail="it is down")
        held = self.held.get(effect.effect_id)
        return Happened(receipt=held) if held else Absent(detail="not there")


def ask(adapter: Adapter) -> int:
    return look_up_effects(adapters={"there": adapter}, actor=system("look-ups"))


def released(
    by: Worker, guarantee: Guarantee = Guarantee.CONDITIONAL_WRITE, **fields: object
) -> EffectView:
    """An UNKNOWN effect of a task that nobody holds."""
    claim, effect, _ = ledger.sent(by=by, guarantee=guarantee, **fields)
    release_attempt(attempt_id=claim.fence.attempt_id, fence=claim.fence, worker=by)
    return effect


def test_what_is_found_settles_it_with_its_receipt(by: Worker) -> None:
    effect = released(by)
    assert ask(Register({effect.effect_id: "r9"})) == 1
    assert (ledger.state(effect), ledger.slot(effect).receipt) == ("COMMITTED", '"r9"')
    world.commit(world.claim_one(by=by), by=by)


def test_what_is_not_there_is_as_absent_as_its_seal(by: Worker) -> None:
    effect = released(by)
    assert ask(Register({})) == 1
    assert ledger.state(effect) == "RESENDABLE"


def test_a_downstream_that_is_down_settles_nothing_and_is_asked_later(by: Worker) -> None:
    effect = released(by)
    register = Register({}, is_up=False)
    assert (ask(register), ask(register)) == (0, 0)
    assert (register.asked, ledger.state(effect)) == (
        1,
        "UNKNOWN",
    )  # the second time it was not due yet
    assert Evidence.objects.filter(said="DONT_KNOW").count() == 1
    with world.guarded():
        type(ledger.slot(effect)).objects.update(probe_after=None)
    ask(register)
    assert register.asked == 2


def test_it_gives_up_asking_after_a_bounded_number_of_times(by: Worker) -> None:
    effect = released(by)
    with world.guarded():
        type(ledger.slot(effect)).objects.update(probes=MAX_PROBES)
    register = Register({})
    assert (ask(register), register.asked) == (0, 0)


def test_an_absence_that_cannot_be_sealed_yet_is_asked_about_again_later(by: Worker) -> None:
    effect = released(by, Guarantee.QUERY_ONLY, refuses_late=True)
    assert ask(Register({})) == 0
    assert ledger.state(effect) == "UNKNOWN"
    assert ledger.slot(effect).probe_after is not None


def test_an_effect_that_a_worker_holds_is_its_own_to_look_up(by: Worker) -> None:
    claim, _, _ = ledger.sent(by=by)
    world.lapse(claim.fence.task_id)
    world.claim_one(by=by, owner="second")
    register = Register({})
    assert (ask(register), register.asked) == (0, 0)


def test_an_adapter_that_raises_has_told_nothing(by: Worker) -> None:
    effect = released(by)

    class Broken(Register):
        def look_up(self, effect: Bound, *, deadline: float) -> Found:
            raise RuntimeError(f"{effect.effect_id} at {deadline}")

    assert ask(Broken({})) == 0
    assert ledger.state(effect) == "UNKNOWN"


def test_a_receipt_that_can_not_be_kept_settles_nothing_and_contradicts_an_absence(
    by: Worker,
) -> None:
    effect = released(by)
    assert ask(Register({effect.effect_id: "r\x00"})) == 0
    kept = Evidence.objects.latest("id")
    assert (kept.said, kept.detail["counted"]) == ("HAPPENED", False)
    assert "receipt that can't be kept" in kept.detail["detail"]
    assert ledger.state(effect) == "UNKNOWN"
