"""What a page weighs and costs (console design, check O)."""

import gzip
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.contrib.staticfiles import finders
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from coordinator.models import Event
from tests import world
from tests.console.scene import Scene, any_time
from tests.console.test_every_route import PEOPLE, ground, own, pages  # noqa: F401 (a fixture)
from tests.console.test_every_route import QUERIES as ROUTE_QUERIES
from tests.hostile.ground import Ground

pytestmark = pytest.mark.django_db(transaction=True)

KB: Final = 1024
SCRIPTS, SCRIPTS_OF_A_FIGURE, STYLES = 20 * KB, 45 * KB, 15 * KB
#: What any route costs at the most, whatever it lists: each page, and each fragment that pages ask for.
QUERIES: Final = 8
#: Pages about one thing, or of many parts, that ask more; none of them is a list. A new page is not here.
DEARER: Final = {
    "overview": 24,
    **dict.fromkeys(("numbers", "figure"), 14),
    **dict.fromkeys(("run", "run-lineage", "queue", "shadow-round", "shadow-demote"), 9),
    **dict.fromkeys(("task", "task-candidates", "task-effects", "task-graph"), 18),
    **dict.fromkeys(("task-events", "task-input", "task-raw"), 18),
    **dict.fromkeys(("promotion", "shadow-promote", "incident-abort", "incident"), 10),
    "shadow-queue": 15,
    **dict.fromkeys(("approval", "effect", "effect-settle"), 13),
    "incident-step": 22,
    "incident-report": 20,
}
#: The same question asked more often than this on one page grows with what it lists.
REPEATS: Final = 2
_VALUE: Final = re.compile(r"'(?:[^']|'')*'(?:::\w+(?:\[\])?)?|\b\d+\b|, NULL")
EVENTS: Final = 5_000


def packed(path: str, seen: set[str]) -> int:
    """Bytes of a file and of the modules that it imports, as they travel."""
    if path in seen:
        return 0
    seen.add(path)
    found = finders.find(path)
    assert isinstance(found, str), path
    text = Path(found).read_bytes()
    size = len(gzip.compress(text, 9))
    if path.endswith(".js"):
        for name in re.findall(r'\bfrom "\./([\w.-]+)"|\bimport "\./([\w.-]+)"', text.decode()):
            size += packed(str(Path(path).parent / "".join(name)), seen)
    return size


def weight(page: str, pattern: str) -> int:
    seen: set[str] = set()
    return sum(packed(path, seen) for path in re.findall(pattern, page))


def signed_in_as_admin(client: Client) -> Client:
    client.force_login(
        User.objects.get(username=PEOPLE["admin"]),
        backend="django.contrib.auth.backends.ModelBackend",
    )
    return client


def test_scripts_and_styles_of_every_page_keep_to_their_budget(
    client: Client,
    ground: Ground,  # noqa: F811
) -> None:
    over = {}
    addresses = pages(ground)
    signed_in_as_admin(client)
    for name, address in addresses:
        page = client.get(address).content.decode()
        scripts = weight(page, r'<script[^>]* src="/static/([^"]+)"')
        styles = weight(page, r'<link[^>]* href="/static/([^"]+\.css)"')
        assert styles, name
        allowed = SCRIPTS_OF_A_FIGURE if name == "figure" else SCRIPTS
        if scripts > allowed or styles > STYLES:
            over[name] = (scripts, styles)
    assert over == {}


def test_no_route_costs_more_than_eight_queries_or_asks_one_for_each_row(
    client: Client,
    ground: Ground,  # noqa: F811
) -> None:
    """Lists and forms, by the table of routes: a new one is held to it without being named anywhere."""
    user = User.objects.create_superuser("adele")
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    over, repeated, measured = {}, {}, set()
    for name, address in Ground(ground.parts, ground.of | own(user)).addresses():
        asked = address + ROUTE_QUERIES.get(name, "")
        answer: Any = client.get(asked)  # a session is read for the first time
        if answer.status_code == 405:
            continue
        with CaptureQueriesContext(connection) as captured:
            answer = client.get(asked)
            b"".join(answer) if answer.streaming else answer.content
        measured.add(name)
        shapes = Counter(_VALUE.sub("?", each["sql"]) for each in captured.captured_queries)
        if len(captured) > DEARER.get(name, QUERIES):
            over[name] = len(captured)
        if name not in DEARER and max(shapes.values(), default=0) > REPEATS:
            repeated[name] = shapes.most_common(1)
    assert over == {}
    assert repeated == {}
    assert set(DEARER) <= measured


def test_a_task_of_five_thousand_events_costs_what_any_task_costs(
    signed_in: Client, scene: Scene
) -> None:
    """Its pages show a bounded part, by the same number of queries, and lead to the rest."""
    tabs = [f"/tasks/{scene.fenced}{tab}" for tab in ("", "/events", "/raw")]

    def costs() -> list[tuple[int, int]]:
        told = []
        for address in tabs:
            with CaptureQueriesContext(connection) as captured:
                answer: Any = signed_in.get(address)
            told.append((len(captured), answer.content.count(b"<tr")))
        return told

    for address in tabs:
        signed_in.get(address)
    before = costs()
    _tell_much(scene)
    after = costs()
    assert Event.objects.filter(task__task_id=scene.fenced).count() > EVENTS
    assert [queries for queries, _ in after] == [queries for queries, _ in before]
    assert all(rows < 700 for _, rows in after)
    page = signed_in.get(tabs[1]).content.decode()
    assert "before=" in page


def _tell_much(scene: Scene) -> None:
    """The history of a task that was refused again and again."""
    task = world.task(scene.fenced)
    with any_time() as cursor:
        cursor.execute(
            "INSERT INTO coordinator_event (kind, at, last_at, repeats, actor, request_id, data, task_id, attempt_id,"
            " queue_id, run_id) SELECT kind, at, last_at, 0, actor, '', data, task_id, attempt_id, queue_id, run_id"
            " FROM coordinator_event,"
            " generate_series(1, %s) WHERE id = (SELECT max(id) FROM coordinator_event WHERE task_id = %s"
            " AND kind = 'REFUSED')",
            [EVENTS, task.pk],
        )
