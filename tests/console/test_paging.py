"""Every list is walked to its end and back by plain links, by the table of routes (console design, checks I and K).

No script runs here: what leads on is an address. A list that is neither walked nor bounded for a reason fails.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from html import unescape
from types import ModuleType
from typing import Any, Final

import pytest
from django.test import Client

from console.urls import urlpatterns
from console.views import bulks, credentials, effects, integrity, shadow, tasks
from coordinator.selectors import (
    console_approvals,
    console_audit,
    console_bulks,
    console_incidents,
    console_runs,
    console_tasks,
)
from coordinator.services.audits import run_audit
from coordinator.services.incidents import open_incident
from tests import world
from tests.console import rollout
from tests.console.scene import person
from tests.hostile.ground import Ground, compose_ground, enter
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

WHY: Final = "It has to be looked at today."


@dataclass(frozen=True, slots=True)
class Paged:
    """A list at `query`, with pages of `size` rows as constants of these modules say; `more` adds rows to it."""

    size: int
    constants: tuple[tuple[ModuleType, str], ...]
    query: str = ""
    more: Callable[[Ground], object] = lambda _ground: None


def another_incident(_ground: Ground) -> None:
    open_incident(queues=["nightly"], reason=WHY, actor=world.operator())


def many_tasks(_ground: Ground) -> None:
    names = [f"page {number}" for number in range(console_tasks.PAGE_SIZE + 7)]
    world.submit(*(world.node(name, kind="scan") for name in names), queue_name="review")


def another_pass(_ground: Ground) -> None:
    run_audit(reason=WHY, actor=world.operator())


PAGED: Final = {
    "tasks": Paged(console_tasks.PAGE_SIZE, (), "?queue=review&state=READY", many_tasks),
    "runs": Paged(3, ((console_runs, "PAGE_SIZE"),), "?state=ACTIVE"),
    "approvals": Paged(2, ((console_approvals, "PAGE_SIZE"),), "?turn=mine"),
    "effects-unknown": Paged(1, ((effects, "SHOWN"),), "?queue=payments"),
    "audit": Paged(5, ((console_audit, "PAGE_SIZE"),), "?queue=orders"),
    "incidents": Paged(1, ((console_incidents, "PAGE_SIZE"),), "", another_incident),
    "shadow-rounds": Paged(2, ((shadow, "A_PAGE"),)),
    "task-events": Paged(2, ((tasks, "EVENTS_A_PAGE"),)),
    "credentials": Paged(2, ((credentials, "A_PAGE"),), "?revoked=1"),
    "task-bulks": Paged(1, ((console_bulks, "JOBS_SHOWN"), (bulks, "JOBS_SHOWN"))),
    "audit-integrity": Paged(1, ((integrity, "PASSES_SHOWN"),), "", another_pass),
}
#: Lists of what people set up, each with its maximum; and pages that show the head of a list, which they lead to.
BOUNDED: Final = {
    "overview": "the newest of lists that have pages of their own",
    "numbers": "nine figures",
    "queues": "the queues of the installation, which the frame of every page knows",
    "shadows": "as the queues",
    "pools": "as the queues",
    "downstreams": "those that are registered",
    "task-views": "at most 50 (MAX_VIEWS)",
    "people": "the first 500 by name (MAX_PEOPLE)",
    "workers": "the 300 that were seen last (WORKERS_SHOWN)",
}
PARTS: Final = {"shadow-rounds": {"name": rollout.QUEUE}}
_ROW: Final = re.compile(r"<tr[ >].*?</tr>", re.DOTALL)
_BODY: Final = re.compile(r"<tbody>(.*?)</tbody>", re.DOTALL)
_LINK: Final = re.compile(r'<a class="button small" rel="(first|prev|next)" href="([^"]+)"')


def look(client: Client, address: str) -> tuple[list[str], dict[str, str]]:
    """The rows of a page by what leads to each, and where it leads on and back."""
    answer: Any = client.get(address)
    assert answer.status_code == 200, (address, answer.status_code)
    page = answer.content.decode()
    main = page[page.index("<main") :]
    rows = [name_of(row) for body in _BODY.findall(main) for row in _ROW.findall(body)]
    return rows, {rel: unescape(href) for rel, href in _LINK.findall(main)}


def name_of(row: str) -> str:
    """The row's own id, or the address it leads to."""
    own = re.search(r'<tr id="([^"]+)"', row) or re.search(r'href="([^"]+)"[^>]* data-row', row)
    assert own is not None, row
    return own[1]


def resolved(address: str, href: str) -> str:
    return href if href.startswith("/") else address.partition("?")[0] + href


def walked(client: Client, address: str) -> list[tuple[str, list[str]]]:
    """Each page of a list: its address and its rows."""
    pages: list[tuple[str, list[str]]] = []
    here: str | None = address
    while here:
        rows, links = look(client, here)
        pages.append((here, rows))
        assert len(pages) < 60, "it never ends"
        here = resolved(here, links["next"]) if "next" in links else None
    return pages


def back(client: Client, address: str) -> list[str]:
    """The first page, reached by the links of a later one."""
    for _ in range(60):
        rows, links = look(client, address)
        way = links.get("prev") or links.get("first")
        if way is None:
            return rows
        address = resolved(address, way)
    raise AssertionError("it never comes to the first page")


def test_every_list_without_parameters_is_walked_or_bounded(transactional_db: None) -> None:
    ground: Ground = restored(compose_ground)
    client = enter(Client(), person("adele", "admin"))
    detailed = {route.name for route in urlpatterns if route.pattern.converters}
    lists = set()
    for name, address in ground.addresses():
        if name in PAGED or name in detailed:
            continue
        answer: Any = client.get(address)
        content = getattr(answer, "content", b"")
        if answer.status_code == 200 and b"<main" in content and b" data-row" in content:
            lists.add(name)
    assert lists == set(BOUNDED)


@pytest.mark.parametrize("name", PAGED)
def test_a_list_is_walked_to_its_end_and_back_and_an_address_is_the_same_for_others(
    transactional_db: None, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    ground: Ground = restored(compose_ground)
    paged = PAGED[name]
    paged.more(ground)
    ground.of.setdefault(name, {}).update(PARTS.get(name, {}))
    address = dict(ground.addresses())[name] + paged.query
    mine, theirs = (enter(Client(), person(who, "admin")) for who in ("adele", "bea"))
    everything, links = look(mine, address)
    if paged.constants:
        assert "next" not in links, "the ground has more than a page of its own"
    for module, constant in paged.constants:
        monkeypatch.setattr(module, constant, paged.size)
    pages = walked(mine, address)
    rows = [row for _here, listed in pages for row in listed]
    assert len(pages) > 1, "there is but one page"
    assert len(set(rows)) == len(rows), "a row stands on two pages"
    if paged.constants:
        assert rows == everything, "a row is skipped, or told in another order"
    assert all(len(listed) == paged.size for _here, listed in pages[:-1])
    last, listed = pages[-1]
    asked = dict(part.split("=") for part in paged.query[1:].split("&") if part)
    assert all(f"{key}={value}" in last for key, value in asked.items()), "the filter is lost"
    assert look(theirs, last)[0] == listed
    assert back(mine, last) == pages[0][1]
