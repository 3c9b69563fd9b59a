"""The negative test of the whole idea, with real processes: one worker's answer is lost, another one takes over.

A pays 20 and is killed, frozen or cut off; B composes 21 for the same slot. Whatever the moment: the outside performs
once, with the bound bytes, and neither worker commits what the other one did not know. The outside dedupes nothing; the
ledger may not lean on it.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import httpx
import pytest

from coordinator.models import Dispatch, EffectSlot, Event, Evidence
from coordinator.states import Guarantee
from tests import world
from tests.downstreams.relay import Fault, Relay
from tests.sdk.conftest import Site, served, site
from tests.sdk.processes import Program

__all__ = ["served", "site"]

pytestmark = [pytest.mark.usefixtures("history_holds"), pytest.mark.slow]

X, Y = {"amount": 20}, {"amount": 21}


@dataclass
class Payment:
    """A task with one payment, the bank that it goes to, and workers that are started one after the other."""

    site: Site
    stack: ExitStack
    guarantee: Guarantee
    bank: str
    task_id: str = field(init=False)

    def __post_init__(self) -> None:
        valid = 3600 if self.guarantee is Guarantee.IDEMPOTENT_KEY else None
        world.downstream(
            name="bank",
            guarantee=self.guarantee,
            call_timeout_seconds=600,
            settle_seconds=0,
            key_valid_seconds=valid,
        )
        [self.task_id] = self.site.submit(1, slots={"out": "bank"})

    def worker(self, amount: int, moment: str = "", *, bank: str | None = None) -> Program:
        arguments = (self.site.queue, bank or self.bank, self.guarantee, str(amount), moment)
        program = Program(
            "tests.races.paying_worker", *arguments, url=self.site.url, token=self.site.token
        )
        return self.stack.enter_context(program)

    def first(self, moment: str, *, bank: str | None = None) -> Program:
        """A, which pays X and stands still at this moment."""
        a = self.worker(X["amount"], moment, bank=bank)
        a.until(f"at {moment}")
        return a

    def let_lease_run_out(self) -> None:
        self.site.lapse(self.task_id)

    def taken_over(self, moment: str = "") -> Program:
        """B, which means to pay Y."""
        self.let_lease_run_out()
        return self.worker(Y["amount"], moment)

    @property
    def effect(self) -> EffectSlot:
        return EffectSlot.objects.get(task_id=self.task_id)

    @property
    def state(self) -> str:
        return world.task(UUID(self.task_id)).state

    def log(self) -> dict[str, Any]:
        log: dict[str, Any] = httpx.get(f"{self.bank}/log", timeout=60).json()
        return log

    def calls(self) -> int:
        """Calls that reached the outside and could act."""
        return sum(1 for each in self.log()["arrived"] if each.startswith("POST"))

    def must_have_been_paid_once(self, payload: Any, *, dispatches: int) -> None:
        """The ledger and the bank's own log say the same: once, with these bytes."""
        effect = self.effect
        (performed,) = self.log()["performed"]
        assert (performed["key"], performed["digest"]) == (effect.effect_id, effect.payload_digest)
        assert json.loads(effect.payload) == payload
        assert (effect.state, self.state) == ("COMMITTED", "COMMITTED")
        assert effect.dispatches == dispatches
        assert not effect.duplicate_suspected


@contextmanager
def payment(site: Site, guarantee: Guarantee) -> Iterator[Payment]:
    with ExitStack() as stack:
        if guarantee is Guarantee.GATED:
            token = site.token_for("gate")
            bank = stack.enter_context(Program("tests.races.gated_bank", url=site.url, token=token))
        else:
            bank = stack.enter_context(
                Program("tests.downstreams.service", "0", url=site.url, token="")
            )
        url = bank.until("http").split()[0]
        if guarantee is not Guarantee.GATED:
            _set(url, dedupe=False)
        yield Payment(site, stack, guarantee, url)


def _set(bank: str, **settings: Any) -> None:
    httpx.post(f"{bank}/settings", json=settings, timeout=60).raise_for_status()


def finished(worker: Program) -> list[str]:
    """What it said until its end."""
    worker.counts()
    return worker.lines


def said(lines: list[str], beginning: str) -> list[str]:
    return [line for line in lines if line.startswith(beginning)]


@pytest.fixture
def by_key(site: Site) -> Iterator[Payment]:
    with payment(site, Guarantee.IDEMPOTENT_KEY) as made:
        yield made


@pytest.fixture
def gated(site: Site) -> Iterator[Payment]:
    with payment(site, Guarantee.GATED) as made:
        yield made


CONFLICT = f"conflict {json.dumps(X)}"


def test_a_loses_the_answer_and_b_pays_nothing(by_key: Payment) -> None:
    """A's call is performed and its answer never comes; B composes Y, is told X, looks X up, and sends nothing."""
    address = urlsplit(by_key.bank)
    assert address.hostname
    assert address.port
    with Relay((address.hostname, address.port), trigger=b"POST /payments") as relay:
        relay.fault = Fault.DROP_REPLY
        a = by_key.first("sent", bank=relay.url)
        assert said(a.lines, "sent") == [f"sent Unknown {json.dumps(X)}"]
        assert by_key.calls() == 1
        a.kill()
    lines = finished(by_key.taken_over())
    assert CONFLICT in lines
    assert said(lines, "sent") == []
    by_key.must_have_been_paid_once(X, dispatches=1)
    assert by_key.calls() == 1
    told = Event.objects.filter(kind="REFUSED", data__outcome="PAYLOAD_CONFLICT")
    assert told.filter(task_id=by_key.task_id).count() == 1


def test_a_reports_that_it_does_not_know_and_b_asks_where_a_could_not(by_key: Payment) -> None:
    """The same where A lives on, says UNKNOWN, and can't ask: its attempt ends, and nothing is sent again."""
    address = urlsplit(by_key.bank)
    assert address.hostname
    assert address.port
    _set(by_key.bank, dedupe=False, look_up=False)
    with Relay((address.hostname, address.port), trigger=b"POST /payments") as relay:
        relay.fault = Fault.DROP_REPLY
        lines = finished(by_key.worker(X["amount"], bank=relay.url))
    assert len(said(lines, "sent Unknown")) == 1
    assert (by_key.effect.state, by_key.state) == ("UNKNOWN", "READY")
    _set(by_key.bank, dedupe=False, look_up=True)
    world.make_due(UUID(by_key.task_id))
    lines = finished(by_key.worker(Y["amount"]))
    assert CONFLICT in lines
    assert said(lines, "sent") == []
    by_key.must_have_been_paid_once(X, dispatches=1)
    assert by_key.calls() == 1


#: Where A was killed: what is paid, by how many dispatches, and whether B called the outside.
KILLED = {
    Guarantee.IDEMPOTENT_KEY: {
        "claimed": (Y, 1, True),
        "prepared": (X, 1, True),
        "accepted": (X, 2, True),
        "sent": (X, 1, False),
        "reported": (X, 1, False),
    },
    Guarantee.GATED: {
        "claimed": (Y, 1, True),
        "prepared": (X, 1, True),
        "accepted": (X, 2, True),
        "sent": (X, 1, False),  # the gate has told what came of it
        "reported": (X, 1, False),
    },
}


@pytest.mark.parametrize("guarantee", list(KILLED))
@pytest.mark.parametrize("moment", list(KILLED[Guarantee.GATED]))
def test_a_is_killed_at_any_moment_and_the_payment_happens_once(
    site: Site, guarantee: Guarantee, moment: str
) -> None:
    payload, dispatches, calls = KILLED[guarantee][moment]
    with payment(site, guarantee) as made:
        made.first(moment).kill()
        assert made.state == "CLAIMED"
        lines = finished(made.taken_over())
        assert (CONFLICT in lines) == (payload == X)
        assert bool(said(lines, "sent")) == calls
        made.must_have_been_paid_once(payload, dispatches=dispatches)
        assert made.calls() == 1


def test_a_frozen_between_its_permission_and_its_call_is_refused_by_the_tool(
    gated: Payment,
) -> None:
    """No check of the coordinator's could have stopped it: only the tool can."""
    a = gated.first("accepted")
    a.signal(signal.SIGSTOP)
    lines = finished(gated.taken_over())
    assert CONFLICT in lines
    gated.must_have_been_paid_once(X, dispatches=2)
    assert gated.calls() == 1
    a.go()
    a.signal(signal.SIGCONT)
    late = finished(a)
    assert said(late, "sent") == [f"sent Refused {json.dumps(X)}"]
    assert gated.calls() == 2  # it did arrive, and the gate did not let it through
    gated.must_have_been_paid_once(X, dispatches=2)
    refused = Event.objects.filter(task_id=gated.task_id, kind="REFUSED", data__outcome="FENCED")
    assert {"redeem", "report"} <= {event.data["point"] for event in refused}
    first, second = Dispatch.objects.filter(effect=gated.effect).order_by("number")
    assert (first.redeemed_at, first.closed_at is not None) == (None, True)
    assert second.outcome == "COMMITTED"


def test_a_frozen_before_its_call_and_woken_before_anybody_has_sent_is_refused_too(
    gated: Payment,
) -> None:
    """The take-over alone closed A's dispatch; B has not done anything yet."""
    a = gated.first("accepted")
    a.signal(signal.SIGSTOP)
    b = gated.taken_over("claimed")
    b.until("at claimed")
    assert gated.effect.state == "PREPARED"
    a.go()
    a.signal(signal.SIGCONT)
    assert said(finished(a), "sent") == [f"sent Refused {json.dumps(X)}"]
    assert gated.log()["performed"] == []
    b.go()
    assert CONFLICT in finished(b)
    gated.must_have_been_paid_once(X, dispatches=2)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_receipt_that_comes_late_is_kept_and_changes_no_result(
    by_key: Payment, when: str
) -> None:
    """A was paid and frozen with the receipt in its hand; it reports before or after B has reconciled."""
    a = by_key.first("sent")
    a.signal(signal.SIGSTOP)
    b = by_key.taken_over("claimed")
    b.until("at claimed")
    assert by_key.effect.state == "UNKNOWN"
    if when == "after":
        b.go()
        assert CONFLICT in finished(b)
    a.go()
    a.signal(signal.SIGCONT)
    finished(a)
    refused = Event.objects.filter(task_id=by_key.task_id, kind="REFUSED", data__outcome="FENCED")
    assert "report" in {event.data["point"] for event in refused}
    assert by_key.effect.happened_on_file
    if when == "before":
        assert by_key.effect.state == "UNKNOWN"
        b.go()
        assert CONFLICT in finished(b)
    by_key.must_have_been_paid_once(X, dispatches=1)
    assert by_key.calls() == 1
    late = Evidence.objects.get(effect=by_key.effect, late=True)
    assert (late.said, late.kind) == ("COMMITTED", "late_report")
