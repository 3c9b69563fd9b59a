"""Plans that are kept: made while the tables were small, they read no more rows once they are not.

Nothing analyzes in between, as in the first minute of a new server, or where the statistics are those of an idle hour.
What the planner believes decides how much time its plan takes, never how many rows a call reads.
"""

from collections.abc import Iterator
from typing import Final

import pytest
from django.db import connection

from coordinator import pipeline
from coordinator.actors import Worker
from coordinator.services.commits import CommitItem, commit_results
from coordinator.services.endings import fail_attempt, release_attempt
from coordinator.services.grants import Claim
from coordinator.services.graphs import NodeSpec
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.results import stage_result
from tests import world
from tests.counted import alone, rows_read
from tests.statistics import believe

pytestmark = pytest.mark.django_db(transaction=True)

OPEN, LEASED = 7_000, 2_000
#: What a single call may read. Its own rows are few; an index of some hundred rows may be read from end to end.
FEW = 1_000


@pytest.fixture
def by(transactional_db: None) -> Iterator[Worker]:
    """On a connection of its own, that has prepared nothing yet; the tables' statistics are left as they are."""
    world.queue(retry_backoff_seconds=0)
    with connection.cursor() as cursor:
        for table in ("task", "attempt", "event", "canonicalcommit"):
            cursor.execute(f"ALTER TABLE coordinator_{table} SET (autovacuum_enabled = off)")
    alone()
    yield world.worker()
    with connection.cursor() as cursor:
        for table in ("task", "attempt", "event", "canonicalcommit"):
            cursor.execute(f"ALTER TABLE coordinator_{table} RESET (autovacuum_enabled)")


def pairs(name: str, count: int) -> list[NodeSpec]:
    """Tasks, and as many that each wait for one of them."""
    return [
        each
        for number in range(count)
        for each in (
            world.node(f"{name} {number}"),
            world.node(f"{name} {number} after", f"{name} {number}", kind="child", priority=1),
        )
    ]


#: Rows and pages of each table when it was last looked at.
BELIEFS: Final = {
    "nothing": None,
    "an idle hour": (1, 3),
    "what a clean-up has left": (1_000, 60),
    "millions": (1, 1_000_000),
}


@pytest.mark.parametrize("belief", BELIEFS)
def test_no_call_of_a_worker_reads_more_beside_thousands_than_beside_none(
    by: Worker, monkeypatch: pytest.MonkeyPatch, belief: str
) -> None:
    claimed: list[Claim] = []

    def claim() -> None:
        claimed.append(world.claim_one(by=by))

    def claim_child() -> None:
        (child,) = world.claim(by=by, kinds=["child"])
        assert child.parents
        claimed.append(child)

    def renew() -> None:
        (answer,) = renew_leases(
            items=[Renewal(claimed[0].fence.attempt_id, claimed[0].fence, claimed[0].owner)],
            worker=by,
        )
        assert getattr(answer, "outcome", "") == "RENEWED"

    def commit() -> None:
        mine = claimed.pop()
        item = CommitItem(mine.fence.attempt_id, mine.fence, mine.input_digest, result={"n": 1})
        (answer,) = commit_results(items=[item], worker=by)
        assert getattr(answer, "outcome", "") == "COMMITTED"

    def stage() -> None:
        fence = claimed[0].fence
        stage_result(attempt_id=fence.attempt_id, fence=fence, result=1, worker=by)

    def release() -> None:
        fence = claimed.pop().fence
        release_attempt(attempt_id=fence.attempt_id, fence=fence, worker=by)

    def fail() -> None:
        fence = claimed.pop().fence
        fail_attempt(
            attempt_id=fence.attempt_id,
            fence=fence,
            error={"type": "E"},
            retryable=False,
            worker=by,
        )

    calls = (claim, renew, stage, commit, claim_child, commit, claim, release, claim, fail)
    if (told := BELIEFS[belief]) is not None:
        believe(pages=told[0], rows=told[1])
    world.submit(*pairs("first", 3))
    for each in calls:  # each plan is made for three tasks, and kept
        each()
    for part in range(OPEN // 1_000):
        world.submit(*pairs(f"open {part}", 500))
    for _ in range(LEASED // 100):
        assert len(world.claim(by=by, limit=100, kinds=["step"], ttl_seconds=300)) == 100
    monkeypatch.setattr(pipeline, "PLANS_LAST_TIMES", 0)  # they are old, and old at each round
    pipeline.plans_of(connection.connection).grow_old()
    read = {f"{place} {each.__name__}": rows_read(each) for place, each in enumerate(calls)}
    assert {name: rows for name, rows in read.items() if rows > FEW} == {}


def test_a_claim_keeps_to_the_order_of_its_index_whatever_the_statistics_say(by: Worker) -> None:
    for part in range(3):
        world.submit(*(world.node(f"open {part} {number}") for number in range(1_000)))
    alone()  # what comes next plans anew, beside thousands of tasks that no statistics tell of
    world.claim_one(by=by)
    assert rows_read(lambda: world.claim_one(by=by)) <= FEW
