"""The epoch is raised under full load: once a bump has returned, nothing of the old epoch lands (contract 4)."""

import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from coordinator.models import Attempt, CanonicalCommit, Event, Queue
from coordinator.outcomes import Outcome, Reason, Refusal
from coordinator.services.claims import claim_tasks
from coordinator.services.epochs import Bumped, bump_epoch
from tests import world
from tests.races.crowd import at_once, database_url
from tests.races.rival_process import Rounds
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

THREADS, PROCESSES, BUMPS, LOAD = 4, 2, 4, 400


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


def bump(expected: int) -> Bumped | Refusal:
    return bump_epoch(queue="q", expected_epoch=expected, reason="drill", actor=world.operator())


# --- under load ---------------------------------------------------------------------------------


class Process:
    """One rival process; `stop` gives what it was told."""

    def __init__(self, name: str) -> None:
        credential = world.worker(name=name).id
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.races.rival_process", str(credential), name],
            cwd=Path(__file__).resolve().parent.parent.parent,
            env={**os.environ, "DATABASE_URL": database_url(), "TENURE_DB_POOL_MAX": "4"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def until_ready(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == "ready"

    def stop(self) -> Counter[str]:
        told, _ = self._process.communicate(timeout=60)
        assert self._process.returncode == 0
        return Counter(json.loads(told))

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def load() -> Iterator[Callable[[], list[Counter[str]]]]:
    """Threads and processes that claim, renew and commit. Calling what this gives stops them and tells all."""
    stopping = threading.Event()
    told: list[Counter[str]] = []
    broken: list[BaseException] = []

    def work(rounds: Rounds) -> None:
        try:
            while not stopping.is_set():
                rounds.one()
            told.append(rounds.told)
        except BaseException as error:  # noqa: BLE001 - raised again below
            broken.append(error)
        finally:
            connection.close()

    processes = [Process(f"process-{i}") for i in range(PROCESSES)]
    threads = [
        threading.Thread(target=work, args=(Rounds(world.worker(name=f"thread-{i}")),), daemon=True)
        for i in range(THREADS)
    ]

    def stop() -> list[Counter[str]]:
        stopping.set()
        for thread in threads:
            thread.join(60)
        assert not broken, broken
        return told + [process.stop() for process in processes]

    try:
        for process in processes:
            process.until_ready()
        for thread in threads:
            thread.start()
        yield stop
    finally:
        stopping.set()
        for process in processes:
            process.end()


def until_commits(count: int) -> None:
    deadline = time.monotonic() + 60
    while CanonicalCommit.objects.count() < count:
        assert time.monotonic() < deadline, "the load makes no progress"
        world.submit(*(node(f"n{i}") for i in range(20)))


#: Facts of grants and commits with the transaction that wrote them. Rows of facts are never
#: rewritten, so that `xmin` is the writer. A transaction gets its number at its first write,
#: behind the gate: a smaller number than the bump's has committed before it.
WRITES = """
SELECT e.id, e.xmin::text::bigint, (e.data ->> 'scheduler_epoch')::bigint FROM coordinator_event e
WHERE e.kind IN ('CLAIMED', 'COMMITTED')
"""
BUMPED = """
SELECT e.id, e.xmin::text::bigint, (e.data ->> 'to')::bigint FROM coordinator_event e
WHERE e.kind = 'EPOCH_BUMPED' ORDER BY e.id
"""


def rows(sql: str) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def test_after_a_bump_has_returned_no_old_epoch_write_lands() -> None:
    returned: dict[int, int] = {}  # by new epoch: the newest fact when the bump had returned
    world.submit(*(node(f"n{i}") for i in range(200)))
    with load() as stop:
        for epoch in range(1, BUMPS + 1):
            until_commits(CanonicalCommit.objects.count() + LOAD // BUMPS)
            answer = bump(epoch)
            assert isinstance(answer, Bumped)
            assert answer.scheduler_epoch == epoch + 1
            returned[epoch + 1] = rows("SELECT max(id) FROM coordinator_event")[0][0]
        until_commits(CanonicalCommit.objects.count() + LOAD // BUMPS)
        told = stop()

    writes, bumps = rows(WRITES), rows(BUMPED)
    assert [new for _, _, new in bumps] == list(range(2, BUMPS + 2))
    for bump_id, bump_xid, new in bumps:
        for fact_id, xid, epoch in writes:
            # By ids, and by the order of the transactions: old before the bump, new after it.
            assert (fact_id < bump_id) == (xid < bump_xid) == (epoch < new), (fact_id, epoch, new)
        # Nor did anything of an older epoch appear after the bump had returned to its caller.
        assert not [
            epoch for fact_id, _, epoch in writes if fact_id > returned[new] and epoch < new
        ]
    _old_leases_ended_with_the_bump()

    # The proof is not empty: everybody worked, in every epoch, and everybody was refused.
    assert {epoch for _, _, epoch in writes} == set(range(1, BUMPS + 2))
    assert len(told) == THREADS + PROCESSES
    for each in told:
        assert each["commit COMMITTED"] > 0, told
        assert each["claim FENCED STALE_EPOCH"] >= BUMPS, told
    assert not [key for each in told for key in each if "AHEAD" in key or "GENERATION" in key], told


def _old_leases_ended_with_the_bump() -> None:
    """Nothing of an epoch was granted or renewed after the instant at which its bump held the gate."""
    assert not rows(
        "SELECT a.attempt_id FROM coordinator_attempt a JOIN coordinator_event e ON e.kind = 'EPOCH_BUMPED'"
        " AND (e.data ->> 'from')::bigint >= a.scheduler_epoch"
        " WHERE greatest(a.started_at, a.renewed_at[cardinality(a.renewed_at)]) > e.at"
    )
    assert not rows(
        "SELECT c.task_id FROM coordinator_canonicalcommit c JOIN coordinator_event e ON e.kind = 'EPOCH_BUMPED'"
        " AND (e.data ->> 'from')::bigint >= c.scheduler_epoch WHERE c.committed_at > e.at"
    )


# --- step by step -------------------------------------------------------------------------------


def test_a_bump_waits_for_a_commit_that_is_under_way_and_refuses_the_next() -> None:
    worker = world.worker()
    world.submit(node("a"), node("b"))
    first, second = world.claim(by=worker, limit=2)
    with world.holding_task(first.fence.task_id) as holder:
        committing = world.Rival(partial(world.try_commit, first, by=worker))
        world.wait_until_blocked(committing.pid, by=holder.pid)  # it holds the gate, shared
        bumping = world.Rival(partial(bump, 1))
        world.wait_until_blocked(bumping.pid, by=committing.pid)
        late = world.Rival(partial(world.try_commit, second, by=worker))
        world.wait_until_blocked(late.pid, by=bumping.pid)  # the bump is not starved
        holder.release()
        assert getattr(committing.result(), "outcome", "") == "COMMITTED"
        bumped, refused = bumping.result(), late.result()
    assert isinstance(bumped, Bumped)
    assert bumped.revoked == 1
    assert isinstance(refused, Refusal)
    assert (refused.outcome, refused.reason) == (Outcome.FENCED, Reason.STALE_EPOCH)


def test_a_claim_that_waited_for_a_bump_is_judged_by_the_new_epoch() -> None:
    world.submit()
    worker = world.worker()
    (queue_id,) = Queue.objects.values_list("id", flat=True)
    with world.holding("SELECT pg_advisory_xact_lock(1, %s)", [queue_id]) as bumping:
        claim = world.Rival(
            partial(
                claim_tasks, queue="q", worker=worker, scheduler_epoch=1, owner="me", ttl_seconds=60
            )
        )
        world.wait_until_blocked(claim.pid, by=bumping.pid)
        bumping.execute("UPDATE coordinator_queue SET scheduler_epoch = 2")
        bumping.execute("COMMIT")
        answer = claim.result()
    assert isinstance(answer, Refusal)
    assert (answer.outcome, answer.reason) == (Outcome.FENCED, Reason.STALE_EPOCH)
    assert Attempt.objects.count() == 0


def test_of_bumps_at_once_from_one_look_one_counts() -> None:
    for epoch in range(1, 11):
        answers = at_once(*[partial(bump, epoch)] * 4)
        assert sum(isinstance(answer, Bumped) for answer in answers) == 1
        assert {a.outcome for a in answers if isinstance(a, Refusal)} == {
            Outcome.STATE_VERSION_MISMATCH
        }
    assert world.epoch() == 11
    assert Event.objects.filter(kind="EPOCH_BUMPED").count() == 10
