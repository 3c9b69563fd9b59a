"""Keys on every page, focus that can be seen, and addresses that say everything (console design, checks E, J and K)."""

import string
from typing import Any

import pytest
from django.contrib.auth.models import User
from playwright.sync_api import Page

from tests.console.conftest import Open
from tests.console.scene import Scene
from tests.console.test_every_route import PEOPLE, ground, pages  # noqa: F401 (a fixture)
from tests.hostile.ground import Ground

PARTS = 4
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]

#: Every printable key in turn, where it would be heard; what a form or a request would send is kept, and not sent.
_PRESS_ALL = """(keys) => {
  const sent = [];
  addEventListener('submit', (event) => { sent.push(event.target.action); event.preventDefault(); }, true);
  for (const key of keys) {
    for (const kind of ['keydown', 'keypress', 'keyup'])
      document.body.dispatchEvent(new KeyboardEvent(kind, {key, bubbles: true, cancelable: true}));
    document.querySelectorAll('dialog[open]').forEach((dialog) => dialog.close());
    document.activeElement?.blur();
  }
  return sent;
}"""
#: Where the focus is: whether its mark can be seen, and whether the bar at the top covers it.
_FOCUS = """() => {
  const at = document.activeElement, box = at.getBoundingClientRect(), style = getComputedStyle(at);
  const bar = document.querySelector('.topbar');
  const hit = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 12));
  const marked = style.outlineStyle !== 'none' || style.boxShadow !== 'none'
    || at.matches('a') && at.querySelector('rect, .box') !== null;
  return {
    name: at.outerHTML.slice(0, 120), over: at === document.body, marked,
    covered: !bar.contains(at) && bar.contains(hit),
  };
}"""


#: Ends where the page is scrolled to. No `wait_for_function`: its second look is an eval, which the pages forbid.
_SCROLLED = """(down) => new Promise((done, fail) => {
  setTimeout(() => fail(new Error(`at ${scrollY}, not ${down}`)), 60_000);
  const look = () => Math.abs(scrollY - down) < 4 ? done() : requestAnimationFrame(look);
  look();
})"""


@pytest.mark.parametrize("part", range(PARTS))
def test_no_key_of_any_page_sends_anything(
    opened: Open,
    ground: Ground,  # noqa: F811
    part: int,
) -> None:
    addresses = pages(ground)[part::PARTS]
    page = opened(user=User.objects.get(username=PEOPLE["admin"])).page
    methods: list[str] = []
    page.on("request", lambda request: methods.append(f"{request.method} {request.url}"))
    for name, address in addresses:
        page.goto(address)
        assert page.evaluate(_PRESS_ALL, list(string.printable.strip())) == [], name
    assert [each for each in methods if not each.startswith("GET ")] == []


@pytest.mark.parametrize("address", ["/", "/tasks", "/approvals", "/numbers"])
def test_the_focus_is_marked_and_never_under_the_bar(
    opened: Open, scene: Scene, operator: Any, address: str
) -> None:
    page = opened(user=operator, height=500).page
    page.goto(address)
    stops = 0
    for _ in range(60):
        page.keyboard.press("Tab")
        found = page.evaluate(_FOCUS)
        if found["over"]:
            break
        assert found["marked"], found["name"]
        assert not found["covered"], found["name"]
        stops += 1
    assert stops > 20


def test_a_dialog_gives_the_focus_back(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator).page
    page.goto("/tasks")
    page.keyboard.press("j")
    before = page.evaluate("document.activeElement.outerHTML")
    page.keyboard.press("?")
    assert page.evaluate("document.querySelector('#keys').contains(document.activeElement)")
    page.keyboard.press("Escape")
    assert page.evaluate("document.activeElement.outerHTML") == before


def rows(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(
        "a[data-row]", "rows => rows.map(row => row.pathname)"
    )
    return found


def test_an_address_shows_the_same_rows_to_somebody_else_and_after_going_back(
    opened: Open, scene: Scene, operator: Any, viewer: Any
) -> None:
    address = "/tasks?queue=review&state=COMMITTED"
    mine, theirs = opened(user=operator, height=400).page, opened(user=viewer).page
    mine.goto(address)
    mine.wait_for_selector("#facets .facet .n")  # what comes after the list would move it
    theirs.goto(mine.url)
    assert len(rows(mine)) > 5
    assert rows(theirs) == rows(mine)
    shown = rows(mine)
    mine.locator("a[data-row]").last.scroll_into_view_if_needed()
    down = mine.evaluate("scrollY")
    assert down > 0
    mine.locator("a[data-row]").last.click()
    mine.wait_for_url(f"**{shown[-1]}")
    mine.go_back()
    mine.evaluate(_SCROLLED, down)
    assert mine.url.endswith(address)
    assert rows(mine) == shown
    assert mine.input_value("select[name=state], [name=state]") == "COMMITTED"
