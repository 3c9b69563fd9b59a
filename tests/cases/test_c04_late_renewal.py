"""C04 — a late renewal revives a lapsed lease.

The contract decides it otherwise where nobody has taken the task over: the fence decides, not the clock. Proved on both
sides: such a renewal succeeds, and a renewal *and* a take-over never both win, no lease is shortened, and a superseded
attempt never renews. `prepare` follows `stage` and `commit` here: all go through the one guard.
"""

import datetime as dt
from collections import Counter
from functools import partial
from typing import Any

import pytest

from coordinator.models import Task
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.results import Staged, stage_result
from tests import world
from tests.cases.moving_clock import advance
from tests.history import nothing_moves
from tests.races.crowd import at_once

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]


def renew(claim: Claim, *, by: Any, ttl: int = 60) -> Renewed | Refusal:
    item = Renewal(claim.fence.attempt_id, claim.fence, claim.owner, ttl)
    return renew_leases(items=[item], worker=by)[0]


def until(claim: Claim) -> dt.datetime:
    return Task.objects.values_list("lease_expires_at", flat=True).get(task_id=claim.fence.task_id)  # type: ignore[return-value]


def test_c04_the_fence_decides_and_the_successors_lease_stays_its_own() -> None:
    a = world.worker(name="A")
    world.submit()
    first = world.claim_one(by=a, ttl_seconds=60)
    advance(59.9)
    before = renew(first, by=a)  # 1
    assert isinstance(before, Renewed)
    assert before.lease_seconds == 60
    advance(60.1)
    late = renew(first, by=a)  # 2, as the contract has it: nobody took it over
    assert isinstance(late, Renewed)
    advance(61)
    staged = stage_result(
        attempt_id=first.fence.attempt_id, fence=first.fence, result=1, worker=a
    )  # 3
    assert isinstance(staged, Staged)
    assert staged.canonical_candidate
    second = world.claim_one(by=a, ttl_seconds=60)  # 4: the same owner, a new fence
    assert (second.attempt_number, second.fence.claim_generation) == (2, 2)
    lease = until(second)
    with nothing_moves():  # 5
        told = renew(first, by=a, ttl=300)
        assert isinstance(told, Refusal)
        assert (told.outcome, told.reason) == (Outcome.FENCED, Reason.STALE_GENERATION)
        refused = world.try_commit(first, by=a)
        assert isinstance(refused, Refusal)
        assert refused.outcome is Outcome.FENCED
    assert until(second) == lease
    shorter = renew(second, by=a, ttl=5)
    assert isinstance(shorter, Renewed)
    assert until(second) == lease
    world.commit(second, by=a)


def test_c04_3_a_commit_after_expiry_and_a_take_over_never_both_win() -> None:
    a, b = world.worker(name="A"), world.worker(name="B")
    world.submit()
    claim = world.claim_one(by=a)
    advance(61)
    world.commit(claim, by=a)
    assert world.claim(by=b) == []


def test_c04_6_exactly_at_the_end_of_the_lease_never_both() -> None:
    """200 barrier runs around the very instant: the lease ends a few milliseconds from now, or has just ended."""
    a, b = world.worker(name="A"), world.worker(name="B")
    seen: Counter[str] = Counter()
    for turn in range(200):
        world.submit()
        claim = world.claim_one(by=a)
        world.lapse(claim.fence.task_id, seconds_ago=(turn % 5 - 3) / 1000)
        answers: list[Any] = at_once(partial(renew, claim, by=a), partial(world.claim, by=b))
        renewed, granted = answers
        assert not (isinstance(renewed, Renewed) and granted), turn
        if isinstance(renewed, Renewed):
            assert until(claim) == renewed.lease_expires_at
        else:
            assert granted
            assert granted[0].fence.claim_generation == 2
        seen["renewed" if isinstance(renewed, Renewed) else "taken over"] += 1
        world.commit(granted[0], by=b) if granted else world.commit(claim, by=a)
    assert sum(seen.values()) == 200
