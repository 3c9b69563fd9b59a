"""The canonical commit: exactly one a task, with everything that follows from it, or nothing (contract 3, 7)."""

from dataclasses import replace
from typing import Any
from uuid import uuid4

import orjson
import pytest
from django.db import IntegrityError, connection

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Attempt, CanonicalCommit, Event, Queue
from coordinator.outcomes import Outcome, Reason, Refusal, Retry
from coordinator.services.commits import CommitItem, Committed, commit_results
from coordinator.services.endings import release_attempt
from coordinator.services.grants import Claim
from coordinator.services.leases import Renewal, renew_leases
from coordinator.services.results import NO_RESULT, stage_result
from coordinator.services.revisions import revise_task
from coordinator.services.usage import Usage
from coordinator.states import AttemptState, TaskState
from tests import world
from tests.history import nothing_moves
from tests.world import commit_item, node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def send(item: CommitItem, *, by: Worker) -> Committed | Refusal:
    (answer,) = commit_results(items=[item], worker=by)
    return answer


def refused(answer: Any, outcome: Outcome, reason: Reason | None = None) -> Refusal:
    assert isinstance(answer, Refusal), answer
    assert (answer.outcome, answer.reason) == (outcome, reason)
    return answer


def canonical(claim: Claim) -> CanonicalCommit:
    return CanonicalCommit.objects.get(task_id=claim.fence.task_id)


# --- what a commit does -------------------------------------------------------------------------


def test_a_commit_is_the_tasks_one_result_with_its_lineage(worker: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "b", "a"))
    parents = {n: world.finish(world.task_id(run, n), by=worker) for n in ("a", "b")}
    claim = world.claim_one(by=worker)
    answer = world.commit(claim, by=worker, result={"z": 1.0, "a": "é"})
    stored = canonical(claim)
    assert stored.result_commit_id == answer.result_commit_id
    assert stored.result == '{"a":"é","z":1}'
    assert stored.result_digest == digests.sha256('{"a":"é","z":1}'.encode())
    assert stored.input_digest == claim.input_digest
    assert (stored.claim_generation, stored.scheduler_epoch) == (1, 1)
    assert [(p["node_id"], p["result_commit_id"]) for p in _parents(stored)] == [
        (name, str(parents[name].result_commit_id)) for name in ("a", "b")
    ]
    task = world.task(claim.fence.task_id)
    assert (task.state, task.result_commit_id) == (TaskState.COMMITTED, answer.result_commit_id)
    assert (task.lease_expires_at, task.claimable_at) == (None, None)
    assert Attempt.objects.get(attempt_id=claim.fence.attempt_id).state == AttemptState.COMMITTED
    assert world.run_row(run).state == "COMMITTED"


def _parents(commit: CanonicalCommit) -> Any:
    told = commit.parents
    return orjson.loads(told) if isinstance(told, str) else told


def test_the_last_parent_releases_the_child_and_names_it(worker: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "a", "b"), node("d", "a"))
    assert world.finish(world.task_id(run, "a"), by=worker).released == ["d"]
    assert world.current(run, "c").state == TaskState.BLOCKED
    assert world.finish(world.task_id(run, "b"), by=worker).released == ["c"]
    child = world.current(run, "c")
    assert (child.state, child.pending_dependencies, child.state_version) == ("READY", 0, 2)
    assert child.ready_at == canonical_of(run, "b").committed_at
    assert Event.objects.filter(kind="UNBLOCKED", task_id=child.task_id).count() == 1


def canonical_of(run: Any, name: str) -> CanonicalCommit:
    return CanonicalCommit.objects.get(task_id=world.task_id(run, name))


def test_two_parents_in_one_batch_release_their_child_once(worker: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "a", "b"))
    first, second = world.claim(by=worker, limit=2)
    answers = commit_results(items=[commit_item(first), commit_item(second)], worker=worker)
    assert [a.released for a in answers if isinstance(a, Committed)] == [[], ["c"]]
    assert world.current(run, "c").state_version == 2


def test_a_result_may_be_any_json_even_null(worker: Worker) -> None:
    values: list[Any] = [None, 0, "", [], {}, [None], "\u2028", 1e300, -0.0]
    for value in values:
        world.submit()
        claim = world.claim_one(by=worker)
        world.commit(claim, by=worker, result=value) if value is not None else send(
            replace(commit_item(claim), result=None, result_digest=digests.sha256(b"null")),
            by=worker,
        )
        assert canonical(claim).result == digests.canonical(value).decode()


def test_a_staged_result_is_committed_by_its_digest_alone(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    staged = [
        stage_result(
            attempt_id=claim.fence.attempt_id, fence=claim.fence, result={"draft": n}, worker=worker
        )
        for n in range(3)
    ]
    digest = getattr(staged[1], "result_digest")  # noqa: B009
    item = replace(commit_item(claim), result=NO_RESULT, result_digest=digest)
    assert isinstance(send(item, by=worker), Committed)
    assert canonical(claim).result == '{"draft":1}'


def test_a_lapsed_lease_that_nobody_took_over_still_commits(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.lapse(claim.fence.task_id, seconds_ago=world.AN_HOUR)
    world.commit(claim, by=worker)


def test_usage_of_a_commit_stays_with_its_attempt(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    send(replace(commit_item(claim), usage=Usage(1, 2, 3.5, 0.25)), by=worker)
    attempt = Attempt.objects.get()
    assert (attempt.input_tokens, attempt.output_tokens, attempt.compute_seconds) == (1, 2, 3.5)
    assert float(attempt.cost_usd) == 0.25


# --- lost answers -------------------------------------------------------------------------------


def test_a_commit_whose_response_was_lost_is_answered_again(worker: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    claim = world.claim_one(by=worker, of=world.task_id(run, "a"))
    first = world.commit(claim, by=worker)
    for _ in range(3):
        with nothing_moves():
            again = send(commit_item(claim), by=worker)
        assert isinstance(again, Committed)
        assert again == replace(first, replayed=True)
    assert Event.objects.filter(kind="COMMITTED").count() == 1
    assert not Event.objects.filter(kind="REFUSED").exists()


def test_the_replay_outlives_a_bump_and_a_revision_of_the_task(worker: Worker) -> None:
    """The stored answer comes before all refusals, behind the credential check alone (contract 3)."""
    run = world.submit()
    claim = world.claim_one(by=worker)
    first = world.commit(claim, by=worker)
    Queue.objects.update(scheduler_epoch=9)
    revise_task(
        task_id=world.task_id(run, "a"),
        expected_state_version=3,
        input={"v": 2},
        reason="better",
        actor=world.operator(),
    )
    with nothing_moves():
        assert send(commit_item(claim), by=worker) == replace(first, replayed=True)
        refused(send(commit_item(claim), by=world.worker(name="thief")), Outcome.FORBIDDEN)


def test_a_committed_attempt_does_not_commit_another_result(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.commit(claim, by=worker)
    with nothing_moves():
        told = refused(
            send(commit_item(claim, result="another"), by=worker), Outcome.ALREADY_COMMITTED
        )
    assert told.retry is Retry.NEVER


def test_the_same_commit_twice_in_one_batch_is_one_commit_and_its_replay(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    first, second, third = commit_results(
        items=[commit_item(claim), commit_item(claim), commit_item(claim, result=1)], worker=worker
    )
    assert isinstance(first, Committed)
    assert second == replace(first, replayed=True)
    refused(third, Outcome.ALREADY_COMMITTED)
    assert CanonicalCommit.objects.count() == 1


# --- an old owner comes back --------------------------------------------------------------------


def test_an_old_owner_after_a_take_over_is_fenced_and_the_canonical_result_stays(
    worker: Worker,
) -> None:
    run = world.submit(node("a"), node("b", "a"))
    old = world.claim_one(by=worker, of=world.task_id(run, "a"))
    world.lapse(old.fence.task_id)
    other = world.worker(name="fleet-2")
    new = world.claim_one(by=other)
    with nothing_moves():  # while the successor works ...
        _comes_back(old, worker, Retry.RECLAIM)
    world.commit(new, by=other, result="the successor's")
    with nothing_moves():  # ... and after it has finished
        _comes_back(old, worker, Retry.NEVER)
    assert canonical(new).result == '"the successor\'s"'
    assert canonical(new).attempt_id == new.fence.attempt_id
    assert Event.objects.filter(kind="UNBLOCKED").count() == 1
    assert Attempt.objects.get(attempt_id=old.fence.attempt_id).state == AttemptState.FENCED
    staged = stage_result(
        attempt_id=old.fence.attempt_id, fence=old.fence, result="late", worker=worker
    )
    assert getattr(staged, "canonical_candidate") is False  # noqa: B009
    assert canonical(new).result == '"the successor\'s"'


def _comes_back(old: Claim, worker: Worker, retry: Retry) -> None:
    """Everything that would give it the task back is refused, and said why."""
    (renewed,) = renew_leases(
        items=[Renewal(old.fence.attempt_id, old.fence, old.owner)], worker=worker
    )
    committed = send(commit_item(old, result="the old owner's"), by=worker)
    released = release_attempt(attempt_id=old.fence.attempt_id, fence=old.fence, worker=worker)
    for answer in (renewed, committed, released):
        told = refused(answer, Outcome.FENCED, Reason.STALE_GENERATION)
        assert told.retry is retry
        assert told.evidence_recorded


def test_an_old_owner_with_the_successors_fence_is_forbidden(worker: Worker) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    world.lapse(old.fence.task_id)
    new = world.claim_one(by=world.worker(name="fleet-2"))
    with nothing_moves():
        refused(send(commit_item(new), by=worker), Outcome.FORBIDDEN)
        item = replace(commit_item(new), attempt_id=old.fence.attempt_id)
        refused(send(item, by=worker), Outcome.INVALID)
        item = replace(commit_item(old), fence=replace(new.fence, attempt_id=old.fence.attempt_id))
        refused(send(item, by=worker), Outcome.FENCED, Reason.STALE_GENERATION)


@pytest.mark.parametrize("ahead", ["claim_generation", "scheduler_epoch", "cancel_generation"])
def test_a_fence_from_the_future_is_refused_with_an_alarm(worker: Worker, ahead: str) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    forged = replace(claim.fence, **{ahead: getattr(claim.fence, ahead) + 1})
    with nothing_moves():
        told = refused(
            send(replace(commit_item(claim), fence=forged), by=worker), Outcome.FENCED, Reason.AHEAD
        )
    assert told.retry is Retry.NEVER
    alarm = Event.objects.get(kind="ALARM")
    assert alarm.attempt_id == claim.fence.attempt_id
    world.commit(claim, by=worker)  # the holder itself is none the worse for it


def test_another_input_is_stale(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    item = replace(commit_item(claim), input_digest=digests.sha256(b"another"))
    with nothing_moves():
        assert refused(send(item, by=worker), Outcome.STALE_INPUT).retry is Retry.NEVER
    world.commit(claim, by=worker)


def test_a_revised_task_refuses_its_old_holder_and_takes_the_new_ones(worker: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    old = world.claim_one(by=worker, of=world.task_id(run, "a"))
    revise_task(
        task_id=old.fence.task_id,
        expected_state_version=old.state_version,
        input={"v": 2},
        reason="better",
        actor=world.operator(),
    )
    with nothing_moves():
        refused(send(commit_item(old), by=worker), Outcome.STALE_INPUT)
    assert world.current(run, "b").state == TaskState.BLOCKED
    new = world.claim_one(by=worker)
    assert new.revision == 2
    assert world.commit(new, by=worker).released == ["b"]
    assert not CanonicalCommit.objects.filter(task_id=old.fence.task_id).exists()


@pytest.mark.parametrize("unknown", ["task", "attempt"])
def test_an_unknown_task_or_attempt_is_not_found(worker: Worker, unknown: str) -> None:
    world.submit()
    item = commit_item(world.claim_one(by=worker))
    item = (
        replace(item, fence=replace(item.fence, task_id=uuid4()))
        if unknown == "task"
        else replace(item, attempt_id=uuid4())
    )
    with nothing_moves():
        refused(send(item, by=worker), Outcome.NOT_FOUND)


# --- faults of the request itself ----------------------------------------------------------------


def test_a_result_that_is_not_what_its_digest_says_is_invalid(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    item = commit_item(claim)
    bad = {
        "/result_digest": replace(item, result_digest=digests.sha256(b"x")),
        "/result": replace(item, result=float("nan"), result_digest=None),
    }
    missing = [
        replace(item, result=NO_RESULT),
        replace(item, result=NO_RESULT, result_digest=None),
    ]
    with nothing_moves():
        for pointer, wrong in bad.items():
            assert refused(send(wrong, by=worker), Outcome.INVALID).errors[0].pointer == pointer
        for wrong in missing:
            told = refused(send(wrong, by=worker), Outcome.INVALID)
            assert told.errors[0].pointer == "/result_digest"
        told = refused(send(replace(item, result={"blob": "b"}), by=worker), Outcome.INVALID)
        assert told.errors[0].pointer == "/result/blob"
    world.commit(claim, by=worker)


# --- batches ------------------------------------------------------------------------------------


def test_one_bad_item_spoils_no_other_and_answers_keep_their_order(worker: Worker) -> None:
    run = world.submit(
        *(node(f"n{i}") for i in range(6)), node("end", *(f"n{i}" for i in range(6)))
    )
    claims = world.claim(by=worker, limit=6)
    world.lapse(claims[1].fence.task_id)
    taken = world.claim_one(by=world.worker(name="fleet-2"))
    items = [commit_item(claim) for claim in claims]
    items[2] = replace(items[2], result_digest=digests.sha256(b"wrong"))
    items[3] = replace(items[3], input_digest="sha256:" + 64 * "0")
    items[4] = replace(items[4], attempt_id=uuid4())
    answers = commit_results(items=items, worker=worker)
    assert [str(answer.outcome) for answer in answers] == [
        "COMMITTED", "FENCED", "INVALID", "STALE_INPUT", "NOT_FOUND", "COMMITTED",
    ]  # fmt: skip
    assert set(CanonicalCommit.objects.values_list("task_id", flat=True)) == {
        claims[0].fence.task_id, claims[5].fence.task_id,
    }  # fmt: skip
    assert world.current(run, "end").pending_dependencies == 4
    assert world.task(taken.fence.task_id).attempt_id == taken.fence.attempt_id


def test_a_batch_in_the_name_of_another_queue_is_not_found(worker: Worker) -> None:
    world.queue(name="other")
    world.submit()
    claim = world.claim_one(by=worker)
    with nothing_moves():
        (told,) = commit_results(items=[commit_item(claim)], worker=worker, queue="other")
        refused(told, Outcome.NOT_FOUND)


# --- attempted by raw SQL -------------------------------------------------------------------------

_BY_HAND = (
    "INSERT INTO coordinator_canonicalcommit (result_commit_id, task_id, attempt_id, claim_generation,"
    " scheduler_epoch, input_digest, result_digest, result, parents, committed_at)"
    " VALUES (gen_random_uuid(), %s, %s, %s, %s, %s, 'sha256:0', '0', '[]', clock_timestamp())"
)


def by_hand(claim: Claim, **changes: Any) -> None:
    fence = replace(claim.fence, **changes)
    with world.guarded(), connection.cursor() as cursor:
        cursor.execute(
            _BY_HAND,
            [fence.task_id, fence.attempt_id, fence.claim_generation, fence.scheduler_epoch, claim.input_digest],
        )  # fmt: skip


def test_the_database_refuses_a_second_canonical_commit(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.commit(claim, by=worker)
    with nothing_moves(), pytest.raises(IntegrityError, match="unique"):
        by_hand(claim)


@pytest.mark.parametrize(
    "changes",
    [{"claim_generation": 1}, {"claim_generation": 3}, {"scheduler_epoch": 2}, {"attempt_id": uuid4()}],
)  # fmt: skip
def test_the_database_refuses_a_commit_that_is_not_the_current_grants(
    worker: Worker, changes: dict[str, Any]
) -> None:
    world.submit()
    old = world.claim_one(by=worker)
    world.lapse(old.fence.task_id)
    new = world.claim_one(by=worker)
    with nothing_moves():
        with pytest.raises(IntegrityError, match="not its current attempt"):
            by_hand(new, **changes)
        with pytest.raises(IntegrityError, match="not its current attempt"):
            by_hand(old)


def test_the_database_refuses_to_change_or_remove_a_canonical_commit(worker: Worker) -> None:
    world.submit()
    claim = world.claim_one(by=worker)
    world.commit(claim, by=worker)
    wrongs = [
        "UPDATE coordinator_canonicalcommit SET result = '\"mine\"'",
        "DELETE FROM coordinator_canonicalcommit",
        "UPDATE coordinator_task SET result_commit_id = gen_random_uuid()",
        "UPDATE coordinator_task SET result_commit_id = NULL, state = 'READY', state_version = state_version + 1",
        "UPDATE coordinator_attempt SET state = 'FENCED'",
    ]
    with nothing_moves():
        for wrong in wrongs:
            with pytest.raises(IntegrityError):
                with world.guarded(), connection.cursor() as cursor:
                    cursor.execute(wrong)


def test_a_repeat_adds_no_usage(worker: Worker) -> None:
    world.submit()
    item = replace(world.commit_item(world.claim_one(by=worker)), usage=Usage(input_tokens=5))
    (first,) = commit_results(items=[item], worker=worker)
    (again,) = commit_results(items=[replace(item, usage=Usage(input_tokens=9))], worker=worker)
    assert isinstance(first, Committed)
    assert isinstance(again, Committed)
    assert again.replayed
    assert Attempt.objects.get().input_tokens == 5
