"""Shared memory: written with a commit or not at all; a version that moved is a conflict (contract 11)."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import IntegrityError, connection

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import MemoryFact, MemoryKey, Queue
from coordinator.outcomes import Outcome, Refusal, Retry
from coordinator.services.commits import Committed, commit_results
from coordinator.services.grants import Claim
from coordinator.services.memory import MemoryWrite
from tests import world
from tests.history import nothing_moves
from tests.races.crowd import at_once
from tests.world import commit_item, node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def lane() -> Queue:
    return world.queue()


@pytest.fixture
def worker() -> Worker:
    return world.worker()


def write(key: str, value: Any, *, expected: int = 0, namespace: str = "plan") -> MemoryWrite:
    text = digests.canonical(value)
    return MemoryWrite(namespace, key, expected, text.decode(), digests.sha256(text))


def remember(claim: Claim, *writes: MemoryWrite, by: Worker) -> Committed | Refusal:
    (answer,) = commit_results(items=[replace(commit_item(claim), memory=writes)], worker=by)
    return answer


def claims(count: int, *, by: Worker) -> list[Claim]:
    world.submit(*(node(f"n{i}") for i in range(count)))
    return world.claim(by=by, limit=count)


def memory() -> dict[str, tuple[int, str]]:
    """The newest version and value of each key."""
    facts = MemoryFact.objects.select_related("memory_key").order_by("memory_key_id", "version")
    return {fact.memory_key.key: (fact.version, fact.value) for fact in facts}


def test_a_commit_writes_its_memory_and_the_next_version_builds_on_it(worker: Worker) -> None:
    first, second = claims(2, by=worker)
    assert isinstance(remember(first, write("goal", {"a": 1}), by=worker), Committed)
    assert memory() == {"goal": (1, '{"a":1}')}
    answer = remember(second, write("goal", [2], expected=1), write("note", "x"), by=worker)
    assert isinstance(answer, Committed)
    assert memory() == {"goal": (2, "[2]"), "note": (1, '"x"')}
    fact = MemoryFact.objects.get(version=2)
    assert fact.result_commit_id == answer.result_commit_id
    assert MemoryKey.objects.get(key="goal").version == 2


@pytest.mark.parametrize("expected", [0, 2, 10**12])
def test_a_version_that_moved_is_a_conflict_and_the_commit_has_not_happened(
    worker: Worker, expected: int
) -> None:
    first, second = claims(2, by=worker)
    remember(first, write("goal", 1), by=worker)
    with nothing_moves():
        told = remember(second, write("goal", 2, expected=expected), write("new", 1), by=worker)
    assert isinstance(told, Refusal)
    assert (told.outcome, told.retry) == (Outcome.MEMORY_CONFLICT, Retry.AFTER)
    assert told.extra["conflicts"] == [
        {"namespace": "plan", "key": "goal", "expected_version": expected, "version": 1}
    ]
    # The attempt is current all the same: with the version that it now knows it goes through.
    assert isinstance(remember(second, write("goal", 2, expected=1), by=worker), Committed)


def test_a_refused_commit_leaves_no_key_behind(worker: Worker) -> None:
    (old,) = claims(1, by=worker)
    world.lapse(old.fence.task_id)
    world.claim_one(by=worker)
    with nothing_moves():
        told = remember(old, write("goal", 1), by=worker)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.FENCED
    assert not MemoryKey.objects.exists()


def test_a_key_that_was_never_written_has_no_version_to_expect(worker: Worker) -> None:
    (claim,) = claims(1, by=worker)
    with nothing_moves():
        told = remember(claim, write("goal", 1, expected=1), by=worker)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.MEMORY_CONFLICT


def test_a_key_written_twice_in_one_commit_is_invalid(worker: Worker) -> None:
    (claim,) = claims(1, by=worker)
    with nothing_moves():
        told = remember(claim, write("goal", 1), write("goal", 2, expected=1), by=worker)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.INVALID
        assert told.errors[0].pointer == "/memory"


def test_a_batch_judges_in_order_each_by_what_the_ones_before_wrote(worker: Worker) -> None:
    first, second, third = claims(3, by=worker)
    answers = commit_results(
        items=[
            replace(commit_item(first), memory=(write("goal", 1),)),
            replace(commit_item(second), memory=(write("goal", 2),)),
            replace(commit_item(third), memory=(write("goal", 3, expected=1), write("b", 1))),
        ],
        worker=worker,
    )
    assert [answer.outcome for answer in answers] == ["COMMITTED", "MEMORY_CONFLICT", "COMMITTED"]
    assert memory() == {"goal": (2, "3"), "b": (1, "1")}
    assert world.task(second.fence.task_id).state == "CLAIMED"


def test_a_replayed_commit_writes_no_memory_again_and_another_one_is_refused(
    worker: Worker,
) -> None:
    (claim,) = claims(1, by=worker)
    first = remember(claim, write("a", 1), write("b", 1), by=worker)
    assert isinstance(first, Committed)
    with nothing_moves():
        assert remember(claim, write("b", 1), write("a", 1), by=worker) == replace(
            first, replayed=True
        )
        told = remember(claim, write("a", 2), by=worker)
        assert isinstance(told, Refusal)
        assert told.outcome is Outcome.ALREADY_COMMITTED


# --- at once ------------------------------------------------------------------------------------


def test_of_two_commits_at_once_from_one_version_one_writes(worker: Worker) -> None:
    for turn in range(40):
        first, second = claims(2, by=worker)
        answers = at_once(
            partial(remember, first, write("goal", "first", expected=turn), by=worker),
            partial(remember, second, write("goal", "second", expected=turn), by=worker),
        )
        assert sorted(str(a.outcome) for a in answers) == ["COMMITTED", "MEMORY_CONFLICT"]
        winner = "first" if isinstance(answers[0], Committed) else "second"
        assert memory()["goal"] == (turn + 1, f'"{winner}"')


def test_new_keys_made_at_once_in_either_order_are_each_written_once(worker: Worker) -> None:
    for turn in range(30):
        first, second = claims(2, by=worker)
        names = [f"{turn}-{i}" for i in range(6)]
        answers = at_once(
            partial(remember, first, *(write(name, 1) for name in names), by=worker),
            partial(remember, second, *(write(name, 2) for name in reversed(names)), by=worker),
        )
        assert sorted(str(a.outcome) for a in answers) == ["COMMITTED", "MEMORY_CONFLICT"]
        value = "1" if isinstance(answers[0], Committed) else "2"
        assert {memory()[name] for name in names} == {(1, value)}


def test_a_commit_waits_for_the_one_that_is_making_the_same_key(worker: Worker) -> None:
    (claim,) = claims(1, by=worker)
    with world.holding("SELECT set_config('tenure.point', 'test', true)") as maker:
        maker.execute(
            "INSERT INTO coordinator_memorykey (namespace, key, version) VALUES ('plan', 'goal', 0)"
        )
        rival = world.Rival(partial(remember, claim, write("goal", 1), by=worker))
        world.wait_until_blocked(rival.pid, by=maker.pid)
        maker.release()  # it was refused after all
        assert isinstance(rival.result(), Committed)
    assert memory() == {"goal": (1, "1")}


# --- by hand --------------------------------------------------------------------------------------


_SAME_VERSION = (
    "INSERT INTO coordinator_memoryfact (memory_key_id, version, value, value_digest, result_commit_id, created_at)"
    " SELECT memory_key_id, version, '2', value_digest, result_commit_id, created_at FROM coordinator_memoryfact"
)


def test_the_database_refuses_to_rewrite_a_fact_or_to_write_a_version_twice(worker: Worker) -> None:
    (claim,) = claims(1, by=worker)
    remember(claim, write("goal", 1), by=worker)
    wrongs = [
        "UPDATE coordinator_memoryfact SET value = '2'",
        "DELETE FROM coordinator_memoryfact",
        _SAME_VERSION,
    ]
    with nothing_moves():
        for wrong in wrongs:
            with pytest.raises(IntegrityError):
                with world.guarded(), connection.cursor() as cursor:
                    cursor.execute(wrong)
        with pytest.raises(IntegrityError, match="did not come through the guard"):
            with connection.cursor() as cursor:
                cursor.execute("UPDATE coordinator_memorykey SET version = 9")
