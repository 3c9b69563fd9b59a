"""A queue with a downstream, a worker that has one effect to perform, and a person to approve it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from django.db import connection

from coordinator.models import EffectSlot
from tenure import Claim, Client, Downstream, Report, Worker
from tenure.downstreams import Guarantee
from tests import world
from tests.downstreams.parts import BOUND_TO, Part
from tests.sdk.conftest import Site

SLOT = "out"


@dataclass
class Stage:
    """What a test of one effect needs; `perform` may be replaced."""

    site: Site
    part: Part
    #: As registered, where it is another than the adapter's own.
    guarantee: Guarantee | None = None
    call_timeout_seconds: int = 60
    settle_seconds: int = 0
    refuses_late: bool = False
    name: str = BOUND_TO
    receipts: list[Any] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)
    reports: list[Report] = field(default_factory=list)

    def __post_init__(self) -> None:
        guarantee = self.guarantee or self.part.adapter.guarantee
        world.downstream(
            name=self.name,
            guarantee=guarantee,
            call_timeout_seconds=self.call_timeout_seconds,
            settle_seconds=self.settle_seconds,
            refuses_late=self.refuses_late,
            key_valid_seconds=3600 if guarantee is Guarantee.IDEMPOTENT_KEY else None,
        )
        [self.task_id] = self.site.submit(1, slots={SLOT: self.name})

    @property
    def outside(self) -> Downstream:
        return Downstream(self.name, self.part.adapter)

    def perform(self, claim: Claim) -> Any:
        """What the handler does: the effect, and its receipt as the result."""
        intent = claim.effect(SLOT, self.outside, self.part.payload, condition=self.part.condition)
        return intent.perform()

    def worker(self, perform: Callable[[Claim], Any] | None = None, **options: Any) -> Worker:
        worker = self.site.worker(observer=self.reports.append, **options)
        act = perform or self.perform

        @worker.handler("work")
        def work(claim: Claim) -> Any:
            try:
                receipt = act(claim)
            except BaseException as error:
                self.errors.append(error)
                raise
            finally:
                connection.close()  # this thread's own; the test may have looked into the database here
            self.receipts.append(receipt)
            return {"receipt": receipt}

        return worker

    def run(self, perform: Callable[[Claim], Any] | None = None) -> dict[str, int]:
        """One worker, until there is nothing to claim."""
        return self.worker(perform).run(until_empty=True)

    def approve(self) -> None:
        """A person approves what is asked for, through the API."""
        with self.person() as person:
            [approval] = person.approvals(state="PENDING", task_id=self.task_id)
            decided = person.approve(
                approval.approval_id, payload_digest=approval.payload_digest, comment="seen"
            )
            assert decided.state == "APPROVED", decided

    def person(self, role: str = "admin") -> Client:
        return self.site.client(token=self.site.operator_token(role))

    def make_due(self) -> None:
        """Let the pause before the next attempt be over."""
        world.make_due(UUID(self.task_id))

    def let_deadlines_pass(self) -> None:
        """Wait by the database's clock until every call that was permitted is past its deadline, and settled.

        A deadline is a fact of its dispatch: the database lets nobody move it.
        """
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pg_sleep_until(max(call_deadline) + make_interval(secs => %s)) FROM coordinator_dispatch"
                " WHERE effect_id = %s",
                [self.settle_seconds + 0.001, self.effect.effect_id],
            )

    @property
    def effect(self) -> EffectSlot:
        return EffectSlot.objects.get(task_id=self.task_id)

    @property
    def state(self) -> str:
        return world.task(UUID(self.task_id)).state

    @property
    def performed(self) -> int:
        """How often the downstream really did it, by its own log."""
        return int(self.part.count(self.effect))
