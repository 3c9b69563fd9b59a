"""A little of everything: whatever the figures are about has happened at least once."""

from dataclasses import replace

from coordinator.actors import Worker
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.cancels import cancel_task
from coordinator.services.claims import claim_task
from coordinator.services.commits import commit_results
from coordinator.services.effects import Prepared
from coordinator.services.endings import fail_attempt, release_attempt
from coordinator.services.epochs import bump_epoch
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.refused_callers import record_forbidden
from coordinator.services.revisions import revise_task
from coordinator.services.usage import Usage
from coordinator.states import DispatchOutcome, Guarantee
from tests import world
from tests.effects import ledger
from tests.world import node

#: How late the one lapsed task is taken over. Its bucket, 30 to 60, has room for a machine that stands still meanwhile.
LATE_SECONDS = 31


def usage(tokens: int) -> Usage:
    return Usage(tokens, 2 * tokens, tokens / 4, tokens / 1000)


def late_commit(claim: Claim, *, by: Worker, tokens: int) -> Refusal:
    (answer,) = commit_results(
        items=[replace(world.commit_item(claim), usage=usage(tokens))], worker=by
    )
    assert isinstance(answer, Refusal)
    return answer


def renew(claim: Claim, *, by: Worker, tokens: int = 0) -> None:
    renew_leases(
        items=[Renewal(claim.fence.attempt_id, claim.fence, claim.owner, usage=usage(tokens))],
        worker=by,
    )


def everything(*, queue_name: str = "q") -> None:
    """In queue `q`, which is there; ends with an epoch bump, and claims that are still held."""
    by, person = world.worker(queues=(queue_name,)), world.operator()
    committing(by)
    ending(by)
    steering(by)
    effects(by)
    refused = Refusal(Outcome.FORBIDDEN, "It may not.")
    for _ in range(2):
        record_forbidden(refusal=refused, operation="approve", target="x", actor=by)
    world.submit(node("x"), node("y"), name="bumped")
    held = world.claim(by=by, limit=2)
    bump_epoch(queue=queue_name, expected_epoch=1, reason="to try it", actor=person)
    for claim in held:
        renew(claim, by=by, tokens=9)
    world.claim(by=by)


def committing(by: Worker) -> None:
    world.submit(node("a"), node("b"), node("c", "a", "b"), name="commits")
    for claim in world.claim(by=by, limit=2):
        renew(claim, by=by, tokens=3)
        renew(claim, by=by, tokens=7)
        (_,) = commit_results(items=[replace(world.commit_item(claim), usage=usage(11))], worker=by)
    world.commit(world.claim_one(by=by), by=by)


def ending(by: Worker) -> None:
    run = world.submit(node("late"), node("failing"), node("released"), name="ends")
    late = world.claim_one(by=by, of=world.task_id(run, "late"))
    renew(late, by=by, tokens=1)
    world.lapse(late.fence.task_id, seconds_ago=LATE_SECONDS)
    second = world.claim_one(by=by, of=late.fence.task_id)
    for tokens in (5, 5, 8):
        late_commit(late, by=by, tokens=tokens)
    renew(late, by=by)
    world.commit(second, by=by)
    failing = world.claim_one(by=by, of=world.task_id(run, "failing"))
    fail_attempt(
        attempt_id=failing.fence.attempt_id, fence=failing.fence, error={"type": "E", "message": "m"},
        retryable=True, worker=by, usage=usage(4),
    )  # fmt: skip
    released = world.claim_one(by=by, of=world.task_id(run, "released"))
    claim_task(
        task_id=released.fence.task_id, expected_state_version=1, scheduler_epoch=1, owner="o", worker=by
    )  # fmt: skip
    release_attempt(attempt_id=released.fence.attempt_id, fence=released.fence, worker=by)
    world.make_due(failing.fence.task_id)
    for claim in world.claim(by=by, limit=9):
        world.commit(claim, by=by)


def steering(by: Worker) -> None:
    person = world.operator()
    run = world.submit(node("cancelled"), node("revised"), name="steered")
    for claim in world.claim(by=by, limit=2):
        renew(claim, by=by, tokens=2)
    cancel_task(task_id=world.task_id(run, "cancelled"), reason="not needed", actor=person)
    old = world.current(run, "revised")
    revise_task(
        task_id=old.task_id, expected_state_version=old.state_version, input={"new": 1},
        reason="it was wrong", actor=person,
    )  # fmt: skip
    world.commit(world.claim_one(by=by), by=by)


def effects(by: Worker) -> None:
    claim, effect, accepted = ledger.sent(by=by)
    ledger.report(effect, claim, accepted, DispatchOutcome.COMMITTED, by=by)
    world.commit(claim, by=by)
    world.commit(world.claim_one(by=by), by=by)
    parked = ledger.claimed(by=by, guarantee=Guarantee.NONE, name="risky")
    asked = ledger.try_prepare(parked, by=by, downstream="risky")
    assert isinstance(asked, Prepared), asked
    ledger.try_accept(asked.effect, parked.fence, by=by)
