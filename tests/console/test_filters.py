"""Lists: every filter is in the address, pages follow each other without a gap, faults are named."""

import re
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test import Client

from console.filters import id_range, wanted_tasks
from coordinator.selectors import console_counts, console_tasks
from coordinator.selectors.task_filters import TaskFilter, tasks_matching
from coordinator.services.revisions import revise_task
from coordinator.states import TaskState
from tests import world
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def shown(client: Client, address: str) -> list[str]:
    page = client.get(address).content.decode()
    return re.findall(r'<a href="/tasks/([0-9a-f-]{36})" data-row', page)


def link(client: Client, address: str, rel: str) -> str | None:
    page = client.get(address).content.decode()
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page)
    return found[1].replace("&amp;", "&") if found else None


def test_the_address_alone_says_what_is_shown(signed_in: Client, scene: Scene) -> None:
    run = scene.review.run_id
    expected = {
        f"/tasks?run={run}&state=FAILED": {str(scene.failed)},
        f"/tasks?run={run}&state=FAILED&kind=analyse&queue=review": {str(scene.failed)},
        "/tasks?owner=agent-3@build-02": {str(scene.held)},
        f"/tasks?q={scene.fenced}": {str(scene.fenced)},
        f"/tasks?q={str(scene.fenced)[:30]}": {str(scene.fenced)},
        "/tasks?q=services/leases": {str(scene.held)},
        "/tasks?node=analyse coordinator/fence": {str(scene.fenced)},
        "/tasks?queue=nightly": {str(scene.bumped)},
        "/tasks?state=BLOCKED&queue=nightly": set(),
    }
    assert {address: set(shown(signed_in, address)) for address in expected} == expected


def test_pages_follow_each_other_and_lead_back(signed_in: Client, scene: Scene) -> None:
    many = world.submit(
        *(world.node(f"n{number:03}") for number in range(120)), queue_name="review"
    )
    first = f"/tasks?run={many.run_id}"
    seen, address = [shown(signed_in, first)], link(signed_in, first, "next")
    addresses = [first]
    while address:
        addresses.append(address)
        seen.append(shown(signed_in, address))
        address = link(signed_in, address, "next")
    assert [len(rows) for rows in seen] == [50, 50, 20]
    assert len({row for rows in seen for row in rows}) == 120
    back = link(signed_in, addresses[-1], "prev")
    assert back is not None
    assert shown(signed_in, back) == seen[1]
    before_that = link(signed_in, back, "prev")
    assert before_that is not None
    assert shown(signed_in, before_that) == seen[0]
    assert link(signed_in, before_that, "prev") is None


def test_a_held_page_shows_the_same_rows_as_they_are_now(signed_in: Client, scene: Scene) -> None:
    before = shown(signed_in, "/tasks?state=READY")
    held = ",".join(UUID(row).hex for row in before)
    world.claim_one(by=scene.worker, of=UUID(before[0]), queue_name="review")
    answer = signed_in.get(f"/tasks?state=READY&held={held}", headers={"HX-Request": "true"})
    page = answer.content.decode()
    assert "<html" not in page
    assert "1 row has left this filter since it was loaded." in page
    assert re.findall(r'<a href="/tasks/([0-9a-f-]{36})" data-row', page) == before


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("state=DONE", "There is no such state."),
        ("run=abc", "Not a run&#x27;s id."),
        ("before=abc", ""),
        ("after='", ""),
        ("held=abc,,", ""),
        ("q=" + "x" * 5000, ""),
        ("owner=%ff%fe", ""),
    ],
)
def test_what_makes_no_sense_is_named_and_never_an_error(
    signed_in: Client, scene: Scene, query: str, told: str
) -> None:
    answer = signed_in.get(f"/tasks?{query}")
    assert answer.status_code == 200
    assert told in answer.content.decode()


def test_a_nul_character_names_nothing(signed_in: Client, scene: Scene) -> None:
    assert signed_in.get("/tasks?q=%00").status_code == 404


@pytest.mark.parametrize(
    "query", ["state=x", "before=-1", "after=99999999999999", "held=1,x", "queue=nowhere"]
)
def test_the_list_of_runs_takes_anything_too(signed_in: Client, scene: Scene, query: str) -> None:
    assert signed_in.get(f"/runs?{query}").status_code == 200


def test_counts_stop_at_their_cap(scene: Scene) -> None:
    counts = console_counts.capped_counts(
        {
            "all": tasks_matching(TaskFilter()),
            "none": tasks_matching(TaskFilter()).none(),
        },
        cap=3,
    )
    assert counts == {"all": 4, "none": 0}


def test_a_prefix_of_an_id_is_a_range() -> None:
    low, high = id_range("019ad5c2-7f") or (None, None)
    assert low == UUID("019ad5c2-7f00-0000-0000-000000000000")
    assert high == UUID("019ad5c2-7fff-ffff-ffff-ffffffffffff")
    assert id_range("019ad5c") is None
    assert id_range("not an id") is None


def test_a_filter_writes_itself_back_into_an_address() -> None:
    query: dict[str, Any] = {"state": "READY", "owner": "a b&c", "q": " x ", "unknown": "y"}
    wanted = wanted_tasks(query)
    assert wanted.link() == "?state=READY&owner=a+b%26c&q=x"
    assert wanted.link(state="") == "?owner=a+b%26c&q=x"


def test_a_filter_that_leads_through_too_many_rows_is_told(signed_in: Client, scene: Scene) -> None:
    """Proved with a lock that the query waits for: the database gives up, the page says what to do."""
    with world.holding("LOCK TABLE coordinator_task IN ACCESS EXCLUSIVE MODE"):
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '100ms'")
        answer = signed_in.get("/tasks?kind=rare")
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout")
    assert answer.status_code == 200
    assert "This filter leads through too many tasks." in answer.content.decode()


def test_a_filter_without_an_index_looks_through_a_stretch_and_says_how_far(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.queue(name="review")
    nodes = [
        world.node(f"n{number}", kind="rare" if number < 2 else "usual") for number in range(9)
    ]
    run = world.submit(*nodes, queue_name="review")
    monkeypatch.setattr("coordinator.selectors.task_filters.STRETCH", 4)
    first = signed_in.get("/tasks?kind=rare").content.decode()
    assert "No task matches this filter so far." in first
    assert "this page looked as far as" in first
    assert "Look further back" in first
    seen, address = [], "/tasks?kind=rare"
    for _ in range(3):
        seen += shown(signed_in, address)
        address = link(signed_in, address, "next") or ""
        if not address:
            break
    assert seen == [str(world.task_id(run, "n1")), str(world.task_id(run, "n0"))]
    assert not address
    assert "so far" not in signed_in.get("/tasks?kind=usual&queue=none").content.decode()


def test_the_counts_of_such_a_filter_are_of_its_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    world.queue(name="review")
    run = world.submit(*(world.node(f"n{n}", kind="rare") for n in range(6)), queue_name="review")
    oldest = world.task_id(run, "n0")
    world.claim_one(by=world.worker(queues=("review",)), of=oldest, queue_name="review")
    newest = max(task.task_id for task in run.tasks)
    wanted = TaskFilter(kind="rare")
    counts = console_tasks.count_tasks(wanted, newer_than=UUID(int=newest.int - 1))
    assert counts == {"READY": 5, "CLAIMED": 1, "total": 6, "new": 1}
    monkeypatch.setattr("coordinator.selectors.task_filters.STRETCH", 3)
    assert console_tasks.count_tasks(wanted) == {"READY": 3, "total": 3, "new": 0}
    asked = TaskFilter(kind="rare", state=TaskState.CLAIMED)
    assert console_tasks.count_tasks(asked) == {"READY": 3, "CLAIMED": 1, "total": 1, "new": 0}


def test_each_state_is_counted_and_found_by_its_index_whatever_was_asked() -> None:
    world.queue(name="review")
    run = world.submit(world.node("old"), world.node("other"), queue_name="review")
    revised: Any = revise_task(
        task_id=world.task_id(run, "old"),
        expected_state_version=1,
        input=2,
        reason="new",
        actor=world.operator(),
    )
    wanted = TaskFilter(state=TaskState.SUPERSEDED)
    assert not wanted.is_sifted
    told = {"READY": 2, "SUPERSEDED": 1, "total": 1}
    assert {
        name: count for name, count in console_tasks.count_tasks(wanted).items() if count
    } == told
    page: Any = console_tasks.list_tasks(wanted)
    assert [row.task_id for row in page.rows] == [world.task_id(run, "old")]
    assert revised.task_id not in {row.task_id for row in page.rows}
