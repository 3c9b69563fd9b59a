"""C01 — a delivery that waits, or simply runs long, outlives its window and is handed out again.

The client's side of step 6, with its own lease keeper, is in tests/sdk/test_field_cases.py.
"""

import datetime as dt

import pytest

from coordinator.models import Attempt, CanonicalCommit, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.leases import Renewal, Renewed, renew_leases
from coordinator.services.reports import Recorded
from coordinator.services.results import stage_result
from tests import world
from tests.cases.mailbox import Mailbox, prepare, register
from tests.cases.moving_clock import advance
from tests.history import nothing_moves
from tests.world import node

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("history_holds", "lane"),
]

#: One second of the case's lease is so many: a machine that pauses for some does not end it.
SLOWLY = 30


def test_c01_a_wait_and_a_long_run_are_never_handed_out_twice() -> None:
    register()
    mailbox = Mailbox()
    Queue.objects.update(max_ttl_seconds=60 * SLOWLY)
    a, b = world.worker(name="A"), world.worker(name="B")
    due = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=150)
    run = world.submit(node("T", not_before=due, slots={"mail": "mail"}))
    assert world.claim(by=a, ttl_seconds=60 * SLOWLY) == []  # 1: t=0
    assert Attempt.objects.count() == 0
    advance(150)
    (first,) = world.claim(by=a, ttl_seconds=60 * SLOWLY)  # 2: t=150
    assert (first.attempt_number, first.fence.claim_generation) == (1, 1)
    advance(59 * SLOWLY)
    with nothing_moves():
        assert world.claim(by=b, ttl_seconds=60 * SLOWLY) == []  # 3: t=209
    advance(2 * SLOWLY)
    (second,) = world.claim(by=b, ttl_seconds=60 * SLOWLY)  # t=211
    assert (second.attempt_number, second.fence.claim_generation) == (2, 2)
    assert isinstance(mailbox.send(second, by=b), Recorded)  # 4
    stage_result(attempt_id=second.fence.attempt_id, fence=second.fence, result="B", worker=b)
    world.commit(second, by=b, result="B")
    assert mailbox.x == 1
    with nothing_moves():  # 5: A wakes
        for answer in (
            prepare(first, by=a),
            mailbox.send(first, by=a),
            world.try_commit(first, by=a, result="A"),
        ):
            assert isinstance(answer, Refusal)
            assert answer.outcome is Outcome.FENCED
        assert world.claim(by=a, ttl_seconds=60 * SLOWLY) == []
    assert mailbox.x == 1
    assert Attempt.objects.count() == 2
    assert CanonicalCommit.objects.get().result == '"B"'
    assert world.run_row(run).state == "COMMITTED"


def test_c01_6_a_run_of_six_hours_stays_its_owners() -> None:
    a, b = world.worker(name="A"), world.worker(name="B")
    world.submit(node("T2"))
    claim = world.claim_one(by=a, ttl_seconds=60)
    renewal = Renewal(claim.fence.attempt_id, claim.fence, claim.owner, 60)
    for turn in range(1080):  # every 20 s for 6 h
        advance(20)
        (answer,) = renew_leases(items=[renewal], worker=a)
        assert isinstance(answer, Renewed)
        assert answer.lease_seconds == 60
        if turn % 60 == 0:
            assert world.claim(by=b) == []
    attempt = Attempt.objects.get()
    assert attempt.renewals == 1080
    assert attempt.lease_expires_at - attempt.started_at >= dt.timedelta(hours=6, seconds=60)
    world.commit(claim, by=a)


def test_c01_end_a_longest_run_is_a_stated_reason_never_a_silent_second_delivery() -> None:
    """With the maximum hold at 6 h the renewal says so, and the task is taken over only once the lease has run out."""
    world.queue(name="short", max_lease_seconds=21_600)
    a, b = (world.worker(name=name, queues=("short",)) for name in ("A", "B"))
    world.submit(node("T"), queue_name="short")
    (claim,) = world.claim(by=a, queue_name="short")
    renewal = Renewal(claim.fence.attempt_id, claim.fence, claim.owner, 300)
    while True:
        advance(290)
        (answer,) = renew_leases(items=[renewal], worker=a)
        if isinstance(answer, Refusal):
            break
    assert answer.outcome is Outcome.LEASE_LIMIT
    advance(300)
    (taken,) = world.claim(by=b, queue_name="short")
    assert taken.fence.claim_generation == 2
