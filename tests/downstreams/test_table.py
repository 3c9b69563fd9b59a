"""Every kind of downstream against every unkindness of the network. A new adapter is one more row.

What is compared is the adapter's word with the downstream's own log: it may be unsure, it may never be wrong.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tenure.downstreams import Absent, DontKnow, Guarantee, Happened, Refused, Unknown
from tests.downstreams import parts
from tests.downstreams.parts import Part, again
from tests.downstreams.relay import Fault

ROWS = {
    "smtp": parts.smtp,
    "git": parts.git_remote,
    "s3": parts.s3,
    "http": parts.http_key,
    "etag": parts.etag,
    "sql": parts.sql,
    "mcp": parts.mcp_tool,
    "reservation": parts.reservation,
    "chat": parts.chat,
}


@pytest.fixture(params=list(ROWS))
def part(request: pytest.FixtureRequest, database: dict[str, Any]) -> Iterator[Part]:
    make: Any = ROWS[request.param]
    with make(database) if request.param == "sql" else make() as made:
        made.adapter.check(made.payload, made.condition)
        yield made


def _look(part: Part, call: Any) -> Any:
    part.relay.fault = Fault.NONE
    return part.adapter.look_up(call, deadline=time.monotonic() + 60)


def _found(part: Part, expected: type[Any]) -> tuple[type[Any], ...]:
    """Those who can't be asked never know."""
    return (expected,) if part.adapter.can_be_asked else (DontKnow,)


def test_a_plain_call_happens_once_and_is_found_again(part: Part) -> None:
    call = part.call()
    sent = part.adapter.send(call)
    assert isinstance(sent, Happened), sent
    assert sent.receipt
    assert part.count(call) == 1
    assert isinstance(_look(part, call), _found(part, Happened))


def test_a_lost_answer_is_unknown_and_the_look_up_finds_what_happened(part: Part) -> None:
    part.relay.fault = Fault.DROP_REPLY
    call = part.call()
    sent = part.adapter.send(call)
    assert isinstance(sent, Unknown), sent
    assert part.count(call) == 1
    found = _look(part, call)
    assert isinstance(found, _found(part, Happened)), found
    assert part.count(call) == 1


def test_a_lost_request_is_unknown_and_the_look_up_finds_nothing(part: Part) -> None:
    part.relay.fault = Fault.LOSE_REQUEST
    call = part.call()
    sent = part.adapter.send(call)
    assert isinstance(sent, Unknown), sent
    found = _look(part, call)
    assert isinstance(found, _found(part, Absent)), found
    assert part.count(call) == 0


def test_an_answer_past_the_deadline_is_unknown_and_the_call_may_still_arrive(part: Part) -> None:
    part.relay.fault = Fault.HOLD
    call = part.call(seconds=part.hold_seconds)
    sent = part.adapter.send(call)
    assert isinstance(sent, Unknown), sent
    assert part.count(call) == 0
    assert isinstance(_look(part, call), _found(part, Absent))
    part.relay.release()
    assert part.count(call) == 1
    assert isinstance(_look(part, call), _found(part, Happened))


def test_a_rejected_call_is_refused_and_has_not_happened(part: Part) -> None:
    part.reject()
    call = part.call()
    sent = part.adapter.send(call)
    expected = Unknown if part.adapter.kind == "mcp" else Refused
    assert isinstance(sent, expected), sent
    assert part.count(call) == 0


def test_the_same_bytes_arriving_twice_act_once_where_that_is_promised(part: Part) -> None:
    call = part.call()
    if part.replays_bytes:
        part.relay.fault = Fault.DUPLICATE
        first = part.adapter.send(call)
    else:
        first = part.adapter.send(call)
        part.adapter.send(call)
    assert isinstance(first, Happened), first
    assert part.count(call) == (2 if part.acts_again else 1)
    assert part.acts_again == (part.adapter.guarantee in {Guarantee.NONE, Guarantee.QUERY_ONLY})


def test_a_call_whose_deadline_has_passed_is_not_sent(part: Part) -> None:
    call = part.call(seconds=-1)
    sent = part.adapter.send(call)
    assert isinstance(sent, Refused)
    assert not sent.sent
    assert part.count(call) == 0


def test_where_nobody_listens_nothing_was_sent(part: Part) -> None:
    call = part.call(seconds=30)
    part.relay.__exit__()
    sent = part.adapter.send(call)
    assert isinstance(sent, Refused), sent
    assert not sent.sent
    assert isinstance(part.adapter.look_up(call, deadline=time.monotonic() + 10), DontKnow)
    assert part.count(call) == 0


SEALED = [name for name in ROWS if name not in {"smtp", "mcp", "chat"}]


@pytest.mark.parametrize("part", SEALED, indirect=True)
def test_after_a_lost_answer_the_next_dispatch_acts_no_second_time(part: Part) -> None:
    part.relay.fault = Fault.DROP_REPLY
    call = part.call()
    part.adapter.send(call)
    part.relay.fault = Fault.NONE
    assert isinstance(part.adapter.send(again(call)), Happened | Unknown)
    assert part.count(call) == 1
    assert isinstance(_look(part, call), Happened)


@pytest.mark.parametrize("part", SEALED, indirect=True)
def test_a_call_that_arrives_after_the_next_dispatch_acts_no_second_time(part: Part) -> None:
    part.relay.fault = Fault.HOLD
    call = part.call(seconds=part.hold_seconds)
    assert isinstance(part.adapter.send(call), Unknown)
    part.relay.fault = Fault.NONE
    second = part.adapter.send(again(call, seconds=part.hold_seconds))
    # A database makes the second wait for the first, which holds the name.
    assert isinstance(second, Refused if part.adapter.kind == "sql" else Happened), second
    part.relay.release()
    assert part.count(call) == 1
    assert isinstance(_look(part, call), Happened)
