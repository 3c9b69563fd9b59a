"""What an installation gives away by itself: its cookies, its pins, its errors."""

import re
from pathlib import Path
from typing import Any, Final

import pytest
from django.test import Client

from tests.site.test_settings import SOUND, settings_with

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PIN: Final = re.compile(r"[a-z0-9][a-z0-9._-]*(\[[a-z0-9,_-]+\])?==[0-9][A-Za-z0-9.!+]*( ; .+)?")


def test_cookies_of_production_are_kept_from_scripts_from_other_sites_and_from_plain_http() -> None:
    names = [
        f"{kind}_COOKIE_{flag}"
        for kind in ("SESSION", "CSRF")
        for flag in ("SECURE", "HTTPONLY", "SAMESITE")
    ]
    shown = settings_with(
        *names, "DEBUG", "X_FRAME_OPTIONS", "SECURE_CONTENT_TYPE_NOSNIFF", **SOUND
    )
    assert shown == {
        **{name: "Lax" if name.endswith("SAMESITE") else True for name in names},
        "DEBUG": False,
        "X_FRAME_OPTIONS": "DENY",
        "SECURE_CONTENT_TYPE_NOSNIFF": True,
    }


@pytest.mark.parametrize("name", ["server.txt", "dev.txt"])
def test_every_dependency_is_pinned_to_one_version_and_comes_from_the_index(name: str) -> None:
    lines = (ROOT / "requirements" / name).read_text().splitlines()
    pinned = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    assert len(pinned) > 30
    assert not [line for line in pinned if not PIN.fullmatch(line)]
    names = [line.partition("==")[0] for line in pinned if " ; " not in line]
    assert len(names) == len(set(names))


def test_what_the_server_runs_is_what_was_tested() -> None:
    """A version that only production has is one that no test has seen."""
    told: list[dict[str, str]] = []
    for name in ("server.txt", "dev.txt"):
        lines = (ROOT / "requirements" / name).read_text().splitlines()
        pins = [line.partition("==") for line in lines if PIN.fullmatch(line)]
        told.append({package: version.partition(" ")[0] for package, _, version in pins})
    server, dev = told
    assert {name: dev.get(name) for name in server} == server


@pytest.mark.django_db
def test_an_error_page_tells_nothing_of_the_server(client: Client, settings: Any) -> None:
    assert settings.DEBUG is False
    for path in ("/nothing/../here", "/admin/nothing/", "/api/v1/nothing", "/static/../coordinator/site/settings.py",
                 "/static/%2e%2e/%2e%2e/etc/passwd", "/.env", "/.git/config"):  # fmt: skip
        answer = client.get(path)
        text = answer.content.decode()
        assert answer.status_code in (302, 404), path
        assert not re.search(
            r"Traceback|urlpatterns|SECRET|/site-packages|DATABASE_URL|root:", text
        ), path
