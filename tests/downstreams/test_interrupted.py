"""Every kind of downstream, every unkindness of the network, and the world changing while the call is out.

The first attempt sends and is then interrupted before it can report: its task is taken over, cancelled or fenced by a
raised epoch, another worker does what it may, and only then the first one wakes and reports. A held call arrives last.
Where the guarantee promises it the effect has happened exactly once by then; nowhere has it been permitted twice
without a person.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from coordinator.models import EffectSlot, Queue
from coordinator.services.epochs import Bumped, bump_epoch
from coordinator.states import MAY_BE_OUT
from tenure.downstreams import Happened
from tests import world
from tests.downstreams import parts
from tests.downstreams.parts import Part
from tests.downstreams.relay import Fault
from tests.downstreams.stage import Stage
from tests.downstreams.test_table import ROWS, SEALED
from tests.sdk.conftest import Site

pytestmark = pytest.mark.slow

_NUMBERS = itertools.count(1)
REJECT = "rejects"
#: Sending twice by the adapter stands for a network that doubles, where bytes can't be played again.
CASES: list[Fault | str] = [*Fault, REJECT]


@pytest.fixture(params=list(ROWS))
def part(request: pytest.FixtureRequest, database: dict[str, Any]) -> Iterator[Part]:
    make: Any = ROWS[request.param]
    with make(database) if request.param == "sql" else make() as made:
        yield made


def _a_queue_of_its_own(site: Site) -> Site:
    """What may be out in one case holds the serial key of the next, in the same queue."""
    own = replace(site, queue=f"{site.queue}-{next(_NUMBERS)}")
    world.queue(name=own.queue, retry_backoff_seconds=0)
    own.token = own.token_for("work", "submit")
    return own


class Interrupted:
    """One case of the table, told step by step."""

    def __init__(self, site: Site, part: Part, case: Fault | str) -> None:
        self.part = part
        self.case = case
        part.payload, part.condition = part.fresh()
        part.adapter.__dict__.pop("send", None)
        holds = case is Fault.HOLD
        self.stage = Stage(
            _a_queue_of_its_own(site),
            part,
            name=f"outside-{next(_NUMBERS)}",
            call_timeout_seconds=int(part.hold_seconds) if holds else 60,
        )
        self.sent: list[Any] = []

    def play(self, interrupt: Callable[[Stage], None], go_on: Callable[[Stage], None]) -> None:
        stage, part = self.stage, self.part
        if part.acts_again:
            stage.run()
            stage.approve()
        real = part.adapter.send

        def send(call: Any) -> Any:
            if self.sent:
                return real(call)
            self._make_unkind()
            self.sent.append(real(call))
            if self.case is Fault.DUPLICATE and not part.replays_bytes:
                real(call)
            part.relay.fault = Fault.NONE
            interrupt(stage)
            stage.run()  # another worker, while the first one is frozen here
            return self.sent[0]

        part.adapter.send = send  # type: ignore[method-assign]
        stage.run()
        if self.case == REJECT and part.allow is not None:
            part.allow()
        if self.case is Fault.HOLD:
            part.relay.release()
        go_on(stage)
        part.adapter.__dict__.pop("send", None)

    def _make_unkind(self) -> None:
        if self.case == REJECT:
            self.part.reject()
        elif isinstance(self.case, Fault):
            self.part.relay.fault = self.case

    def faults(self) -> list[str]:
        """What is wrong at the end; nothing should be."""
        effect, part = self.stage.effect, self.part
        wrong = []
        doubled = self.case is Fault.DUPLICATE and part.acts_again
        if self.stage.performed > (2 if doubled else 1):
            wrong.append(f"performed {self.stage.performed} times")
        if part.acts_again and effect.dispatches > 1:
            wrong.append(f"{effect.dispatches} dispatches, and one approval")
        if effect.state == "COMMITTED" and not self.stage.performed:
            wrong.append("COMMITTED, and the downstream has done nothing")
        if effect.state in {"PREPARED", "VOID"} and self.stage.performed:
            wrong.append(f"{effect.state}, and the downstream has done it")
        told = isinstance(self.sent[0], Happened)
        if told and not EffectSlot.objects.filter(
            pk=effect.pk, evidence__said__in=["COMMITTED", "HAPPENED"]
        ):
            wrong.append("the first attempt's receipt is not on file")
        world_log = part.log.get("world")
        if world_log is not None and part.adapter.kind != "reservation":
            digests = world_log.digests(effect.effect_id)
            if digests - {effect.payload_digest}:
                wrong.append(f"done with other bytes: {digests}")
        return [f"{self.case}: {one} (slot {effect.state}, sent {self.sent})" for one in wrong]


def _take_over(stage: Stage) -> None:
    stage.site.lapse(stage.task_id)


def _cancel(stage: Stage) -> None:
    with stage.person() as person:
        receipt = person.cancel_task(stage.task_id, reason="not wanted any more")
        assert receipt.outcome == "CANCELLED"
        assert len(receipt.effects) == (1 if stage.effect.state in MAY_BE_OUT else 0)


def _bump(stage: Stage) -> None:
    queue = Queue.objects.get(name=stage.site.queue)
    bumped = bump_epoch(
        queue=queue.name,
        expected_epoch=queue.scheduler_epoch,
        reason="a rollback of the fleet",
        actor=world.operator(),
    )
    assert isinstance(bumped, Bumped), bumped


def _again(stage: Stage) -> None:
    stage.make_due()
    stage.run()


def _reopen(stage: Stage) -> None:
    """Somebody wants it after all."""
    with stage.person() as person:
        version = person.task(stage.task_id).state_version
        person.reopen(stage.task_id, reason="wanted after all", expected_state_version=version)
    _again(stage)


INTERRUPTIONS = {
    "take-over": (_take_over, _again),
    "cancel": (_cancel, _reopen),
    "epoch bump": (_bump, _again),
}


@pytest.mark.parametrize("interruption", list(INTERRUPTIONS))
def test_an_interrupted_effect_happens_at_most_once_and_the_ledger_knows(
    site: Site, part: Part, interruption: str
) -> None:
    wrong: list[str] = []
    for case in CASES:
        told = Interrupted(site, part, case)
        told.play(*INTERRUPTIONS[interruption])
        wrong += told.faults()
        exactly_once = part.adapter.kind in SEALED and case != REJECT
        if exactly_once and (told.stage.performed, told.stage.state) != (1, "COMMITTED"):
            wrong.append(
                f"{case}: performed {told.stage.performed}, task {told.stage.state},"
                f" slot {told.stage.effect.state}, errors {told.stage.errors}"
            )
    assert wrong == []


def test_the_table_finds_a_downstream_that_does_not_keep_its_word(site: Site) -> None:
    """Registered as deduping, and it is not: a table that could not say so would prove nothing."""
    with parts.http_key(dedupe=False) as part:
        part.acts_again = False
        told = Interrupted(site, part, Fault.HOLD)
        told.play(*INTERRUPTIONS["take-over"])
        assert any("performed 2 times" in fault for fault in told.faults())
