"""Everything works with JavaScript switched off: filter, page, open, decide."""

from typing import Any

import pytest

from coordinator.states import TaskState
from tests import world
from tests.console.conftest import Open
from tests.console.scene import PASSWORD, Scene

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.browser]


def test_a_person_works_without_scripts(opened: Open, scene: Scene, operator: Any) -> None:
    page = opened(scripts=False).page
    page.goto("/tasks")
    page.fill("#id_username", "olga")
    page.fill("#id_password", PASSWORD)
    page.click("button:has-text('Sign in')")
    page.wait_for_url("**/tasks")
    page.fill("#f-owner", "agent-3@build-02")
    page.click("button:has-text('Filter')")
    page.wait_for_url("**owner=agent-3**")
    assert page.locator("tbody tr").count() == 1
    page.click("tbody a >> nth=0")
    page.wait_for_url(f"**/tasks/{scene.held}")
    assert page.is_visible(".verdict")
    assert page.is_visible("svg.timeline")
    assert page.is_hidden("[data-pause]")
    assert page.is_visible("[data-refresh]")
    page.click("text=Events")
    page.wait_for_url("**/events")
    assert page.locator("table.events tbody tr").count() >= 3
    page.click("text=Cancel…")
    page.fill("#id_reason", "too short")
    page.click("#decision button")
    assert "Say why in 10 characters or more." in page.inner_text(".fault")
    page.fill("#id_reason", "The run is not needed any more.")
    page.click("#decision button")
    page.wait_for_url(f"**/tasks/{scene.held}")
    assert "Cancelled. Its cancel generation is 1." in page.inner_text(".alert")
    assert world.task(scene.held).state == TaskState.CANCELLED


def test_the_theme_and_the_language_are_switched_without_scripts(
    opened: Open, scene: Scene, operator: Any
) -> None:
    page = opened(user=operator, scripts=False).page
    page.goto("/")
    page.click("form.theme button")
    assert page.get_attribute("html", "data-theme") == "dark"
    page.goto("/profile")
    page.select_option("#id_language", "zh-hans")
    page.fill("#id_zone", "Asia/Shanghai")
    page.click("form.form button")
    assert page.get_attribute("html", "lang") == "zh-hans"
    page.goto(f"/tasks/{scene.held}")
    assert "CST" in page.inner_text(".facts")
