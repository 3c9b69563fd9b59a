"""What is read about tasks, runs, results and memory (contract 2, 6, 11): fixed numbers of queries."""

from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from coordinator import digests
from coordinator.actors import Worker
from coordinator.models import Blob
from coordinator.selectors.candidates import list_candidates
from coordinator.selectors.events import EventFilters, event_record, list_events
from coordinator.selectors.lineage import read_lineage
from coordinator.selectors.memory import find_fact, list_versions, memory_record
from coordinator.selectors.runs import RunFilters, list_runs, progress_of, read_graph, run_record
from coordinator.selectors.tasks import (
    TaskFilters,
    attempt_record,
    find_task,
    list_attempts,
    list_tasks,
    task_record,
)
from coordinator.services.cancels import cancel_task
from coordinator.services.commits import Committed, commit_results
from coordinator.services.grants import Claim
from coordinator.services.memory import MemoryWrite
from coordinator.services.revisions import Revised, revise_task
from tests import world
from tests.world import node

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]


@pytest.fixture(autouse=True)
def by() -> Worker:
    world.queue()
    return world.worker()


@contextmanager
def at_most(number: int) -> Iterator[None]:
    with CaptureQueriesContext(connection) as queries:
        yield
    assert len(queries) <= number, [query["sql"] for query in queries]


def remember(claimed: Claim, *, by: Worker, version: int, value: int) -> Committed:
    item = world.commit_item(claimed)
    text = str(value)
    write = MemoryWrite("facts", "k", version, text, digests.sha256(text.encode()))
    fields = {name: getattr(item, name) for name in item.__dataclass_fields__} | {
        "memory": (write,)
    }
    (answer,) = commit_results(items=[type(item)(**fields)], worker=by, queue=None)
    assert isinstance(answer, Committed), answer
    return answer


# --- lineage --------------------------------------------------------------------------------------


def test_lineage_leads_from_each_commit_to_those_it_was_made_of(by: Worker) -> None:
    run = world.submit(node("a"), node("b"), node("c", "a", "b"), node("d", "c"))
    commits = {
        name: world.finish(world.task_id(run, name), by=by).result_commit_id for name in "abc"
    }
    row = world.run_row(run)
    with at_most(2):
        lineage = read_lineage(row)
    assert lineage.run_id == run.run_id
    assert [commit.node_id for commit in lineage.commits] == ["a", "b", "c"]
    c = lineage.commits[2]
    assert [(parent["node_id"], parent["result_commit_id"]) for parent in c.parents] == [
        ("a", str(commits["a"])),
        ("b", str(commits["b"])),
    ]
    assert c.parents[0]["result_digest"] == lineage.commits[0].result_digest
    assert c.input_digest == world.current(run, "c").input_digest


def test_lineage_shows_what_a_revision_replaced(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    world.finish(world.task_id(run, "a"), by=by)
    new = revise_task(
        task_id=world.task_id(run, "a"),
        expected_state_version=3,
        input=2,
        reason="r",
        actor=world.operator(),
    )
    assert isinstance(new, Revised)
    second = world.finish(new.task_id, by=by).result_commit_id
    world.finish(world.task_id(run, "b"), by=by)
    commits = read_lineage(world.run_row(run)).commits
    assert [(commit.node_id, commit.revision, commit.superseded) for commit in commits] == [
        ("a", 1, True),
        ("a", 2, False),
        ("b", 1, False),
    ]
    assert [parent["result_commit_id"] for parent in commits[2].parents] == [str(second)]


def test_lineage_names_the_memory_that_a_commit_wrote(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    remember(world.claim_one(by=by), by=by, version=0, value=1)
    remember(world.claim_one(by=by), by=by, version=1, value=2)
    commits = read_lineage(world.run_row(run)).commits
    assert [[(fact.key, fact.version) for fact in commit.memory] for commit in commits] == [
        [("k", 1)],
        [("k", 2)],
    ]


# --- memory ---------------------------------------------------------------------------------------


def test_memory_is_read_at_its_newest_or_at_a_named_version(by: Worker) -> None:
    world.submit(node("a"), node("b", "a"))
    first = remember(world.claim_one(by=by), by=by, version=0, value=10)
    remember(world.claim_one(by=by), by=by, version=1, value=20)
    with at_most(1):
        newest = find_fact(namespace="facts", key="k")
        assert newest is not None
        told = memory_record(newest)
    assert (told.version, orjson.dumps(told.value)) == (2, b"20")
    old = find_fact(namespace="facts", key="k", version=1)
    assert old is not None
    assert (memory_record(old).result_commit_id, memory_record(old, with_value=False).value) == (
        first.result_commit_id,
        None,
    )
    assert [fact.version for fact in list_versions(namespace="facts", key="k")] == [2, 1]
    assert find_fact(namespace="facts", key="other") is None
    assert find_fact(namespace="facts", key="k", version=3) is None


# --- candidates -----------------------------------------------------------------------------------


def test_what_was_put_aside_stays_readable_beside_the_canonical_result(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    late = world.claim_one(by=by)
    world.stage(late, by=by, result="early")
    world.lapse(task)
    winner = world.claim_one(by=by, of=task)
    world.stage(late, by=by, result="too late")
    with world.guarded():
        Blob.objects.create(
            attempt_id=late.fence.attempt_id, name="log", digest="sha256:b", size_bytes=3, path="p"
        )
    committed = world.commit(winner, by=by, result="chosen")
    with at_most(3):
        found = list_candidates(task)
    assert [
        (orjson.dumps(each.result), each.canonical, each.canonical_candidate) for each in found
    ] == [
        (b'"chosen"', True, True),
        (b"null", False, False),
        (b'"too late"', False, False),
        (b'"early"', False, True),
    ]
    assert found[0].result_commit_id == committed.result_commit_id
    assert found[1].blob is not None
    assert (found[1].blob.name, found[1].blob.size_bytes) == ("log", 3)
    assert {each.attempt_state for each in found[1:]} <= {"EXPIRED", "FENCED"}
    assert all(each.result is None for each in list_candidates(task, with_results=False))


def test_a_staged_result_that_was_committed_is_one_candidate(by: Worker) -> None:
    world.submit()
    claimed = world.claim_one(by=by)
    world.stage(claimed, by=by, result="same")
    world.commit(claimed, by=by, result="same")
    assert len(list_candidates(claimed.fence.task_id)) == 1


# --- tasks, attempts, runs, events --------------------------------------------------------------------


def test_tasks_are_listed_newest_first_and_narrowed_by_each_filter(by: Worker) -> None:
    world.queue(name="q2")
    one = world.submit(node("a", kind="x"), node("b", "a"))
    two = world.submit(node("a", kind="y"), queue_name="q2")
    world.claim_one(by=by, owner="me")

    def found(**fields: object) -> list[str]:
        with at_most(1):
            tasks = [task_record(task) for task in list_tasks(TaskFilters(**fields))]  # type: ignore[arg-type]
        return [f"{task.queue}/{task.node_id}" for task in tasks]

    assert found() == ["q2/a", "q/b", "q/a"]
    assert found(queue="q") == ["q/b", "q/a"]
    assert found(queues=["q2"]) == ["q2/a"]
    assert found(state="CLAIMED") == ["q/a"]
    assert found(run_id=two.run_id) == ["q2/a"]
    assert found(kind="x") == ["q/a"]
    assert found(owner="me") == ["q/a"]
    assert found(node_id="b") == ["q/b"]
    older = list_tasks(TaskFilters()).filter(task_id__lt=two.tasks[0].task_id)
    assert [task.task_id for task in older] == [task.task_id for task in reversed(one.tasks)]


def test_a_task_is_read_in_the_contracts_words(by: Worker) -> None:
    run = world.submit(node("a", input={"b": 1, "a": 2}))
    claimed = world.claim_one(by=by)
    with at_most(1):
        task = find_task(world.task_id(run, "a"), with_input=True)
        assert task is not None
        told = orjson.loads(orjson.dumps(task_record(task, with_input=True)))
    assert told["input"] == {"a": 2, "b": 1}
    assert (told["run_id"], told["queue"]) == (str(run.run_id), "q")
    assert (told["attempt_id"], told["owner"]) == (str(claimed.fence.attempt_id), "worker-1")
    with at_most(1):
        bare = find_task(world.task_id(run, "a"), queues=["q"])
        assert bare is not None
        assert task_record(bare).input is None
    assert find_task(world.task_id(run, "a"), queues=["other"]) is None


def test_attempts_are_listed_with_their_usage(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    world.claim_one(by=by)
    world.lapse(task)
    world.claim_one(by=by, of=task, owner="second")
    with at_most(1):
        attempts = [attempt_record(attempt) for attempt in list_attempts(task)]
    assert [(each.claim_generation, each.state, each.owner) for each in attempts] == [
        (2, "STARTED", "second"),
        (1, "EXPIRED", "worker-1"),
    ]
    assert attempts[0].worker == "fleet-1"
    assert attempts[0].usage.cost_usd == 0


def test_runs_are_listed_with_their_progress_in_one_query_more(by: Worker) -> None:
    first = world.submit(node("a"), node("b", "a"), node("c"))
    second = world.submit(node("a"))
    world.finish(world.task_id(first, "a"), by=by)
    cancel_task(task_id=world.task_id(second, "a"), reason="r", actor=world.operator())
    revise_task(
        task_id=world.task_id(first, "c"),
        expected_state_version=1,
        input=2,
        reason="r",
        actor=world.operator(),
    )
    with at_most(2):
        runs = list(list_runs(RunFilters()))
        progress = progress_of(runs)
        records = [run_record(run, progress=progress[run.pk]) for run in runs]
    assert [(record.run_id, record.state, record.progress) for record in records] == [
        (second.run_id, "CANCELLED", {"CANCELLED": 1}),
        (first.run_id, "ACTIVE", {"COMMITTED": 1, "READY": 2}),
    ]
    assert [run.run_id for run in list_runs(RunFilters(state="ACTIVE"))] == [first.run_id]
    assert list(list_runs(RunFilters(queues=[]))) == []


def test_the_graph_shows_the_newest_task_of_each_node(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"), node("c", "a", "b"))
    revise_task(
        task_id=world.task_id(run, "b"),
        expected_state_version=1,
        input=2,
        reason="r",
        actor=world.operator(),
    )
    row = world.run_row(run)
    with at_most(2):
        graph = read_graph(row)
    assert sorted((each.node_id, each.revision, each.state) for each in graph.nodes) == [
        ("a", 1, "READY"),
        ("b", 2, "BLOCKED"),
        ("c", 1, "BLOCKED"),
    ]
    assert sorted((edge.parent, edge.child) for edge in graph.edges) == [
        ("a", "b"),
        ("a", "c"),
        ("b", "c"),
    ]


def test_events_are_read_newest_first_and_narrowed(by: Worker) -> None:
    run = world.submit()
    task = world.task_id(run, "a")
    world.finish(task, by=by)
    for _ in range(3):
        cancel_task(task_id=task, reason="late", actor=world.operator())
    with at_most(1):
        events = [event_record(event) for event in list_events(EventFilters(task_id=task))]
    assert [event.kind for event in events] == ["REFUSED", "COMMITTED", "CLAIMED", "SUBMITTED"]
    assert (events[0].repeats, events[0].actor) == (2, "operator:alice")
    assert [event.state_version for event in events] == [3, 3, 2, 1]
    assert [event.kind for event in list_events(EventFilters(refusals=True))] == ["REFUSED"]
    assert [event.kind for event in list_events(EventFilters(without_task=True))] == ["RUN_SETTLED"]
    assert [event.kind for event in list_events(EventFilters(kind="CLAIMED"))] == ["CLAIMED"]
    assert list(list_events(EventFilters(queues=["other"]))) == []
    attempt = list_attempts(task)[0].attempt_id
    assert {event.kind for event in list_events(EventFilters(attempt_id=attempt))} == {
        "CLAIMED",
        "COMMITTED",
    }


def test_reading_locks_nothing_and_writes_nothing(by: Worker) -> None:
    run = world.submit(node("a"), node("b", "a"))
    world.finish(world.task_id(run, "a"), by=by)
    row, before = world.run_row(run), world.fingerprint()
    with (
        world.holding("LOCK TABLE coordinator_task IN ROW EXCLUSIVE MODE"),
        world.holding_task(world.task_id(run, "a")),
        CaptureQueriesContext(connection) as queries,
    ):
        read_graph(row)
        read_lineage(row)
        list_candidates(world.task_id(run, "a"))
        list(list_tasks(TaskFilters(run_id=run.run_id)))
        progress_of([row])
    assert all(query["sql"].lstrip().startswith("SELECT") for query in queries)
    assert world.fingerprint() == before
