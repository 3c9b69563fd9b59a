"""C12 — old-version workers on new work, during a rollout and after a rollback."""

from dataclasses import replace

import pytest

from coordinator.actors import Worker
from coordinator.models import Attempt, Credential, Event
from coordinator.outcomes import Outcome, Reason
from coordinator.selectors.explain import explain_task
from coordinator.services.claims import Claimed, claim_tasks
from coordinator.services.endings import fail_attempt
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases
from tests import world
from tests.api.callers import Api, attempt_path, commit_body
from tests.history import nothing_moves
from tests.incidents import rollback
from tests.incidents.rollback import refused, took
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

OLD, NEW = "deliver@1", "deliver@2"


def fleet(pool: str) -> Worker:
    """A worker of this pool. A worker asks for the kinds that its build knows, as the SDK does."""
    return world.worker(name=f"fleet-{pool}", pool_name=pool)


def switch(to_pool: str) -> None:
    """The guarded rollback, and its way forward again: the epoch rises, then the pool changes."""
    incident = rollback.bumped()
    rollback.run_out(incident)
    took(rollback.switch(incident, to_pool))
    took(rollback.resume(incident))


def ask(worker: Worker, kind: str, epoch: int) -> Claimed | object:
    return claim_tasks(
        queue="q", worker=worker, scheduler_epoch=epoch, owner=worker.name, kinds=[kind]
    )


def granted(worker: Worker, kind: str, epoch: int) -> Claim:
    answer = ask(worker, kind, epoch)
    assert isinstance(answer, Claimed), answer
    (claim,) = answer.claims
    return claim


def test_c12_work_of_a_new_build_is_never_done_ended_or_lost_by_an_old_one() -> None:
    v1, v2 = fleet("blue"), fleet("v2")
    old_task = world.task_id(world.submit(node("before", kind=OLD)), "before")
    held = world.claim_one(by=v1, of=old_task)
    task = world.task_id(world.submit(node("T", kind=NEW)), "T")

    # 1: forward. The old build claims nothing, by its epoch and by its pool.
    switch("v2")
    assert world.epoch() == 2
    with nothing_moves():
        refused(ask(v1, NEW, 1), Outcome.WRONG_POOL)
        refused(ask(v1, NEW, 2), Outcome.WRONG_POOL)
        assert refused(ask(v2, NEW, 1), Outcome.FENCED).reason is Reason.STALE_EPOCH
    assert (world.task(task).state, world.task(task).attempts) == ("READY", 0)

    # 2: the new build has T; then back. Strictly: neither a renewal nor the commit of e=2.
    second = granted(v2, NEW, 2)
    switch("blue")
    with nothing_moves():
        (renewed,) = renew_leases(
            items=[Renewal(second.fence.attempt_id, second.fence, second.owner)], worker=v2
        )
        for told in (renewed, world.try_commit(second, by=v2)):
            assert refused(told, Outcome.FENCED).reason is Reason.STALE_EPOCH

    # 3: the old build, at the new epoch, finds nothing for itself; T waits, and is used up by nobody.
    with nothing_moves():
        nothing = ask(v1, OLD + "-unknown", 3)
        assert isinstance(nothing, Claimed)
        assert nothing.claims == []
    assert (world.task(task).state, world.task(task).spent_attempts) == ("READY", 0)

    # 4: the first one comes back with what it remembers, and is told the epoch that it has to learn.
    with nothing_moves():
        told = refused(ask(v1, OLD, 1), Outcome.FENCED)
        assert told.current is not None
        assert told.current.scheduler_epoch == 3

    # 5: what it held at e=1 is taken by a newer attempt; its late words change nothing.
    newer = granted(v1, OLD, 3)
    assert newer.fence.task_id == held.fence.task_id
    with nothing_moves():
        refused(world.try_commit(held, by=v1), Outcome.FENCED)
        failing = fail_attempt(
            attempt_id=held.fence.attempt_id,
            fence=held.fence,
            error={"type": "UnknownJob", "message": "no such job"},
            retryable=False,
            worker=v1,
        )
        refused(failing, Outcome.FENCED)
    world.commit(newer, by=v1)

    # 6: forward again, and T is done once.
    switch("v2")
    world.commit(granted(v2, NEW, 4), by=v2)
    assert world.task(task).state == "COMMITTED"
    grants = Attempt.objects.filter(task_id=task).order_by("claim_generation")
    assert list(grants.values_list("scheduler_epoch", "state")) == [(2, "FENCED"), (4, "COMMITTED")]
    assert Event.objects.filter(task_id=task, kind="COMMITTED").count() == 1
    assert world.task(task).spent_attempts == 0


def test_c12_3_where_no_worker_could_take_it_the_task_says_so() -> None:
    fleet("blue")
    fleet("v2")
    task = world.task_id(world.submit(node("T", kind=NEW)), "T")
    switch("v2")
    Credential.objects.filter(pool_id="v2").update(revoked_at="2026-01-01T00:00:00Z")
    told = explain_task(task)
    assert told is not None
    assert told.claimable is False
    assert "NO_CAPABLE_POOL" in {reason.code for reason in told.reasons}
    assert world.task(task).state == "READY"


@pytest.mark.parametrize("contract", ["", "claim.v1", "claim.v02x", "lease.v9", "claim.v"])
def test_c12_a_build_below_the_pools_minimum_contract_gets_nothing(contract: str) -> None:
    world.pool(name="v2", min_contract="claim.v2")
    worker = fleet("v2")
    world.submit(node("T", kind=NEW))
    switch("v2")
    with nothing_moves():
        refused(ask(replace(worker, contract=contract), NEW, 2), Outcome.WRONG_POOL)
    granted(replace(worker, contract="claim.v2"), NEW, 2)


def test_c12_a_binary_that_does_not_send_the_fence_gets_nowhere(api: Api) -> None:
    claim = api.submitted_claim()
    body = commit_body(claim)
    del body["fence"]
    with nothing_moves():
        for verb, sent in (("commit", body), ("renew", {"owner": "w-1"}), ("release", {})):
            told = api.worker.post(attempt_path(claim, verb), sent)
            assert (told.status, told.outcome) == (428, "FENCE_MISSING"), verb
