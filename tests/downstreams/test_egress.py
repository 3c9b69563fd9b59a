"""The proxy that gives a service without dedupe an end to the time in which a call can still arrive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import httpx
import pytest

from tenure import Unsettled
from tenure.downstreams import ChatPost, Refused
from tenure.gate.egress import EgressProxy
from tests.downstreams.parts import Part
from tests.downstreams.relay import Fault, Relay
from tests.downstreams.service import Service
from tests.downstreams.stage import Stage
from tests.downstreams.test_gate import serving
from tests.sdk.conftest import Site


@contextmanager
def chat_behind_the_proxy() -> Iterator[Part]:
    """The network is unkind between the worker and the proxy; the proxy stands beside the service."""
    with (
        Service() as service,
        serving(EgressProxy(service.url, call_seconds=30)) as address,
        Relay(address, trigger=b"POST /messages") as relay,
    ):
        adapter = ChatPost(f"{relay.url}/messages", look_up_url=f"{relay.url}/messages?tag={{key}}")
        yield Part(
            adapter=adapter,
            relay=relay,
            payload={"channel": "general", "text": "hello"},
            count=lambda effect: service.world.count(effect.effect_id),
            log={"world": service.world},
        )


@pytest.fixture
def part() -> Iterator[Part]:
    with chat_behind_the_proxy() as made:
        yield made


def test_a_call_in_time_passes_with_its_headers_and_its_answer(part: Part) -> None:
    call = part.call()
    sent = part.adapter.send(call)
    assert part.count(call) == 1
    assert "m1" in str(sent)
    found = part.adapter.look_up(call, deadline=call.deadline)
    assert "m1" in str(found)
    assert part.log["world"].performed[0].digest == call.payload_digest


def test_a_call_that_was_held_past_its_deadline_is_refused(part: Part) -> None:
    part.relay.fault = Fault.HOLD
    call = part.call(seconds=1)
    part.adapter.send(call)
    part.relay.release()
    assert part.count(call) == 0
    assert not any(one.startswith("POST") for one in part.log["world"].arrived)


@pytest.mark.parametrize(
    "deadline",
    ["", "tomorrow", "2026-11-30T09:00:00", "2020-01-01T00:00:00Z"],
)
def test_a_call_without_a_deadline_that_can_be_read_is_refused(part: Part, deadline: str) -> None:
    url = f"{part.relay.url}/messages"
    answer = httpx.post(url, json={"text": "x"}, headers={"Tenure-Deadline": deadline})
    assert answer.status_code == 409
    assert answer.headers["Tenure-Gate"] == "LATE"
    assert part.log["world"].messages == []


def test_where_the_service_is_gone_the_proxy_answers_for_it(part: Part) -> None:
    with serving(EgressProxy("http://127.0.0.1:9")) as address:
        answer = httpx.get(f"http://127.0.0.1:{address[1]}/messages?tag=x")
    assert answer.status_code == 502


def test_a_late_worker_learns_that_nothing_happened(part: Part) -> None:
    call = part.call()
    past = datetime.now(UTC) - timedelta(seconds=1)
    from dataclasses import replace

    sent = part.adapter.send(replace(call, deadline_at=past))
    assert isinstance(sent, Refused)


def test_behind_the_proxy_a_lost_message_is_sent_again_without_a_person(
    site: Site, part: Part
) -> None:
    """Asked after the deadline and the settle time, being absent is final: nothing can arrive any more."""
    stage = Stage(site, part, refuses_late=True, call_timeout_seconds=2)
    part.relay.fault = Fault.LOSE_REQUEST
    stage.run()
    part.relay.fault = Fault.NONE
    # Asked too early: the first call could still arrive.
    assert [type(error) for error in stage.errors] == [Unsettled]
    assert stage.effect.state == "UNKNOWN"
    stage.let_deadlines_pass()
    stage.make_due()
    stage.run()
    assert stage.state == "COMMITTED"
    assert stage.performed == 1
    assert stage.effect.dispatches == 2
