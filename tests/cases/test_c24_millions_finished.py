"""C24 — millions of finished rows slow the page, then the queue.

Here with thousands on a real table, told by the rows that PostgreSQL reads: what does not grow from some thousand to
eight times as many does not grow to five million. `python -m bench.millions` measures the milliseconds beside millions.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, Final
from uuid import UUID

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from bench.finished import make_finished
from coordinator.actors import Worker
from coordinator.models import Run, Task
from coordinator.selectors import console_counts, console_tasks, task_filters
from coordinator.selectors.console_tasks import PAGE_SIZE, list_tasks
from coordinator.selectors.task_filters import TaskFilter
from coordinator.services.pruning import Pace, prune
from coordinator.states import SET_ASIDE_TASK, TaskState
from tests import counted, world
from tests.api import callers
from tests.console.scene import any_time, person
from tests.emptying import make_anew

pytestmark = pytest.mark.django_db(transaction=True)

QUEUE: Final = "bench"
FEW, MANY = 2_000, 16_000
OPEN, RUNNING = 60, 5
#: Counts, and looks without an index, stop here in this test, as they stop at a larger number beside millions.
CAP: Final = 1_000
#: What a look at the catalogue, another page of an index or a dead row may add.
SLACK: Final = 60
TABLES: Final = ("task", "attempt", "canonicalcommit", "run", "event", "queue")


@dataclass(frozen=True, slots=True)
class Place:
    """Where bench/finished.py makes its rows: in the database of the test."""

    @contextmanager
    def connect(self) -> Iterator[Any]:
        told = connection.get_connection_params()
        wanted = {
            name: told[name]
            for name in ("dbname", "user", "host", "port", "password")
            if told.get(name)
        }
        with psycopg.connect(**wanted, autocommit=True) as opened:
            opened.execute("SELECT set_config('tenure.point', 'bench', false)")
            yield opened


@pytest.fixture
def by(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Worker:
    """A fleet of a queue with open and running tasks."""
    monkeypatch.setattr(console_counts.capped_counts, "__kwdefaults__", {"cap": CAP})
    monkeypatch.setattr(task_filters, "STRETCH", CAP)
    make_anew(
        *TABLES
    )  # what the planner knows of them, and how many pages they have, is the same each time
    world.queue(name=QUEUE, retry_backoff_seconds=0)
    fleet = world.worker(queues=(QUEUE,))
    nodes = [world.node(f"open {number}", kind="open") for number in range(OPEN + RUNNING)]
    world.submit(*nodes, queue_name=QUEUE)
    for _ in range(RUNNING):
        world.claim_one(by=fleet, queue_name=QUEUE, ttl_seconds=600)
    counted.alone()
    return fleet


@pytest.fixture
def console(client: Client, by: Worker) -> Client:
    user = person("olga", "operator")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def finish_until(count: int) -> None:
    make_finished(Place(), count - Task.objects.filter(state=TaskState.COMMITTED).count())  # type: ignore[arg-type]


def rows_read(act: Callable[[], object]) -> int:
    return counted.rows_read(act, tables=TABLES)


def least_read(look: Callable[[], object]) -> int:
    return counted.least_rows_read(look, tables=TABLES)


def scans() -> int:
    return counted.scans(tables=("task", "attempt", "canonicalcommit"))


def test_c24_a_claim_and_a_commit_read_the_same_rows_beside_eight_times_as_many(by: Worker) -> None:
    def cycle() -> None:
        world.commit(world.claim_one(by=by, queue_name=QUEUE), by=by)

    finish_until(FEW)
    cycle()  # what is prepared once
    few = least_read(cycle)
    finish_until(MANY)
    cycle()
    before = scans()
    many = least_read(cycle)
    assert many <= few + SLACK
    assert scans() == before


LISTS: Final = (
    "/tasks",
    *(f"/tasks?state={state}" for state in TaskState),
    *(f"/tasks?queue={QUEUE}&state={state}" for state in TaskState),
    "/runs",
    "/queues",
    "/",
)


def test_c24_no_list_reads_more_and_counts_stop_at_their_bound(console: Client) -> None:
    finish_until(FEW)

    def costs() -> dict[str, int]:
        for address in LISTS:
            console.get(address)
        return {address: least_read(partial(console.get, address)) for address in LISTS}

    few = costs()
    finish_until(MANY)
    many = costs()
    grown = {at: (few[at], many[at]) for at in LISTS if many[at] > few[at] + SLACK}
    assert grown == {}
    assert {
        at: count for at, count in many.items() if count >= MANY
    } == {}  # none reads a whole table
    page = console.get("/tasks?state=COMMITTED").content.decode()
    assert Task.objects.filter(state=TaskState.COMMITTED).count() > CAP
    assert "10\u202f000+" in page or f"{CAP + 1:,}".replace(",", "\u202f") in page


@pytest.mark.parametrize("queue", ["", QUEUE])
def test_c24_tasks_that_wait_are_found_behind_all_that_has_finished_since(
    by: Worker, queue: str
) -> None:
    world.submit(*[world.node(f"more {n}") for n in range(FEW)], queue_name=QUEUE)
    finish_until(2 * FEW)
    waiting = TaskFilter(state=TaskState.READY, queue=queue)
    pages: list[Any] = []
    assert rows_read(lambda: pages.append(list_tasks(waiting))) < 5 * PAGE_SIZE + SLACK
    (first,) = pages
    assert (
        rows_read(lambda: pages.append(list_tasks(waiting, before=first.older)))
        < 5 * PAGE_SIZE + SLACK
    )
    newest = Task.objects.filter(state=TaskState.READY).order_by("-task_id")
    expected = list(newest.values_list("task_id", flat=True)[: 2 * PAGE_SIZE])
    assert [row.task_id for page in pages for row in page.rows] == expected
    back: Any = list_tasks(waiting, after=pages[1].rows[0].task_id)
    assert back.rows == first.rows
    assert least_read(lambda: console_tasks.count_tasks(waiting)) < 5 * CAP
    caller = callers.person("viewer")
    listed = f"/api/v1/tasks?state=READY&limit={PAGE_SIZE}" + (f"&queue={queue}" if queue else "")
    assert told_by_api(listed, caller) == (expected[:PAGE_SIZE], expected[PAGE_SIZE:])
    assert least_read(partial(told_by_api, listed, caller)) < 9 * PAGE_SIZE + SLACK


def told_by_api(address: str, caller: callers.Caller) -> tuple[list[UUID], list[UUID]]:
    """The ids of a page of the API's list and of the next one, which names the first as its previous."""
    headers = {"Authorization": f"Bearer {caller.token}"}
    page = Client().get(address, headers=headers).json()
    after = Client().get(page["next"], headers=headers).json()
    back = Client().get(after["previous"], headers=headers).json()
    assert back["results"] == page["results"]
    first, second = ([UUID(task["task_id"]) for task in told["results"]] for told in (page, after))
    return first, second


def test_c24_a_queues_failures_are_found_at_once_behind_its_own_successes_and_other_failures(
    by: Worker,
) -> None:
    """Each state in turn that a task keeps until a person looks at it; the newer ones are all of another queue."""
    world.queue(name="noisy")
    own = [world.node(f"own {n}") for n in range(OPEN)]
    others = [world.node(f"other {n}") for n in range(FEW)]
    run, noise = world.submit(*own, queue_name=QUEUE), world.submit(*others, queue_name="noisy")
    finish_until(2 * FEW)
    ordered = sorted((task.task_id for task in run.tasks), reverse=True)
    expected, more = ordered[:PAGE_SIZE], ordered[PAGE_SIZE:]
    caller = callers.person("viewer")
    for state in sorted(SET_ASIDE_TASK):
        with any_time() as cursor:
            cursor.execute(
                "UPDATE coordinator_task SET state = %s, claimable_at = NULL WHERE task_id = ANY(%s)",
                [state, [task.task_id for task in (*run.tasks, *noise.tasks)]],
            )
            cursor.execute("ANALYZE coordinator_task")
        wanted = TaskFilter(state=state, queue=QUEUE)
        reads = least_read(partial(list_tasks, wanted))
        page: Any = list_tasks(wanted)
        assert [row.task_id for row in page.rows] == expected, state
        back: Any = list_tasks(wanted, after=expected[9])
        assert [row.task_id for row in back.rows] == expected[:9], state
        listed = f"/api/v1/tasks?queue={QUEUE}&state={state}&limit={PAGE_SIZE}"
        assert told_by_api(listed, caller) == (expected, more), state
        reads = max(reads, least_read(partial(told_by_api, listed, caller)))
        assert reads < 5 * PAGE_SIZE + SLACK, (state, reads)


@pytest.mark.parametrize(("narrowed", "rares"), [("kind=rare", [2, 1, 0]), ("node_id=rare+1", [1])])
def test_c24_the_apis_list_sifts_a_stretch_at_a_time_and_goes_on_behind_it(
    by: Worker, narrowed: str, rares: list[int]
) -> None:
    nodes = [world.node(f"rare {n}", kind="rare") for n in range(3)]
    run = world.submit(*nodes, queue_name=QUEUE)
    finish_until(3 * CAP)
    caller = callers.person("viewer")
    there = walked(f"/api/v1/tasks?{narrowed}&limit=2", "next", caller)
    back = walked(there[-1][0], "previous", caller)
    # Three stretches of others, and what was asked for.
    assert [len(ids) for _, ids in there][:3] == [0, 0, 0]
    wanted = [world.task_id(run, f"rare {n}") for n in rares]
    assert [task_id for _, ids in there for task_id in ids] == wanted
    assert [task_id for _, ids in reversed(back) for task_id in ids] == wanted


def walked(address: str, link: str, caller: callers.Caller) -> list[tuple[str, list[UUID]]]:
    """Each page's address and ids, none of which costs more than to look through one stretch twice."""
    pages: list[tuple[str, list[UUID]]] = []
    asked: str | None = address
    while asked:
        assert len(pages) < 10
        page = one_page(asked, caller)
        pages.append((asked, [UUID(task["task_id"]) for task in page["results"]]))
        assert least_read(partial(one_page, asked, caller)) < 2 * CAP + SLACK
        asked = page[link]
    return pages


def one_page(address: str, caller: callers.Caller) -> Any:
    return Client().get(address, headers={"Authorization": f"Bearer {caller.token}"}).json()


def test_c24_a_page_far_down_reads_what_the_first_one_reads(console: Client) -> None:
    finish_until(6_000)
    wanted = TaskFilter(state=TaskState.COMMITTED)
    seen, cursors = set[UUID](), list[UUID | None]([None])
    for _ in range(100):
        page: Any = list_tasks(wanted, before=cursors[-1])
        rows = {row.task_id for row in page.rows}
        assert len(rows) == PAGE_SIZE
        assert not rows & seen
        seen |= rows
        cursors.append(page.older)
    first, deep = (f"/tasks?state=COMMITTED&before={cursors[depth]}" for depth in (1, 100))
    console.get(first)
    costs = [least_read(partial(console.get, address)) for address in (first, deep)]
    assert costs[1] <= 2 * costs[0]


def test_c24_a_count_that_takes_too_long_leaves_the_page_standing(
    console: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: Any, **__: Any) -> dict[str, int]:
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '50ms'")
            try:
                cursor.execute("SELECT pg_sleep(60)")
            finally:
                cursor.execute("RESET statement_timeout")
        return {}

    monkeypatch.setattr(console_tasks, "capped_counts", endless)
    answer = console.get("/tasks")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "The count is not available." in page
    assert page.count('href="/tasks/') >= OPEN - RUNNING - 10


def test_c24_clean_up_goes_in_bounded_batches_and_takes_nothing_that_is_open(
    by: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings, "KEEP_RUNS_DAYS", 30)
    finish_until(FEW)
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_run SET created_at = created_at - %s, finished_at = finished_at - %s",
            [timedelta(days=60)] * 2,
        )
        cursor.execute(
            "UPDATE coordinator_task SET created_at = created_at - %s", [timedelta(days=60)]
        )
    states = Task.objects.exclude(state=TaskState.COMMITTED).values_list("task_id", "state")
    unfinished = set(states)
    assert len(unfinished) == OPEN + RUNNING
    claims = 0
    for _ in range(100):
        told: Any = prune(actor=world.operator(), pace=Pace(batches=1))
        claim = world.claim_one(by=by, queue_name=QUEUE)  # nobody waits for the clean-up
        world.commit(claim, by=by)
        unfinished -= {(claim.fence.task_id, "READY")}
        claims += 1
        if told.complete:
            break
    assert unfinished <= set(states.all())
    assert Run.objects.filter(name="finished").count() == 0
    assert claims < 100
