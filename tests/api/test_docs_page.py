"""The browsable page draws the API in a real browser, from this host alone, under the strict policy."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page
from pytest_django.live_server_helper import LiveServer

#: Collected before any script of the page runs.
COLLECT = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`));
"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page()
    page.add_init_script(COLLECT)
    yield page
    page.close()


@pytest.mark.browser
def test_it_lists_every_operation_and_asks_no_other_host(
    live_server: LiveServer, transactional_db: None, page: Page
) -> None:
    asked: list[str] = []
    troubles: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("console", lambda line: troubles.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(f"{live_server.url}/api/v1/docs")
    page.get_by_text("Claim the next tasks of a queue").first.wait_for()
    page.get_by_text("Claim the next tasks of a queue").first.click()
    page.get_by_text("Idempotency-Key").first.wait_for()
    own = [url for url in asked if url.startswith((live_server.url, "data:"))]
    assert asked == own
    assert page.evaluate("window.violations") == []
    assert troubles == []
