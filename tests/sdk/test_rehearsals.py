"""A worker of a queue in SHADOW: it rehearses at the address that it knows, and nothing is sent (contract 13)."""

from __future__ import annotations

from typing import Any

import pytest

from coordinator.models import Dispatch, EffectSlot, Queue, Task
from tenure import Claim, Downstream, StageForbids
from tests import world
from tests.sdk.conftest import Site


class NeverAsked:
    """An adapter that no call may reach."""

    def check(self, payload: Any, condition: Any) -> None:
        """Anything may be bound."""

    def send(self, call: Any) -> Any:
        raise AssertionError(f"a rehearsal was sent: {call}")


def test_a_worker_rehearses_a_dag_and_sends_nothing(site: Site) -> None:
    world.downstream(name="mail", guarantee="IDEMPOTENT_KEY", key_valid_seconds=86_400)
    site.submit(1)  # live, from before: it waits
    Queue.objects.filter(name=site.queue).update(rollout_stage="SHADOW")
    worker = site.worker(concurrency=3)
    refused: list[str] = []

    @worker.handler("work")
    def work(claim: Claim) -> dict[str, Any]:
        return {"made by": claim.node_id}

    @worker.handler("mail")
    def mail(claim: Claim) -> None:
        outside: Any = NeverAsked()
        with pytest.raises(StageForbids) as told:
            claim.effect("mail", Downstream("mail", outside), {"to": "ada"}).perform()
        refused.append(str(told.value.outcome))

    nodes = [
        {"node_id": "a", "kind": "work", "input": 1},
        {"node_id": "b", "kind": "work", "input": 2},
        {"node_id": "m", "kind": "mail", "input": 3, "depends_on": ["a", "b"], "slots": {"mail": "mail"}},
    ]  # fmt: skip
    with site.client() as client:
        run = client.submit_run(queue=site.queue, nodes=nodes)
        counts = worker.run(until_empty=True)
        found = client.run(run.run_id)
        lane = f"{site.queue}~shadow"
        assert (found.state, found.queue) == ("COMMITTED", lane)
        assert len(list(client.tasks(queue=lane))) == 3
    assert (counts["committed"], refused) == (3, ["STAGE_FORBIDS"])
    assert (EffectSlot.objects.get().state, Dispatch.objects.count()) == ("VOID", 0)
    assert set(Task.objects.filter(queue__name=site.queue).values_list("state", flat=True)) == {
        "READY"
    }
    with site.client(token=site.token_for("work")) as client:
        assert [queue.name for queue in client.queues()] == [site.queue]
