"""Two people promote a queue: what they saw is what is confirmed, or nothing moves (contract 13)."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import connection

from coordinator.actors import Actor, ActorKind, Worker
from coordinator.models import Event, PromotionRequest, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.selectors import promotion
from coordinator.selectors.promotion_requests import find_request, open_request
from coordinator.services.epochs import bump_epoch
from coordinator.services.promotion_confirmations import Promoted
from coordinator.services.promotions import (
    PromotionAsked,
    Withdrawn,
    settle_promotions,
    withdraw_promotion,
)
from coordinator.states import RolloutStage
from tests import world
from tests.history import nothing_moves

from . import feeds
from .feeds import settle, tell
from .promoting import ALICE, BOB, ask, asked, confirm

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

SHADOW, READS, WRITES = RolloutStage


@pytest.fixture(autouse=True)
def green(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A queue whose gate is open."""
    monkeypatch.setattr(promotion, "MEASURED_ELSEWHERE", ())
    world.queue(rollout_stage=SHADOW, promotion_rounds=2)
    by = feeds.feeder()
    for key in ("one", "two"):
        tell("A claims 0", "A commits 9 r", by=by, key=key)
    settle()
    return by


def refused(answer: Any) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def stage() -> str:
    return Queue.objects.values_list("rollout_stage", flat=True).get(name="q")


def state() -> str:
    return PromotionRequest.objects.values_list("state", flat=True).get()


def turn_red(by: Worker) -> None:
    """A mismatch that nobody has explained."""
    tell("A claims 0", "B claims 9", "A commits 12 r", by=by, key="twice")
    settle()


def expire() -> None:
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(
            "UPDATE coordinator_promotionrequest SET expires_at = requested_at + interval '1 ms'"
        )


def test_asking_moves_nothing_and_keeps_what_was_measured() -> None:
    request = asked(SHADOW)
    assert (stage(), state()) == (SHADOW, "ASKED")
    told = open_request("q")
    assert told is not None
    assert told.evidence_digest == request.evidence_digest
    assert told.evidence["scheduler_epoch"] == 1
    assert {each["name"]: each["value"] for each in told.evidence["criteria"]} == {
        "settled_rounds": 2,
        "unexplained_mismatches": 0,
    }
    assert told.expires_at - told.requested_at == timedelta(hours=4)
    event = Event.objects.get(kind="PROMOTION_ASKED")
    assert (event.actor, event.data["reason"], event.data["to"]) == (
        "operator:alice",
        "ready",
        READS,
    )
    assert event.data["evidence_digest"] == request.evidence_digest


def test_another_person_confirms_it_and_both_stand_in_the_history() -> None:
    request = asked(SHADOW)
    answer = confirm(request)
    assert isinstance(answer, Promoted)
    assert (answer.rollout_stage, answer.requested_by, answer.confirmed_by, answer.alone) == (
        READS,
        "operator:alice",
        "operator:bob",
        False,
    )
    assert (stage(), state()) == (READS, "CONFIRMED")
    event = Event.objects.get(kind="STAGE_PROMOTED")
    assert (event.actor, event.data["requested_by"]) == ("operator:bob", "operator:alice")
    assert event.data["evidence_digest"] == request.evidence_digest
    assert event.data["alone"] is False
    assert not Event.objects.filter(kind="ALARM").exists()
    assert open_request("q") is None


def test_the_same_person_does_not_confirm_and_the_try_is_on_record() -> None:
    request = asked(SHADOW)
    before = world.fingerprint("queue", "promotionrequest")
    for _ in range(2):
        answer = refused(confirm(request, actor=ALICE))
        assert answer.outcome is Outcome.FORBIDDEN
    assert world.fingerprint("queue", "promotionrequest") == before
    told = Event.objects.get(kind="REFUSED")
    assert (told.actor, told.repeats, told.data["outcome"]) == ("operator:alice", 1, "FORBIDDEN")


def test_a_lone_person_says_why_and_raises_an_alarm() -> None:
    request = asked(SHADOW)
    why = "Nobody else is awake, and the legacy scheduler is down."
    answer = confirm(request, actor=ALICE, alone=True, reason=why)
    assert isinstance(answer, Promoted)
    assert answer.alone
    alarm = Event.objects.get(kind="ALARM")
    assert (alarm.data["alarm"], alarm.data["reason"]) == ("LONE_PROMOTION", why)
    assert Event.objects.get(kind="STAGE_PROMOTED").data["alone"] is True
    told = find_request(request.request_id)
    assert told is not None
    assert (told.alone, told.end_reason) == (True, why)


def test_a_second_person_who_gives_a_reason_all_the_same_is_not_alone() -> None:
    answer = confirm(asked(SHADOW), alone=True, reason="by mistake")
    assert isinstance(answer, Promoted)
    assert not answer.alone
    assert not Event.objects.filter(kind="ALARM").exists()


def test_double_submits_ask_once_and_promote_once_with_the_same_receipts() -> None:
    first, again = asked(SHADOW), asked(SHADOW)
    assert (again.replayed, again.request_id) == (True, first.request_id)
    done, repeated = confirm(first), confirm(first)
    assert isinstance(done, Promoted)
    assert isinstance(repeated, Promoted)
    assert (repeated.replayed, repeated.confirmed_at) == (True, done.confirmed_at)
    assert Event.objects.filter(kind="PROMOTION_ASKED").count() == 1
    assert Event.objects.filter(kind="STAGE_PROMOTED").count() == 1


def test_somebody_else_who_asks_is_led_to_the_request_that_stands() -> None:
    request = asked(SHADOW)
    with nothing_moves():
        for changes in ({"actor": BOB}, {"reason": "another reason"}):
            told = refused(ask(SHADOW, **changes))
            assert told.outcome is Outcome.STATE_VERSION_MISMATCH
            assert told.extra["request_id"] == str(request.request_id)


def test_a_gate_that_has_closed_since_makes_it_void(green: Worker) -> None:
    request = asked(SHADOW)
    turn_red(green)
    answer = refused(confirm(request))
    assert answer.outcome is Outcome.GATE_CLOSED
    assert [each.name for each in answer.extra["blocking"]] == ["unexplained_mismatches"]
    assert (stage(), state()) == (SHADOW, "VOID")
    event = Event.objects.get(kind="PROMOTION_VOID")
    assert event.actor == "system:promotions"
    assert refused(confirm(request)).outcome is Outcome.ALREADY_SETTLED


def test_an_epoch_that_has_moved_since_makes_it_void() -> None:
    request = asked(SHADOW)
    bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=BOB)
    answer = refused(confirm(request))
    assert answer.outcome is Outcome.STATE_VERSION_MISMATCH
    assert answer.extra["scheduler_epoch"] == 2
    assert (stage(), state()) == (SHADOW, "VOID")


def test_a_stage_that_has_moved_since_makes_it_void() -> None:
    request = asked(SHADOW)
    Queue.objects.update(rollout_stage=WRITES)
    answer = refused(confirm(request))
    assert (answer.outcome, answer.extra["rollout_stage"]) == (
        Outcome.STATE_VERSION_MISMATCH,
        WRITES,
    )
    assert (stage(), state()) == (WRITES, "VOID")


def test_past_its_time_it_is_expired_and_nobody_confirms_it() -> None:
    request = asked(SHADOW)
    expire()
    answer = refused(confirm(request))
    assert (answer.outcome, answer.extra["state"]) == (Outcome.ALREADY_SETTLED, "EXPIRED")
    assert stage() == SHADOW
    assert Event.objects.get(kind="PROMOTION_EXPIRED").actor == "system:promotions"
    assert asked(SHADOW).request_id != request.request_id  # it may be asked anew


def test_the_sweep_ends_what_is_late_or_void_and_leaves_what_stands(green: Worker) -> None:
    asked(SHADOW)
    assert settle_promotions() == 0
    turn_red(green)
    assert settle_promotions() == 1
    assert state() == "VOID"
    assert settle_promotions() == 0


def test_the_sweep_writes_down_what_has_run_out() -> None:
    asked(SHADOW)
    expire()
    assert settle_promotions() == 1
    assert state() == "EXPIRED"


def test_a_void_request_does_not_stand_in_the_way_of_the_next(green: Worker) -> None:
    first = asked(SHADOW)
    bump_epoch(queue="q", expected_epoch=1, reason="rollback", actor=BOB)
    second = asked(SHADOW)
    assert second.request_id != first.request_id
    assert PromotionRequest.objects.get(request_id=first.request_id).state == "VOID"
    assert isinstance(confirm(second), Promoted)


def test_it_is_withdrawn_with_a_reason_and_then_over() -> None:
    request = asked(SHADOW)
    answers = [
        withdraw_promotion(request_id=request.request_id, reason="not this week", actor=BOB)
        for _ in range(2)
    ]
    assert [each.replayed for each in answers if isinstance(each, Withdrawn)] == [False, True]
    event = Event.objects.get(kind="PROMOTION_WITHDRAWN")
    assert (event.actor, event.data["reason"]) == ("operator:bob", "not this week")
    answer = refused(confirm(request))
    assert (answer.outcome, answer.extra["state"]) == (Outcome.ALREADY_SETTLED, "WITHDRAWN")
    again = withdraw_promotion(request_id=request.request_id, reason="not at all", actor=ALICE)
    assert refused(again).outcome is Outcome.ALREADY_SETTLED
    assert stage() == SHADOW


def test_of_two_who_confirm_at_once_one_does() -> None:
    request = asked(SHADOW)
    carla = Actor(ActorKind.OPERATOR, "carla", id=3)
    with world.guarded():
        Queue.objects.select_for_update().get(name="q")
        rivals = [
            world.Rival(lambda: confirm(request)),
            world.Rival(lambda: confirm(request, actor=carla)),
        ]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
    answers = [rival.result() for rival in rivals]
    assert sum(isinstance(answer, Promoted) for answer in answers) == 1
    (lost,) = (answer for answer in answers if isinstance(answer, Refusal))
    assert lost.outcome is Outcome.ALREADY_SETTLED
    assert Event.objects.filter(kind="STAGE_PROMOTED").count() == 1
    assert stage() == READS


def test_of_two_who_ask_at_once_one_does() -> None:
    with world.guarded():
        Queue.objects.select_for_update().get(name="q")
        rivals = [world.Rival(partial(ask, SHADOW, actor=who)) for who in (ALICE, BOB)]
        world.wait_until_blocked(*(rival.pid for rival in rivals))
    answers = [rival.result() for rival in rivals]
    assert sum(isinstance(answer, PromotionAsked) for answer in answers) == 1
    assert PromotionRequest.objects.count() == 1


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"evidence_digest": "sha256:" + "0" * 64}, Outcome.PAYLOAD_CONFLICT),
        ({"confirm": "Q"}, Outcome.INVALID),
        ({"reason": "x" * 2_001}, Outcome.INVALID),
        ({"alone": True, "reason": " "}, Outcome.INVALID),
        ({"request_id": "0198c0de-0000-7000-8000-000000000000"}, Outcome.NOT_FOUND),
    ],
)
def test_what_is_not_as_it_was_seen_is_refused(changes: dict[str, Any], outcome: Outcome) -> None:
    request = asked(SHADOW)
    before = world.fingerprint("queue", "promotionrequest")
    assert refused(confirm(request, **changes)).outcome is outcome
    assert world.fingerprint("queue", "promotionrequest") == before


def test_no_worker_asks_confirms_or_withdraws(green: Worker) -> None:
    request = asked(SHADOW)
    withdrawn = withdraw_promotion(request_id=request.request_id, reason="why", actor=green)
    for answer in (ask(SHADOW, actor=green), confirm(request, actor=green), withdrawn):
        assert refused(answer).outcome is Outcome.FORBIDDEN
