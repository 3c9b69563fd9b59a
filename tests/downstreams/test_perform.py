"""`claim.effect(...).perform()` against a real coordinator and real downstreams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import tenure
from tenure import Claim, EffectRefused, PayloadConflict, Unsettled
from tenure.downstreams import Guarantee
from tests.downstreams import parts
from tests.downstreams.parts import Part
from tests.downstreams.relay import Fault
from tests.downstreams.stage import SLOT, Stage
from tests.downstreams.test_table import ROWS, SEALED
from tests.sdk.conftest import Site


@pytest.fixture(params=list(ROWS))
def part(request: pytest.FixtureRequest, database: dict[str, Any]) -> Iterator[Part]:
    make: Any = ROWS[request.param]
    with make(database) if request.param == "sql" else make() as made:
        yield made


def _approved(stage: Stage) -> None:
    """Where a second arrival would act again, a person has to have seen the payload first."""
    if not stage.part.acts_again:
        return
    counts = stage.run()
    assert counts["parked"] == 1
    assert stage.state == "AWAITING_APPROVAL"
    assert stage.performed == 0
    stage.approve()


def test_an_effect_happens_once_and_its_receipt_is_the_result(site: Site, part: Part) -> None:
    stage = Stage(site, part)
    _approved(stage)
    stage.run()
    assert stage.state == "COMMITTED"
    assert stage.effect.state == "COMMITTED"
    assert stage.performed == 1
    assert stage.receipts[-1]
    with site.client() as client:
        [effect] = client.task_effects(stage.task_id)
    assert effect.receipt == stage.receipts[-1]


@pytest.mark.parametrize("part", [*SEALED, "chat", "mcp"], indirect=True)
def test_a_lost_answer_is_found_again_by_the_same_attempt(site: Site, part: Part) -> None:
    stage = Stage(site, part)
    _approved(stage)
    part.relay.fault = Fault.DROP_REPLY
    real = part.adapter.look_up

    def look_up(*args: Any, **kwargs: Any) -> Any:
        part.relay.fault = Fault.NONE
        return real(*args, **kwargs)

    part.adapter.look_up = look_up  # type: ignore[method-assign]
    stage.run()
    assert stage.state == "COMMITTED"
    assert stage.performed == 1
    assert stage.effect.dispatches == 1


@pytest.mark.parametrize("part", SEALED, indirect=True)
def test_a_lost_request_is_sent_again_under_the_same_key(site: Site, part: Part) -> None:
    stage = Stage(site, part)
    part.relay.fault = Fault.LOSE_REQUEST
    real = part.adapter.look_up

    def look_up(*args: Any, **kwargs: Any) -> Any:
        part.relay.fault = Fault.NONE
        return real(*args, **kwargs)

    part.adapter.look_up = look_up  # type: ignore[method-assign]
    stage.run()
    assert stage.state == "COMMITTED"
    assert stage.performed == 1
    assert stage.effect.dispatches == 2


@pytest.mark.parametrize("part", ["smtp", "chat", "mcp"], indirect=True)
def test_what_would_act_again_waits_for_a_person_and_is_not_sent_again(
    site: Site, part: Part
) -> None:
    stage = Stage(site, part)
    _approved(stage)
    part.relay.fault = Fault.LOSE_REQUEST
    stage.run()
    part.relay.fault = Fault.NONE
    assert isinstance(stage.errors[-1], Unsettled)
    assert stage.state == "AWAITING_RECONCILIATION"
    assert stage.effect.state == "UNKNOWN"
    assert "claimed" not in stage.run()
    assert stage.performed == 0
    with stage.person() as person:
        settled = person.reconcile(
            stage.effect.effect_id,
            "HAPPENED",
            dispatches=1,
            detail="seen in the outbox of the provider",
            receipt={"ref": "r1"},
        )
    assert settled.state == "COMMITTED"
    stage.run()
    assert stage.state == "COMMITTED"
    assert stage.receipts == [{"ref": "r1"}]
    assert stage.performed == 0


def test_the_next_attempt_with_another_payload_gets_the_bound_one(site: Site) -> None:
    """C06: A sends X and loses the answer, B composes Y for the same slot; the second outside call is zero."""
    with parts.http_key() as part:
        stage = Stage(site, part)
        part.relay.fault = Fault.DROP_REPLY

        def first_x_then_y(claim: Claim) -> Any:
            if claim.attempt_number == 1:
                part.log["world"].settings.look_up = False
                return stage.perform(claim)
            part.log["world"].settings.look_up = True
            part.relay.fault = Fault.NONE
            assert stage.effect.state == "UNKNOWN"
            assert [effect.payload for effect in claim.effects] == [{"amount": 20}]
            with pytest.raises(PayloadConflict) as conflict:
                claim.effect(SLOT, stage.outside, {"amount": 21}).perform()
            assert conflict.value.payload == {"amount": 20}
            return claim.effect(SLOT, stage.outside, {"amount": 21}).perform(adopt=True)

        stage.run(first_x_then_y)
        stage.make_due()
        stage.run(first_x_then_y)
        assert stage.state == "COMMITTED"
        assert stage.performed == 1
        assert stage.effect.dispatches == 1


def test_an_uncaught_conflict_ends_the_task_for_a_person(site: Site) -> None:
    with parts.http_key() as part:
        stage = Stage(site, part)

        def twice(claim: Claim) -> Any:
            stage.perform(claim)
            return claim.effect(SLOT, stage.outside, {"amount": 21}).perform()

        stage.run(twice)
        assert stage.state == "FAILED"
        assert stage.performed == 1


def test_the_same_in_other_words_is_adopted_within_an_attempt(site: Site) -> None:
    with parts.etag() as part:
        stage = Stage(site, part)

        def twice(claim: Claim) -> Any:
            first = stage.perform(claim)
            other = {"path": "/documents/a", "body": {"title": "other"}}
            intent = claim.effect(SLOT, stage.outside, other, condition={"if_match": '"v9"'})
            assert intent.perform(adopt=True) == first
            return first

        stage.run(twice)
        assert stage.state == "COMMITTED"
        assert stage.performed == 1


def test_a_refused_effect_may_be_tried_again_and_has_not_happened(site: Site) -> None:
    with parts.http_key() as part:
        stage = Stage(site, part)
        part.log["world"].settings.reject = 422
        states: list[str] = []

        def once(claim: Claim) -> Any:
            try:
                return stage.perform(claim)
            finally:
                states.append(stage.effect.state)
                part.log["world"].settings.reject = 0

        stage.run(once)
        [refused] = stage.errors
        assert isinstance(refused, EffectRefused)
        assert refused.sent
        assert states == ["PREPARED", "COMMITTED"]
        assert stage.state == "COMMITTED"
        assert stage.performed == 1
        assert stage.effect.dispatches == 2


def test_a_failed_look_up_settles_nothing_and_another_attempt_asks_again(site: Site) -> None:
    """C05, where the look-up is down: the effect stays UNKNOWN, and is never sent again by itself."""
    with parts.http_key() as part:
        stage = Stage(site, part)
        part.relay.fault = Fault.DROP_REPLY

        def look_up_is_down(claim: Claim) -> Any:
            part.log["world"].settings.look_up = False
            return stage.perform(claim)

        stage.run(look_up_is_down)
        stage.make_due()
        stage.run(look_up_is_down)
        assert [type(error) for error in stage.errors] == [Unsettled, Unsettled]
        assert stage.effect.state == "UNKNOWN"
        assert stage.effect.dispatches == 1
        assert stage.performed == 1
        stage.make_due()
        part.log["world"].settings.look_up = True
        part.relay.fault = Fault.NONE
        stage.run()
        assert stage.state == "COMMITTED"
        assert stage.performed == 1


def test_c21_a_handler_that_fails_after_its_effect_gets_the_receipt_back(site: Site) -> None:
    with parts.http_key(dedupe=False) as part:
        stage = Stage(site, part, guarantee=Guarantee.IDEMPOTENT_KEY)
        seen: list[Any] = []

        def charge_then_think(claim: Claim) -> Any:
            seen.append(stage.perform(claim))
            if len(seen) < 3:
                raise RuntimeError("the model answered 500")
            return seen[-1]

        stage.run(charge_then_think)
        assert stage.state == "COMMITTED"
        assert seen[0] == seen[1] == seen[2]
        assert stage.performed == 1
        assert len(part.log["world"].arrived) == 1


def test_a_payload_that_cannot_be_sent_binds_nothing(site: Site) -> None:
    with parts.git_remote() as part:
        stage = Stage(site, part)
        part.payload = {**part.payload, "ref": "main"}
        stage.run()
        assert isinstance(stage.errors[0], tenure.NotEncodable)
        assert stage.errors[0].pointer == "/payload/ref"
        assert stage.state == "FAILED"
        with site.client() as client:
            assert client.task_effects(stage.task_id) == ()


def test_an_undeclared_slot_is_refused_by_name(site: Site) -> None:
    with parts.http_key() as part:
        stage = Stage(site, part)

        def invent(claim: Claim) -> Any:
            return claim.effect("another", stage.outside, {"amount": 20}).perform()

        stage.run(invent)
        [error] = stage.errors
        assert isinstance(error, tenure.InvalidInput)
        assert error.errors[0].pointer == "/slot"
        assert stage.state == "FAILED"
        assert part.log["world"].arrived == []
