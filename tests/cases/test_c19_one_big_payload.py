"""C19 — one big payload freezes the page.

The API takes bodies of 1 MiB; what is larger travels as a blob. So T has the largest input that can be submitted and a
result of 20 MB as a blob. What a page costs is told by what it sends and by how many elements it is made of.
"""

import gc
import json
import re
import tracemalloc
from typing import Any
from uuid import UUID

import pytest
from django.contrib.auth.models import User
from django.test import Client
from playwright.sync_api import Browser

from console.graphs import FOLD_ABOVE
from coordinator import digests
from coordinator.actors import system
from coordinator.api.reading import MAX_BODY_BYTES
from coordinator.models import Run, Task
from coordinator.services.queues import ensure_queue
from tests import world
from tests.api.callers import Api, attempt_path, commit_body, node
from tests.console.conftest import opened  # noqa: F401 (a fixture)
from tests.console.scene import person

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("history_holds")]

MB = 1_000_000
CHILDREN = 5_000
#: As deep as JSON is taken, less what stands around an input.
DEEP = digests.MAX_DEPTH - 10


def nested(depth: int) -> Any:
    value: Any = "the end"
    for _ in range(depth):
        value = [value]
    return value


def _lane() -> None:
    world.pool()
    ensure_queue(name="q", active_pool="blue", actor=system("tests"))


@pytest.fixture
def viewer_of_payloads(transactional_db: None) -> User:
    return person("olga", "operator")


@pytest.fixture
def console(client: Client, viewer_of_payloads: User) -> Client:
    client.force_login(viewer_of_payloads, backend="django.contrib.auth.backends.ModelBackend")
    return client


@pytest.fixture
def big(transactional_db: None) -> UUID:
    """T: an input of a megabyte and a result of one, the largest that stand in the database."""
    _lane()
    fleet = world.worker()
    text = {"text": "x" * 1_040_000, "zenith": "the very end"}
    run = world.submit(world.node("T", input=text), name="a big one")
    task_id = run.tasks[0].task_id
    world.commit(world.claim_one(by=fleet, of=task_id), by=fleet, result=text)
    return task_id


@pytest.fixture
def wide(transactional_db: None) -> UUID:
    """D: a node with 5 000 children, of several kinds."""
    _lane()
    children = (world.node(f"child {n:04}", "root", kind=f"kind {n % 7}") for n in range(CHILDREN))
    return world.submit(world.node("root"), *children, name="a wide one").run_id


def test_c19_2_the_list_and_the_detail_stay_small(console: Client, big: UUID) -> None:
    for address in ("/", "/tasks", "/runs", f"/tasks/{big}", f"/tasks/{big}/events"):
        answer = console.get(address)
        assert answer.status_code == 200
        assert len(answer.content) < MB, address
    page = console.get(f"/tasks/{big}/input").content.decode()
    assert len(page) < MB / 4
    assert page.count("cut here; download it whole") == 2
    assert re.search("10[0-9]{2}\\.[0-9]\xa0KB", page)
    assert "the very end" not in page
    for part in ("input", "result"):
        whole = console.get(f"/tasks/{big}/download/{part}")
        assert json.loads(whole.content)["zenith"] == "the very end"


def test_c19_2_a_result_of_20_mb_is_a_blob_that_the_page_only_names(api: Api) -> None:
    data = b"\x00\xff\xfe" * (20 * MB // 3)
    claim = api.submitted_claim()
    fence = json.dumps(claim["fence"])
    path = attempt_path(claim, "blobs/out.bin")
    assert api.worker.send("PUT", path, raw=data, Claim_Fence=fence).status == 200
    body = commit_body(claim, {"blob": "out.bin"})
    assert api.worker.post(attempt_path(claim, "commit"), body).status == 200
    client = Client()
    client.force_login(
        person("olga", "operator"), backend="django.contrib.auth.backends.ModelBackend"
    )
    for tab in ("", "/candidates", "/input", "/raw"):
        answer = client.get(f"/tasks/{claim['fence']['task_id']}{tab}")
        assert answer.status_code == 200
        assert len(answer.content) < MB / 4, tab
    page = client.get(f"/tasks/{claim['fence']['task_id']}/candidates").content.decode()
    assert "out.bin" in page
    assert "19.1\xa0MB" in page


def test_c19_3_a_graph_of_thousands_is_folded_and_its_links_work_without_it(
    console: Client, wide: UUID
) -> None:
    for address in (f"/runs/{wide}", f"/runs/{wide}?unfold=1"):
        page = console.get(address).content.decode()
        assert len(page) < MB
        assert page.count('class="box"') <= FOLD_ABOVE
        assert "Draw every node" not in page
        assert "4\u202f901 more in the list of tasks" in page
    rows = console.get(f"/tasks?run={wide}").content.decode()
    assert rows.count("data-row>") == 50
    root = Task.objects.get(run__run_id=wide, node_id="root")
    detail = console.get(f"/tasks/{root.task_id}")
    assert len(detail.content) < MB
    assert "More in the run" in detail.content.decode()


@pytest.mark.browser
def test_c19_3_the_tab_stays_alive(
    request: pytest.FixtureRequest, browser: Browser, viewer_of_payloads: User, wide: UUID
) -> None:
    """However many nodes there are, the page is made of few elements, and answers a key."""
    window = request.getfixturevalue("opened")(user=viewer_of_payloads)
    page = window.page
    page.goto(f"/runs/{wide}")
    assert page.locator("*").count() < 3_000
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("Escape")
    page.click("text=more in the list of tasks")
    page.wait_for_url(f"**run={wide}**")
    assert page.locator("tbody tr").count() == 50
    assert not window.faults


def test_c19_4_nested_and_broken_payloads_are_shown_or_refused_never_a_500(
    api: Api, console: Client
) -> None:
    tasks = api.submit(
        node("nested", input=nested(DEEP)), node("odd", input={"\u202e": "\u0007\ufffd"})
    )
    for task_id in tasks.values():
        for tab in ("", "/input", "/raw", "/events", "/candidates"):
            assert console.get(f"/tasks/{task_id}{tab}").status_code == 200
    page = console.get(f"/tasks/{tasks['nested']}/input").content.decode()
    assert "the end" in page
    odd = console.get(f"/tasks/{tasks['odd']}/input").content.decode()
    assert "\u202e" not in odd
    assert "U+202E" in odd
    before = Task.objects.count()
    deep = '{"queue":"q","nodes":[{"node_id":"a","kind":"k","input":%s}]}'
    for raw in (
        (deep % ("[" * 10_000 + "1" + "]" * 10_000)).encode(),
        (deep % '"\\u0000"').encode(),
        (deep % '"\\ud800"').encode(),
        (deep % '"').encode() + b"\xff\xfe" + b'"}]}',
    ):
        reply = api.operator.send("POST", "/runs", raw=raw, key="c19-broken-payload-" + "0" * 8)
        assert reply.status in (400, 422), reply
    assert Task.objects.count() == before


def test_c19_5_what_is_larger_than_the_limit_leaves_no_row(api: Api) -> None:
    body = {"queue": "q", "nodes": [node("a", input={"text": "x" * MAX_BODY_BYTES})]}
    reply = api.operator.keyed("/runs", body)
    assert reply.status == 413
    assert str(MAX_BODY_BYTES) in json.dumps(reply.body)
    assert not Run.objects.exists()
    assert not Task.objects.exists()


def test_c19_6_a_claim_hands_it_over_whole(api: Api) -> None:
    text = {"text": "x" * 1_000_000}
    api.submit(node("T", input=text))
    claim = api.claim()
    assert claim["input"] == text
    assert api.worker.post(attempt_path(claim, "commit"), commit_body(claim)).status == 200


@pytest.mark.slow
def test_c19_end_memory_comes_back(console: Client, big: UUID, wide: UUID) -> None:
    """What a page takes is given back: ten more rounds hold no more than the ones before."""
    addresses = ("/tasks", f"/tasks/{big}/input", f"/runs/{wide}", f"/tasks/{big}/download/input")

    def round_trip() -> int:
        for address in addresses:
            console.get(address)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        for _ in range(2):
            round_trip()
        base = round_trip()
        after = [round_trip() for _ in range(5)][-1]
    finally:
        tracemalloc.stop()
    assert after - base < 2 * MB
