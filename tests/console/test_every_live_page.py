"""What is live on a page, by the table of routes: how often it is asked for, and that it is 304 while it is the same.

Console design, 3.1 and check C. A page that nobody has thought of here is expected to be live.
"""

import re
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client

from tests.console.scene import person
from tests.console.test_every_route import PEOPLE, ground, pages  # noqa: F401 (a fixture)
from tests.hostile.ground import Ground, enter

pytestmark = pytest.mark.django_db(transaction=True)

#: Seconds between two polls, by the page (design 3.1); every other live page is a list, or one of its rows: 10.
CADENCE: Final = {
    "incident-step": 2,
    **dict.fromkeys(("task", "task-candidates", "task-effects", "task-graph"), 3),
    **dict.fromkeys(("task-events", "task-input", "task-raw", "effect", "approval"), 3),
    **dict.fromkeys(("run", "run-lineage"), 3),
    **dict.fromkeys(("overview", "audit-integrity"), 5),
    **dict.fromkeys(("numbers", "figure"), 30),
}
LIST_SECONDS: Final = 10
#: The present moves along its drawing: a task that somebody holds is never quite the same.
MOVES: Final = frozenset({"task"})
#: Pages that stand still: forms that somebody fills in, records that are over, and what only its reader changes.
STILL: Final = frozenset(
    {
        *("run-cancel", "task-cancel", "task-reopen", "task-revise", "task-release", "task-reveal"),
        *(
            "task-view-new",
            "task-view",
            "task-view-delete",
            "task-views",
            "task-bulk",
            "task-bulk-stop",
        ),
        *("queue-intake", "credential-new", "credential-revoke", "credential-rotate"),
        *("shadow-round", "shadow-rounds", "promotion", "shadow-promote", "shadow-demote"),
        *("audit", "audit-chain", "audit-run", "audit-pass"),
        *("downstream-new", "downstream-change", "downstream"),
        *("person", "person-role", "person-token-new", "person-token-revoke"),
        *("person-new", "person-code", "password", "welcome"),
        *(
            "run-reveal",
            "event-reveal",
            "approval-reveal",
            "effect-reveal",
            "incident-new",
            "incident-abort",
        ),
        *("profile", "shortcuts", "menu"),
    }
)
_LIVE: Final = re.compile(
    r'<div id="live" hx-get="([^"]+)" hx-trigger="every (\d+)s" hx-swap="innerMorph" hx-ptag="([0-9a-f]+)">'
)


def test_every_page_that_can_change_is_asked_for_and_304_while_it_is_the_same(
    ground: Ground,  # noqa: F811
) -> None:
    addresses = pages(ground)
    name = PEOPLE["admin"]
    user = User.objects.filter(username=name).first() or person(name, "admin")
    client = enter(Client(), user)
    still, cadence, faults = set(), {}, []
    for name, address in addresses:
        page = client.get(address).content.decode()
        found = _LIVE.search(page)
        if found is None:
            still.add(name)
            assert 'id="live"' not in page, name
            continue
        url, seconds, tag = found.groups()
        cadence[name] = int(seconds)
        faults += [
            f"{name}: {fault}"
            for fault in _faults_of(client, url.replace("&amp;", "&"), tag, moves=name in MOVES)
        ]
    assert not faults, "\n".join(faults)
    assert still == STILL
    assert cadence == {name: CADENCE.get(name, LIST_SECONDS) for name in cadence}
    assert set(CADENCE) <= set(cadence)


def _faults_of(client: Client, url: str, tag: str, *, moves: bool) -> list[str]:
    faults = []
    answer = _poll(client, url, tag)
    for _ in range(2):  # a minute may turn between two polls
        if answer.status_code == 304:
            break
        tag = answer["HX-PTag"]
        answer = _poll(client, url, tag)
    if not moves and (answer.status_code != 304 or answer.content):
        faults.append(f"an unchanged poll is answered {answer.status_code}")
    other = _poll(client, url, "0" * 24)
    text = other.content.decode()
    if other.status_code != 200 or "<html" in text or "<main" in text or not text.strip():
        faults.append("a changed poll is not answered by the live part alone")
    if 'name="csrfmiddlewaretoken"' in text and "/undo" not in text:
        faults.append("a form in the live part would change with every poll")
    if _poll(Client(), url, tag).status_code != 401:
        faults.append("a poll of somebody who has signed out is not answered 401")
    return faults


def _poll(client: Client, url: str, tag: str) -> Any:
    return client.get(url, headers={"HX-Request": "true", "HX-PTag": tag})
