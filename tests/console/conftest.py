"""The console in a real browser, against the real application, on the real database."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.console import scene as scenes
from tests.console.desk import Desk, compose_desk
from tests.console.scene import PASSWORD, Scene, person
from tests.console.siege import Siege, compose_siege
from tests.snapshots import restored

#: A fleet's laptop and a phone: every wait of a test ends by then, or says what it waited for.
PATIENCE_MS = 60_000
expect.set_options(timeout=PATIENCE_MS)
#: The page asks only when a test says so: what a tick of its own clock sends would be taken for the test's.
STILL = "{ const every = setInterval; window.setInterval = (act, ms) => ms > 1000 ? 0 : every(act, ms); }"
#: The page's clock stands: whatever comes between them, two keys lie no time apart.
AT_ONCE = "performance.now = () => 1"
AXE = Path(__file__).parent / "vendor" / "axe.min.js"


class Watched:
    """A page whose console errors and CSP violations are collected; `axe` finds what keeps people out."""

    def __init__(self, context: BrowserContext) -> None:
        self.context = context
        self.faults: list[str] = []
        context.add_init_script(
            "window.violations = []; addEventListener('securitypolicyviolation',"
            " (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));"
        )
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        self.page.on("console", self._heard)

    def _heard(self, message: Any) -> None:
        # A 4xx page that a test asks for is told by the browser as a failed resource.
        if (
            message.type == "error"
            and "the server responded with a status of 4" not in message.text
        ):
            self.faults.append(f"console: {message.text}")

    def violations(self) -> list[str]:
        found: list[str] = self.page.evaluate("window.violations")
        return found

    def axe(self) -> list[str]:
        if not self.page.evaluate("'axe' in window"):  # once for a document; it takes a while
            self.page.evaluate(AXE.read_text())
        found = self.page.evaluate(
            "axe.run(document, {resultTypes: ['violations'], iframes: false, preload: false,"
            " runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']})"
        )
        return [
            f"{rule['id']}: {rule['help']} — {[node['html'][:160] for node in rule['nodes'][:3]]}"
            for rule in found["violations"]
        ]


Open = Callable[..., Watched]


@pytest.fixture
def opened(browser: Browser, live_server: Any) -> Iterator[Open]:
    """`opened(user=…, width=…, dark=…, scripts=…, polls=…)`: a browser window, signed in by its session cookie."""
    contexts: list[BrowserContext] = []

    def open_window(
        *,
        user: Any = None,
        width: int = 1440,
        height: int = 900,
        dark: bool = False,
        scripts: bool = True,
        polls: bool = True,
    ) -> Watched:
        context = browser.new_context(
            base_url=live_server.url,
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
            reduced_motion="reduce",
        )
        contexts.append(context)
        if not polls:
            context.add_init_script(STILL)
        if user is not None:
            context.add_cookies([session_cookie(user, live_server.url)])
        return Watched(context)

    yield open_window
    for context in contexts:
        context.close()


def session_cookie(user: Any, url: str) -> Any:
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    name = settings.SESSION_COOKIE_NAME
    return {"name": name, "value": client.cookies[name].value, "url": url}


#: Put back from a snapshot into an empty database: whoever adds rows to them asks for them first.
WORLDS = ("scene", "desk", "siege", "shadowed", "ground")


@pytest.fixture
def scene(transactional_db: None) -> Scene:
    return restored(scenes.compose)


@pytest.fixture
def desk(transactional_db: None) -> Desk:
    return restored(compose_desk)


@pytest.fixture
def siege(transactional_db: None) -> Siege:
    return restored(compose_siege)


@pytest.fixture
def worlds(request: pytest.FixtureRequest, transactional_db: None) -> None:
    """The worlds that the test asks for, before anybody else is there."""
    for name in WORLDS:
        if name in request.fixturenames:
            request.getfixturevalue(name)


@pytest.fixture
def operator(worlds: None) -> Any:
    return person("olga", "operator")


@pytest.fixture
def admin(worlds: None) -> Any:
    return person("ada", "admin")


@pytest.fixture
def viewer(worlds: None) -> Any:
    return person("viktor", "viewer")


@pytest.fixture
def signed_in(client: Client, operator: Any) -> Client:
    client.force_login(operator, backend="django.contrib.auth.backends.ModelBackend")
    return client


__all__ = ["PASSWORD", "Open", "Watched"]
