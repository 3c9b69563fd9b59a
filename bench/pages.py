"""How long the console's pages take to their first byte, with as many tasks as stand in the queue by then."""

import http.client
import json
import re
import secrets
import time
from typing import Any, Final
from urllib.parse import urlencode

from bench.clients import percentile
from bench.place import QUEUE, Place

PATHS: Final = (
    "/",
    "/runs",
    "/tasks",
    "/tasks?state=READY",
    "/tasks?state=COMMITTED",
    f"/tasks?queue={QUEUE}&state=READY",
    f"/tasks?queue={QUEUE}&state=FAILED",
    "/queues",
    "/workers",
    "/approvals",
    "/effects/unknown",
    "/incidents",
    "/shadow",
    "/numbers",
    "/audit",
    "/credentials",
    "/downstreams",
)
TIMES: Final = 20


def first_bytes(place: Place) -> list[dict[str, Any]]:
    """Milliseconds to the first byte of each page, as one admin who asks for it again and again."""
    browser = signed_in(place, "bench-admin")
    rows = []
    for path in PATHS:
        browser.get(path)  # what is made once is not what is measured
        waits = sorted(browser.get(path) for _ in range(TIMES))
        rows.append(
            {
                "page": path,
                "p50_ms": round(percentile(waits, 0.5), 1),
                "p95_ms": round(percentile(waits, 0.95), 1),
            }
        )
    return rows


def signed_in(place: Place, name: str) -> "Browser":
    """A new admin with a browser. The place may have been in use before, so that the name gets an ending."""
    name = f"{name}-{secrets.token_hex(4)}"
    told = place.manage("create_operator", name, "--role", "admin", "--json")
    browser = Browser(place.port)
    browser.sign_in(name, json.loads(told)["password"])
    return browser


def _token(page: str) -> str:
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert token is not None, page[:300]
    return token[1]


class Browser:
    """One kept connection with its cookies."""

    def __init__(self, port: int) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.cookies: dict[str, str] = {}

    def sign_in(self, name: str, password: str) -> None:
        _, page = self._ask("GET", "/sign-in")
        form = {"csrfmiddlewaretoken": _token(page), "username": name, "password": password}
        status, page = self._ask("POST", "/sign-in", urlencode(form))
        assert status == 302, page[:300]

    def read(self, path: str) -> str:
        status, page = self._ask("GET", path)
        assert status == 200, (path, status, page[:300])
        return page

    def get(self, path: str) -> float:
        """Milliseconds to the page."""
        begin = time.perf_counter()
        status, page = self._ask("GET", path)
        assert status == 200, (path, status, page[:300])
        return (time.perf_counter() - begin) * 1000

    def post(self, path: str, body: str) -> tuple[int, str]:
        """A call of the API, as the console's scripts make it: JSON, with the page's token."""
        token = _token(self.read("/"))
        return self._ask(
            "POST", path, body, {"Content-Type": "application/json", "X-CSRFToken": token}
        )

    def _ask(
        self, method: str, path: str, body: str | None = None, more: dict[str, str] | None = None
    ) -> tuple[int, str]:
        headers = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())}
        if body is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        headers |= more or {}
        try:
            response = self._sent(method, path, body, headers)
        except http.client.RemoteDisconnected:  # the server closes what was idle for long
            self.connection.close()
            response = self._sent(method, path, body, headers)
        for cookie in response.headers.get_all("Set-Cookie") or ():
            name, _, value = cookie.partition(";")[0].partition("=")
            self.cookies[name] = value
        return response.status, response.read().decode()

    def _sent(
        self, method: str, path: str, body: str | None, headers: dict[str, str]
    ) -> http.client.HTTPResponse:
        self.connection.request(method, path, body, headers)
        return self.connection.getresponse()
