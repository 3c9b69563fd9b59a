"""The keyboard: it moves and opens. No key decides anything."""

import string
from typing import Any

import pytest

from tests.console.conftest import AT_ONCE, Open
from tests.console.scene import Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


def test_no_single_key_sends_anything_but_a_get(opened: Open, scene: Scene, admin: Any) -> None:
    page = opened(user=admin).page
    methods: list[str] = []
    page.on("request", lambda request: methods.append(request.method))
    for address in (
        "/",
        "/tasks",
        f"/tasks/{scene.held}",
        f"/tasks/{scene.held}/cancel",
        "/queues/review/intake",
        "/credentials",
        f"/credentials/{scene.credential}/revoke",
        f"/people/{scene.approver}/role",
    ):
        page.goto(address)
        for key in string.printable.strip():
            page.keyboard.press(key)
            page.keyboard.press("Escape")
            page.evaluate("document.activeElement?.blur()")
        assert set(methods) == {"GET"}, address


def test_keys_move_open_and_go(opened: Open, scene: Scene, operator: Any) -> None:
    window = opened(user=operator)
    page = window.page
    page.goto("/")
    page.evaluate(AT_ONCE)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/tasks")
    page.keyboard.press("j")
    page.keyboard.press("j")
    second = page.locator("a[data-row]").nth(1)
    assert second.evaluate("row => row === document.activeElement")
    target = second.get_attribute("href")
    page.keyboard.press("o")
    page.wait_for_url(f"**{target}")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "search"
    page.keyboard.type("j?")
    assert page.input_value("#search") == "j?"
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("?")
    assert page.is_visible("#keys")
    page.keyboard.press("g")
    page.keyboard.press("Escape")
    assert page.is_hidden("#keys")
    assert not window.faults
    assert not window.violations()


def test_d_leads_to_the_decision_and_no_further(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator).page
    page.goto(f"/tasks/{scene.held}")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.textContent").strip() == "Cancel…"
    page.keyboard.press("Enter")
    page.wait_for_url("**/cancel")
    page.keyboard.press("d")
    assert page.evaluate("document.activeElement.id") == "id_reason"


def test_shortcuts_can_be_switched_off(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator).page
    page.goto("/profile")
    page.uncheck("[name=shortcuts]")
    page.click("text=Save")
    page.wait_for_load_state()
    page.keyboard.press("?")
    assert page.is_hidden("#keys")


def test_the_first_tab_stop_skips_to_the_content(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(user=operator).page
    page.goto("/tasks")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
