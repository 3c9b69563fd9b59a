"""C18: text that others wrote is text, on every page that shows it, and nothing of it runs or hides."""

import html
import re
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from coordinator.models import Queue
from coordinator.services import break_glass, cancels, endings
from tests import world
from tests.console.conftest import Open
from tests.console.looking import too_wide
from tests.console.scene import person

pytestmark = pytest.mark.django_db(transaction=True)

IMAGE = "<img src=x onerror=window.pwned=1>"
SCRIPT = "</script><b>bold</b><script>window.pwned=2</script>"
ATTRIBUTE = "\" onmouseover=window.pwned=3 x='"
LINK = "javascript:window.pwned=4"
TEMPLATE = "{{ settings.SECRET_KEY }}{% now 'Y' %}"
HIDDEN = "safe\u202etxt.exe\u200b\u0007"
ALL = f"{IMAGE}{SCRIPT}{ATTRIBUTE}{LINK}{TEMPLATE}"


@pytest.fixture
def hostile(transactional_db: None) -> dict[str, str]:
    """A world in which every text that a person or an agent may write is hostile; the pages that show it."""
    world.queue(name=ALL[:150], max_attempts=1)
    fleet = world.worker(name=ALL, queues=(ALL[:150],))
    actor = world.operator(name=ALL)
    run = world.submit(
        world.node(
            f"a {ALL[:180]}",
            kind=f"k {ALL[:180]}",
            input={ALL: [ALL, HIDDEN]},
            serial_key=ALL[:150],
        ),
        world.node(f"b {ALL[:180]}", f"a {ALL[:180]}", kind=HIDDEN, input=ALL),
        world.node(f"c {HIDDEN}", kind="plain"),
        world.node(f"d {HIDDEN}", kind="plain"),
        queue_name=ALL[:150],
        name=ALL[:190],
        actor=actor,
    )
    tasks = [str(task.task_id) for task in run.tasks]
    first = world.claim_one(
        by=fleet, of=run.tasks[0].task_id, queue_name=ALL[:150], owner=ALL[:190]
    )
    world.stage(first, by=fleet, result={"staged": ALL})
    world.commit(first, by=fleet, result={"result": ALL, HIDDEN: HIDDEN})
    world.try_commit(first, by=fleet, result={"another": ALL})
    failing = world.claim_one(by=fleet, of=run.tasks[2].task_id, queue_name=ALL[:150], owner=HIDDEN)
    endings.fail_attempt(
        attempt_id=failing.fence.attempt_id,
        fence=failing.fence,
        error={"type": IMAGE, "message": ALL, "detail": {ALL: ALL}},
        retryable=False,
        worker=fleet,
    )
    cancels.cancel_task(task_id=run.tasks[3].task_id, reason=ALL, actor=actor)
    break_glass.open_break_glass(reason=ALL, minutes=5, actor=actor)
    pages = {f"task {number} {tab}": f"/tasks/{task}{tab}" for number, task in enumerate(tasks) for tab in (
        "", "/effects", "/graph", "/candidates", "/events", "/input", "/raw"
    )}  # fmt: skip
    return pages | {
        "overview": "/",
        "tasks": "/tasks",
        "echo": f"/tasks?q={IMAGE}&owner={IMAGE}&kind={IMAGE}&run={IMAGE}&state={IMAGE}",
        "runs": "/runs",
        "run": f"/runs/{run.run_id}",
        "run unfolded": f"/runs/{run.run_id}?unfold=1",
        "lineage": f"/runs/{run.run_id}/lineage",
        "cancel": f"/tasks/{tasks[1]}/cancel",
        "revise": f"/tasks/{tasks[1]}/revise",
        "reopen": f"/tasks/{tasks[2]}/reopen",
        "cancel run": f"/runs/{run.run_id}/cancel",
        "queues": "/queues",
        "nothing there": f"/queues/{IMAGE}",
        "profile": "/profile",
    }


@pytest.fixture
def mallory(transactional_db: None) -> Any:
    person("mallory", "operator")
    User.objects.filter(username="mallory").update(username=IMAGE[:150])
    return User.objects.get(username=IMAGE[:150])


def test_hostile_text_stands_literally_on_every_page(
    client: Client, hostile: dict[str, str], mallory: Any
) -> None:
    client.force_login(mallory, backend="django.contrib.auth.backends.ModelBackend")
    for name, address in hostile.items():
        answer = client.get(address)
        page = answer.content.decode()
        assert answer.status_code in (200, 404), (name, answer.status_code)
        assert "<img" not in page, name
        assert "<b>bold" not in page, name
        assert not re.search(r"<script>|<script [^>]*>[^<]", page), name
        assert not re.search(r"<[^>]* onmouseover=", re.sub(r'"[^"]*"', '""', page)), name
        assert 'href="javascript' not in page.lower(), name
        assert "\u202e" not in page, name
        assert "\u200b" not in page, name
        assert "\u0007" not in page, name
        assert "development-only" not in page, name


def test_what_can_not_be_seen_is_drawn(
    client: Client, hostile: dict[str, str], mallory: Any
) -> None:
    client.force_login(mallory, backend="django.contrib.auth.backends.ModelBackend")
    page = client.get("/tasks").content.decode()
    assert '<span class="esc" title="RIGHT-TO-LEFT OVERRIDE">U+202E</span>' in page
    assert '<span class="esc" title="ZERO WIDTH SPACE">U+200B</span>' in page


def test_the_same_value_reads_the_same_in_list_and_detail(
    client: Client, hostile: dict[str, str], mallory: Any
) -> None:
    client.force_login(mallory, backend="django.contrib.auth.backends.ModelBackend")
    shown = html.escape(f"a {ALL[:180]}")
    for address in ("/tasks", hostile["task 0 "]):  # a name may be broken at its seams
        assert shown in client.get(address).content.decode().replace("<wbr>", ""), address


@pytest.mark.browser
def test_nothing_of_it_runs(opened: Open, hostile: dict[str, str], mallory: Any) -> None:
    window = opened(user=mallory)
    page = window.page
    page.on("dialog", lambda dialog: window.faults.append(f"dialog: {dialog.message}"))
    for name, address in hostile.items():
        page.goto(address)
        assert page.evaluate("window.pwned") is None, name
        assert page.locator("img, main script, [onmouseover]").count() == 0, name
        assert not window.violations(), name
        assert not window.faults, (name, window.faults)
        assert not too_wide(page), name


def test_a_queue_with_any_name_can_be_reached(
    client: Client, hostile: dict[str, str], mallory: Any
) -> None:
    client.force_login(mallory, backend="django.contrib.auth.backends.ModelBackend")
    name = Queue.objects.get().name
    assert client.get(f"/queues/{quote(name)}").status_code == 200
