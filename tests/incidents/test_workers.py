"""Workers of the SDK in an incident: what they may not send is given back, and harms no task (contract 12)."""

from typing import Any
from uuid import UUID

import pytest

from coordinator.models import Attempt
from coordinator.states import Guarantee
from tenure import Claim, Downstream, IntakeStopped
from tenure.downstreams import HttpKey
from tests import world
from tests.downstreams.service import Service
from tests.history import history_holds
from tests.incidents import rollback
from tests.incidents.rollback import took
from tests.sdk.conftest import Site, served, site
from tests.sdk.threads import ended, started, until_counted

__all__ = ["history_holds", "served", "site"]

pytestmark = pytest.mark.usefixtures("history_holds")


def test_a_task_that_may_not_send_is_given_back_and_is_none_the_worse_for_it(site: Site) -> None:
    world.downstream(name="bank", guarantee=Guarantee.IDEMPOTENT_KEY, key_valid_seconds=3600)
    (task_id,) = site.submit(1, slots={"out": "bank"}, max_attempts=1)
    refused: list[Exception] = []
    incidents: list[UUID] = []
    with Service() as service:
        bank = Downstream("bank", HttpKey(f"{service.url}/payments"))
        worker = site.worker()

        @worker.handler("work")
        def pay(claim: Claim) -> dict[str, Any]:
            if not incidents:  # it is opened while the handler is at work
                incidents.append(rollback.opened(queues=(site.queue,)))
            try:
                return {"receipt": claim.effect("out", bank, {"amount": 20}).perform()}
            except IntakeStopped as problem:
                refused.append(problem)
                raise

        thread = started(worker)
        until_counted(worker, "released", 1)
        assert world.task(UUID(task_id)).state == "READY"
        assert len(service.world.performed) == 0
        took(rollback.abort(incidents[0]))
        until_counted(worker, "committed", 1)
        worker.stop()
        ended(thread)
        assert len(service.world.performed) == 1
    assert len(refused) == 1
    task = world.task(UUID(task_id))
    assert (task.state, task.spent_attempts) == ("COMMITTED", 0)
    states = Attempt.objects.order_by("claim_generation").values_list("state", flat=True)
    assert list(states) == ["RELEASED", "COMMITTED"]
