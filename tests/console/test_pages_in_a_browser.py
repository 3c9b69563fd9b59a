"""Every page in a real browser: accessible, within its width, without a console error or a CSP violation."""

from typing import Any

import pytest
from playwright.sync_api import Page

from tests.console.conftest import Open, Watched
from tests.console.scene import Scene
from tests.console.test_pages import addresses, administered

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]

WIDTHS = (320, 768, 1440)


def too_wide(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        "document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll('body *')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.drawing, .payload, .tabs'))"
        ".slice(0, 4).map(e => `${e.tagName}.${e.className}`)"
    )
    return found


def look(window: Watched, address: str) -> list[str]:
    """All widths in both themes by one load; axe on the widest in light and the narrowest in dark."""
    page, faults = window.page, []
    page.set_viewport_size({"width": 1440, "height": 900})
    page.emulate_media(color_scheme="light")
    page.goto(address)
    faults += [f"{address} light: {fault}" for fault in window.axe()]
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        faults += [
            f"{address} at {width}: wider than the window: {name}" for name in too_wide(page)
        ]
    page.set_viewport_size({"width": 320, "height": 640})
    page.emulate_media(color_scheme="dark")
    faults += [f"{address} dark, 320: {fault}" for fault in window.axe()]
    faults += [f"{address}: {fault}" for fault in [*window.faults, *window.violations()]]
    window.faults.clear()
    return faults


def test_every_page_is_in_order_for_an_operator(opened: Open, scene: Scene, operator: Any) -> None:
    window = opened(user=operator)
    missing = f"/tasks/{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}"
    pages = [*addresses(scene), missing, "/tasks?state=nonsense", "/tasks?owner=nobody"]
    faults = [fault for address in pages for fault in look(window, address)]
    assert not faults, "\n".join(faults)


def test_an_administrators_pages_are_in_order(opened: Open, scene: Scene, admin: Any) -> None:
    window = opened(user=admin)
    faults = [fault for address in administered(scene) for fault in look(window, address)]
    assert not faults, "\n".join(faults)


def test_pages_with_locked_controls_are_in_order_for_a_viewer(
    opened: Open, scene: Scene, viewer: Any
) -> None:
    window = opened(user=viewer)
    task = f"/tasks/{scene.held}"
    pages = [
        task,
        f"{task}/cancel",
        f"{task}/input",
        f"/tasks/{scene.fenced}/candidates",
        "/queues/review/intake",
        f"/people/{scene.approver}",
        f"/people/{scene.approver}/role",
        "/credentials",
    ]
    faults = [fault for address in pages for fault in look(window, address)]
    assert not faults, "\n".join(faults)
    window.page.goto(f"{task}/cancel")
    assert window.page.is_disabled("#decision button")
    assert "You may not cancel, revise and reopen tasks" in window.page.inner_text("#why-not")


def test_the_doorway_is_in_order(opened: Open, transactional_db: None) -> None:
    faults = look(opened(), "/sign-in")
    assert not faults, "\n".join(faults)


def test_a_page_stays_within_its_budget(opened: Open, scene: Scene, operator: Any) -> None:
    """Sizes as they are stored; the wire compresses them to a third."""
    window = opened(user=operator)
    sizes: dict[str, int] = {}
    window.page.on("response", lambda answer: sizes.update({answer.url: len(answer.body())}))
    window.page.goto(f"/tasks/{scene.fenced}")
    window.page.wait_for_load_state("networkidle")
    scripts = sum(size for url, size in sizes.items() if url.endswith(".js"))
    styles = sum(size for url, size in sizes.items() if url.endswith(".css"))
    assert scripts < 56 * 1024
    assert styles < 48 * 1024
    hosts = {url.split("/")[2] for url in sizes}
    assert len(hosts) == 1
