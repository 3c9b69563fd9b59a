"""C03 — expiry judged by each machine's own clock: only the database's counts.

The client's own wall clock is in tests/sdk/test_field_cases.py.
"""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from coordinator.models import Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.endings import RetryScheduled, fail_attempt
from coordinator.services.leases import Renewal, Renewed, renew_leases, sweep
from tests import world
from tests.cases.moving_clock import advance

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

#: One second of the case is so many: a machine that pauses for some ends no lease and no delay.
SLOWLY = 20

HostClock = Callable[[float], None]


@pytest.fixture
def host_clock(monkeypatch: pytest.MonkeyPatch) -> HostClock:
    """The clock of the machine that serves the next call, so many seconds of the case off."""
    real_time, real_now = time.time, timezone.now

    def shift(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real_time() + seconds * SLOWLY)
        monkeypatch.setattr(
            timezone, "now", lambda: real_now() + dt.timedelta(seconds=seconds * SLOWLY)
        )

    return shift


@pytest.mark.parametrize("replicas", [(0.0,), (200.0, -200.0), (-3600.0, 200.0)])
def test_c03_answers_depend_on_the_databases_clock_alone(
    host_clock: HostClock, replicas: tuple[float, ...]
) -> None:
    """Each call is served by the next replica, whose clock is off; one replica alone is step 1 to 4."""
    turn = 0

    def served(call: Callable[[], Any]) -> Any:
        nonlocal turn
        host_clock(replicas[turn % len(replicas)])
        turn += 1
        return call()

    Queue.objects.update(max_ttl_seconds=180 * SLOWLY)
    a, b, c = (world.worker(name=name) for name in "ABC")
    world.submit()
    first = served(lambda: world.claim_one(by=a, ttl_seconds=180 * SLOWLY))  # 1
    assert 179 * SLOWLY < first.lease_seconds <= 180 * SLOWLY
    advance(5 * SLOWLY)
    assert served(lambda: world.claim(by=b, ttl_seconds=180 * SLOWLY)) == []  # 2
    advance(95 * SLOWLY)
    renewal = Renewal(first.fence.attempt_id, first.fence, first.owner, 180 * SLOWLY)
    (answer,) = served(lambda: renew_leases(items=[renewal], worker=a))  # 3: s=100
    assert isinstance(answer, Renewed)
    assert answer.lease_seconds == 180 * SLOWLY
    advance(179 * SLOWLY)
    served(sweep)
    assert served(lambda: world.claim(by=c, ttl_seconds=180 * SLOWLY)) == []
    advance(2 * SLOWLY)
    (second,) = served(lambda: world.claim(by=c, ttl_seconds=180 * SLOWLY))  # 4: s=281
    assert second.fence.claim_generation == 2
    late = served(lambda: world.try_commit(first, by=a))
    assert isinstance(late, Refusal)
    assert late.outcome is Outcome.FENCED
    served(lambda: world.commit(second, by=c))


@pytest.mark.parametrize("off", [200.0, -200.0])
def test_c03_6_a_retry_delay_is_due_by_the_databases_clock(
    host_clock: HostClock, off: float
) -> None:
    Queue.objects.update(retry_backoff_max_seconds=30 * SLOWLY)
    a = world.worker(name="A")
    run = world.submit()
    claim = world.claim_one(by=a)
    host_clock(off)
    answer = fail_attempt(
        attempt_id=claim.fence.attempt_id,
        fence=claim.fence,
        error={"type": "E", "message": "no"},
        retryable=True,
        retry_after_seconds=30 * SLOWLY,
        worker=a,
    )
    assert isinstance(answer, RetryScheduled)
    assert answer.not_before == world.current(run, "a").claimable_at
    advance(29 * SLOWLY)
    assert world.claim(by=a) == []
    advance(2 * SLOWLY)
    assert len(world.claim(by=a)) == 1


def test_c03_end_a_grant_carries_a_remaining_duration_beside_the_instant() -> None:
    world.submit()
    claim = world.claim_one(by=world.worker(), ttl_seconds=77)
    assert claim.lease_seconds == pytest.approx(77, abs=1)
    assert claim.lease_expires_at.tzinfo is not None
