"""Claims, renewals, commits and sweeps at once: exactly one of them wins each task (contract 3, 4, 7)."""

import datetime as dt
from collections import Counter
from functools import partial
from typing import Any

import pytest
from django.db import connection

from coordinator.actors import Worker
from coordinator.clock import read_clock
from coordinator.models import Attempt, CanonicalCommit, Event, Queue
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.answers import RequestKey
from coordinator.services.claims import Claimed, claim_task, claim_tasks
from coordinator.services.commits import Committed
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, Renewed, renew_leases, sweep
from tests import world
from tests.history import check
from tests.races.crowd import at_once
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue(max_attempts=1000)


def test_eight_claimants_share_a_hundred_tasks_each_granted_once() -> None:
    run = world.submit(*(node(f"n{i}") for i in range(100)))
    worker = world.worker()

    def work() -> list[Claim]:
        mine: list[Claim] = []
        while True:
            got = world.claim(by=worker, limit=3)
            if not got and Attempt.objects.count() == 100:
                return mine
            mine += got

    granted = [claim for claims in at_once(*[work] * 8) for claim in claims]
    assert len(granted) == 100
    assert {claim.fence.task_id for claim in granted} == {task.task_id for task in run.tasks}
    assert {claim.fence.claim_generation for claim in granted} == {1}


def test_of_two_claims_of_one_task_by_id_one_is_granted() -> None:
    worker = world.worker()
    for _ in range(50):
        of = world.task_id(world.submit(), "a")
        claim = partial(
            claim_task,
            task_id=of,
            expected_state_version=1,
            scheduler_epoch=1,
            owner="me",
            worker=worker,
        )
        answers = at_once(claim, claim, claim)
        assert sum(isinstance(answer, Claim) for answer in answers) == 1
        assert {a.outcome for a in answers if isinstance(a, Refusal)} == {
            Outcome.STATE_VERSION_MISMATCH
        }


def test_a_claim_by_id_that_waited_judges_what_it_then_sees() -> None:
    """It looked before the wait, and the clock, the version and the state are those of after it."""
    of = world.task_id(world.submit(), "a")
    worker = world.worker()
    with world.holding_task(of) as holder:
        rival = world.Rival(
            partial(
                claim_task,
                task_id=of,
                expected_state_version=1,
                scheduler_epoch=1,
                owner="me",
                worker=worker,
            )
        )
        world.wait_until_blocked(rival.pid, by=holder.pid)
        holder.execute("SELECT set_config('tenure.point', 'test', true)")
        holder.execute(
            "UPDATE coordinator_task SET state = 'CANCELLED', state_version = 2, cancel_generation = 1,"
            " claimable_at = NULL WHERE task_id = %s",
            [of],
        )
        holder.execute("COMMIT")
        answer = rival.result()
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.STATE_VERSION_MISMATCH
    assert answer.extra["task_state"] == "CANCELLED"
    _told_cancelled(of)


def _told_cancelled(of: Any) -> None:
    """The hand that cancelled above wrote no event; the story's end asks for one."""
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_event (kind, task_id, actor, request_id, at, data, repeats, state_version)"
            " VALUES ('CANCELLED', %s, 'test', '', clock_timestamp(), '{}', 0, 2)",
            [of],
        )


def test_a_claim_passes_by_what_another_transaction_holds() -> None:
    """SKIP LOCKED: a task whose commit or renewal is under way keeps nobody from the others."""
    run = world.submit(node("held", priority=9), node("free"))
    worker = world.worker()
    with world.holding_task(world.task_id(run, "held")):
        rival = world.Rival(partial(world.claim, by=worker, limit=5))
        assert [claim.node_id for claim in rival.result()] == ["free"]
    assert [claim.node_id for claim in world.claim(by=worker, limit=5)] == ["held"]


def test_the_clock_is_read_after_the_wait_for_the_lock() -> None:
    """A lease is counted from when it was renewed, not from when that was asked for; so is a commit's instant."""
    worker = world.worker()
    world.submit(node("a"), node("b"))
    first, second = world.claim(by=worker, limit=2)
    renewal = Renewal(first.fence.attempt_id, first.fence, first.owner, 100)
    for of, call in (
        (first, partial(renew_leases, items=[renewal], worker=worker)),
        (second, partial(world.try_commit, second, by=worker)),
    ):
        with world.holding_task(of.fence.task_id) as holder:
            rival: world.Rival[Any] = world.Rival(call)
            world.wait_until_blocked(rival.pid, by=holder.pid)
            released = read_clock()
            holder.release()
            rival.result()
        if of is first:
            expires = world.task(of.fence.task_id).lease_expires_at
            assert expires is not None
            assert expires >= released + dt.timedelta(seconds=100)
        else:
            assert CanonicalCommit.objects.get().committed_at >= released


def test_a_late_renewal_and_a_take_over_never_both_win() -> None:
    old_worker, new_worker = world.worker(), world.worker(name="fleet-2")
    seen: Counter[str] = Counter()
    for _ in range(100):
        world.submit()
        old = world.claim_one(by=old_worker)
        world.lapse(old.fence.task_id, seconds_ago=0.001)

        def renew(old: Claim = old) -> Any:
            return renew_leases(
                items=[Renewal(old.fence.attempt_id, old.fence, old.owner, 300)], worker=old_worker
            )[0]

        renewed, claimed = at_once(renew, lambda: world.claim(by=new_worker))
        assert isinstance(renewed, Renewed) != bool(claimed), (renewed, claimed)
        seen["renewed" if isinstance(renewed, Renewed) else "taken over"] += 1
        holder = world.task(old.fence.task_id)
        assert holder.attempt_id == (claimed[0] if claimed else old).fence.attempt_id
        assert holder.lease_expires_at == (
            claimed[0].lease_expires_at if claimed else renewed.lease_expires_at
        )
        world.commit(claimed[0], by=new_worker) if claimed else world.commit(old, by=old_worker)
    assert sum(seen.values()) == 100


def test_an_old_owners_commit_and_a_take_over_never_both_win() -> None:
    old_worker, new_worker = world.worker(), world.worker(name="fleet-2")
    for _ in range(100):
        run = world.submit(node("a"), node("b", "a", kind="after"))
        old = world.claim_one(by=old_worker, of=world.task_id(run, "a"))
        world.lapse(old.fence.task_id, seconds_ago=0.001)
        answers: list[Any] = at_once(
            partial(world.try_commit, old, by=old_worker),
            partial(world.claim, by=new_worker, kinds=["step"]),
        )
        committed, claimed = answers
        assert isinstance(committed, Committed) != bool(claimed), (committed, claimed)
        if claimed:
            world.commit(claimed[0], by=new_worker)
        assert Event.objects.filter(kind="UNBLOCKED", task_id=world.task_id(run, "b")).count() == 1
        assert CanonicalCommit.objects.get(task_id=old.fence.task_id).attempt_id == (
            (claimed[0] if claimed else old).fence.attempt_id
        )


def test_a_commit_that_waited_through_a_take_over_is_fenced() -> None:
    """The old owner's commit is let in by the queue and then waits for the row that the successor holds."""
    old_worker, new_worker = world.worker(), world.worker(name="fleet-2")
    world.submit()
    old = world.claim_one(by=old_worker)
    world.lapse(old.fence.task_id)
    with world.holding_task(old.fence.task_id) as holder:
        taking = world.Rival(
            partial(
                claim_task,
                task_id=old.fence.task_id,
                expected_state_version=old.state_version,
                scheduler_epoch=1,
                owner="me",
                worker=new_worker,
            )
        )
        world.wait_until_blocked(taking.pid, by=holder.pid)
        late = world.Rival(partial(world.try_commit, old, by=old_worker))
        world.wait_until_blocked(late.pid)
        holder.release()
        new, answer = taking.result(), late.result()
    assert isinstance(new, Claim)
    assert isinstance(answer, Refusal)
    assert answer.outcome is Outcome.FENCED
    world.commit(new, by=new_worker)


def test_the_same_claim_sent_twice_at_once_is_granted_once() -> None:
    """A client that gave up waiting sends again while the first request is still under way."""
    worker = world.worker()
    for turn in range(30):
        world.submit(node("a"), node("b"))
        request = RequestKey("fleet-1", f"key-{turn}", "body")
        answers = at_once(
            *[
                partial(
                    claim_tasks,
                    queue="q",
                    worker=worker,
                    scheduler_epoch=1,
                    owner="me",
                    limit=2,
                    request=request,
                )
            ]
            * 3
        )
        granted = [answer for answer in answers if isinstance(answer, Claimed)]
        assert sorted(answer.replayed for answer in granted) == [False, True, True]
        fences = [sorted(str(c.fence) for c in answer.claims) for answer in granted]
        assert fences[0] == fences[1] == fences[2]
        assert len(fences[0]) == 2
    assert Attempt.objects.count() == 60


def test_the_same_commit_sent_many_times_at_once_is_one_commit() -> None:
    worker = world.worker()
    for _ in range(30):
        run = world.submit(node("a"), node("b", "a", kind="after"))
        claim = world.claim_one(by=worker, of=world.task_id(run, "a"))
        answers = at_once(*[partial(world.try_commit, claim, by=worker)] * 4)
        commits = [answer for answer in answers if isinstance(answer, Committed)]
        assert len(commits) == 4
        assert sorted(commit.replayed for commit in commits) == [False, True, True, True]
        assert len({commit.result_commit_id for commit in commits}) == 1
        assert all(commit.released == ["b"] for commit in commits)


def test_two_parents_at_once_release_their_child_once() -> None:
    worker = world.worker()
    for _ in range(100):
        run = world.submit(node("a"), node("b"), node("c", "a", "b", kind="after"))
        first, second = world.claim(by=worker, limit=2, kinds=["step"])
        answers = at_once(
            partial(world.try_commit, first, by=worker),
            partial(world.try_commit, second, by=worker),
        )
        released = [a.released for a in answers if isinstance(a, Committed)]
        assert sorted(released) == [[], ["c"]]
        assert world.current(run, "c").state == "READY"


# --- sweeps -------------------------------------------------------------------------------------


def lapsed_tasks(count: int, *, by: Worker) -> list[Claim]:
    world.submit(*(node(f"n{i}") for i in range(count)))
    claims = world.claim(by=by, limit=count)
    with world.guarded(), connection.cursor() as cursor:
        for table in ("task", "attempt"):
            cursor.execute(
                f"UPDATE coordinator_{table} SET lease_expires_at = clock_timestamp() - interval '1 second'"
            )
    return claims


def test_sweeps_at_once_mark_each_lapsed_lease_once() -> None:
    lapsed_tasks(60, by=world.worker())
    for _ in range(5):
        marked = at_once(*[sweep] * 6)
        assert sum(sum(each.values()) for each in marked) == 60
        check()
        with world.guarded(), connection.cursor() as cursor:
            cursor.execute("UPDATE coordinator_task SET claimable_at = NULL")


def test_a_sweep_with_an_old_look_marks_nothing_that_was_renewed_meanwhile() -> None:
    """Two sweeps have seen the lapsed rows; before they write, the owner renews. Neither may write its old look.

    The sweep's own statement is run by hand up to its look, and the rest after the renewal.
    """
    worker = world.worker()
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id)
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as renewing:
        renewing.execute(
            "UPDATE coordinator_task SET lease_expires_at = clock_timestamp() + interval '1 hour'"
        )
        marking = [
            world.Rival(
                partial(
                    _mark_from_an_old_look,
                    "UPDATE coordinator_task t SET claimable_at = t.lease_expires_at"
                    " WHERE t.task_id = %s AND t.state = 'CLAIMED' AND t.claimable_at IS NULL"
                    " AND t.lease_expires_at <= clock_timestamp()",
                    claim,
                )
            )
            for _ in range(2)
        ]
        world.wait_until_blocked(*(rival.pid for rival in marking))
        assert sweep() == {}  # the service itself doesn't even wait for the row
        renewing.execute("COMMIT")
        assert [rival.result() for rival in marking] == [0, 0]
    assert world.task(claim.fence.task_id).claimable_at is None
    assert world.claim(by=worker) == []


def _mark_from_an_old_look(sql: str, claim: Claim) -> int:
    with world.guarded("sweep"), connection.cursor() as cursor:
        cursor.execute(sql, [claim.fence.task_id])
        return int(cursor.rowcount)


def test_sweeps_renewals_and_take_overs_at_once_leave_no_live_lease_reclaimable() -> None:
    worker = world.worker()
    claims = lapsed_tasks(40, by=worker)
    other = world.worker(name="fleet-2")

    def renew() -> list[Any]:
        items = [Renewal(c.fence.attempt_id, c.fence, c.owner, 300) for c in claims[::2]]
        return list(renew_leases(items=items, worker=worker))

    def take() -> list[Any]:
        return list(world.claim(by=other, limit=10, ttl_seconds=300))

    def mark() -> list[Any]:
        return list(sweep(limit=7).values())

    answers = at_once(renew, take, mark, take, mark, renew, take, mark)
    renewed = {
        claim.fence.task_id
        for claim, answer in zip(claims[::2], answers[0], strict=True)
        if isinstance(answer, Renewed)
    }
    taken = [claim.fence.task_id for index in (1, 3, 6) for claim in answers[index]]
    assert len(taken) == len(set(taken))
    assert not renewed & set(taken)
