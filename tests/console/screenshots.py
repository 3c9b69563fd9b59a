"""Photographs every page of the console: light and dark, 320, 768 and 1440 pixels wide.

    python -m tests.console.screenshots [FOLDER] [--only NAME] [--gallery]

Starts a database, a server and a browser of its own, composes the worlds of the tests, and stops
everything again. `--gallery` renews docs/screenshots: each page wide and light, narrow and dark, as
WebP, with the page that shows them.
"""

import argparse
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import plugin
from tests.console.album import Album, Shown, before_the_incident, during_an_incident

WIDTHS: Final = (320, 768, 1440)
SCHEMES: Final = ("light", "dark")
GALLERY: Final = (("light", 1440), ("dark", 320))
#: Beside those: pictures that other pages of the documentation show.
ALSO: Final = frozenset(
    {"task-timeline-dark-1440", "tasks-dark-1440", "effect-dark-1440", "overview-dark-1440"}
)
#: What is longer is cut in the gallery: a list goes on as it began.
LONGEST: Final = {1440: 1500, 768: 1500, 320: 1600}
QUALITY: Final = 72


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="docs/screenshots", type=Path)
    parser.add_argument("--only", default="", help="only pages whose name begins so")
    parser.add_argument("--gallery", action="store_true", help="those of the documentation")
    parser.add_argument("--width", type=int, action="append", help="instead of 320, 768 and 1440")
    parser.add_argument("--scheme", choices=SCHEMES, action="append", help="instead of both")
    parser.add_argument("--language", default="en", help="what the browser asks for: en or zh")
    parser.add_argument("--mirrored", action="store_true", help="from right to left")
    wanted = parser.parse_args()
    plugin.pytest_load_initial_conftests()
    try:
        _photograph_all(wanted)
    finally:
        plugin.pytest_unconfigure()


def _photograph_all(wanted: argparse.Namespace) -> None:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    import django

    django.setup()
    wanted.folder.mkdir(parents=True, exist_ok=True)
    with _served() as url, _unset("TENURE_STATE"):  # a folder that is nobody's would be shown
        from tests.console.conftest import session_cookie
        from tests.console.scene import person
        from tests.console.siege import compose_siege, declare

        reader = person("ada", "admin")
        album = before_the_incident(_compose(reader.pk))
        cookie = session_cookie(reader, url)
        _photograph(wanted, url, cookie, album)
        compose_siege()  # its banner stands on every page from here on
        incident = during_an_incident(declare())
        _photograph(wanted, url, cookie, incident)
        if wanted.gallery and not wanted.only:
            (wanted.folder / "README.md").write_text(told({**album, **incident}))


def _compose(reader: Any) -> Shown:
    from coordinator.models import OperatorToken
    from coordinator.services.audits import run_audit
    from tests import world
    from tests.console import desk, rollout, scene
    from tests.hostile.ground import asked_promotion

    asked = asked_promotion()
    found = scene.compose()
    rollout.shadowed()
    desks = desk.compose_desk()
    audit: Any = run_audit(reason="The yearly look at the history.", actor=world.operator())
    return Shown(
        scene=found,
        desk=desks,
        round_id=rollout.a_mismatch().round_id,
        shadowed=rollout.QUEUE,
        request_id=asked.request_id,
        audit_id=audit.audit_id,
        token_id=OperatorToken.objects.get(user_id=found.approver).pk,
        reader=reader,
    )


def told(album: Album) -> str:
    """The page of the gallery."""
    lines = [
        "# The console in pictures",
        "",
        (
            "Every page, wide and light, and narrow and dark; long ones are cut. Made by"
            " `python -m tests.console.screenshots --gallery`, from the worlds of the tests."
        ),
        "",
        " · ".join(f"[{chapter}](#{_anchor(chapter)})" for chapter in album),
    ]
    for chapter, pages in album.items():
        lines += ["", f"## {chapter}", "", "| page | wide | narrow |", "|---|---|---|"]
        for name in pages:
            wide, narrow = (
                f"![{name}, {scheme}, {width} pixels wide]({name}-{scheme}-{width}.webp)"
                for scheme, width in GALLERY
            )
            lines.append(f"| {name.replace('-', ' ')} | {wide} | {narrow} |")
    return "\n".join(lines) + "\n"


def _anchor(chapter: str) -> str:
    return chapter.lower().replace(" ", "-")


@contextmanager
def _unset(name: str) -> Iterator[None]:
    import os

    kept = os.environ.pop(name, None)
    try:
        yield
    finally:
        if kept is not None:
            os.environ[name] = kept


@contextmanager
def _served() -> Iterator[str]:
    from django.db import connections
    from django.test.runner import DiscoverRunner
    from pytest_django.live_server_helper import LiveServer

    runner = DiscoverRunner(verbosity=0, interactive=False)
    runner.setup_test_environment()
    databases = runner.setup_databases()
    server = LiveServer("localhost")
    try:
        yield server.url
    finally:
        server.stop()
        connections.close_all()
        runner.teardown_databases(databases)


def _photograph(wanted: argparse.Namespace, url: str, cookie: Any, album: Album) -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser import ARGUMENTS, CHROMIUM

    pages = {name: path for chapter in album.values() for name, path in chapter.items()}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for width in wanted.width or WIDTHS:
            for scheme in wanted.scheme or SCHEMES:
                context = browser.new_context(
                    base_url=url,
                    viewport={"width": width, "height": 900 if width > 400 else 640},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                    locale="zh-CN" if wanted.language.startswith("zh") else "en-GB",
                )
                page = context.new_page()
                for name, path in pages.items():
                    if not _is_wanted(wanted, name, scheme, width):
                        continue
                    context.clear_cookies()
                    if name not in ("sign-in", "welcome"):
                        context.add_cookies([cookie])
                    page.goto(path)
                    page.evaluate("document.fonts.ready.then(() => true)")
                    if wanted.mirrored:
                        page.evaluate("document.documentElement.dir = 'rtl'")
                    target = wanted.folder / f"{name}-{scheme}-{width}"
                    if wanted.gallery:
                        _keep(page, target.with_suffix(".webp"), width)
                    else:
                        page.screenshot(path=target.with_suffix(".png"), full_page=True)
                context.close()
        browser.close()


def _is_wanted(wanted: argparse.Namespace, name: str, scheme: str, width: int) -> bool:
    if not name.startswith(wanted.only):
        return False
    chosen = (scheme, width) in GALLERY or f"{name}-{scheme}-{width}" in ALSO
    return chosen or not wanted.gallery


def _keep(page: Any, target: Path, width: int) -> None:
    """A small picture: what chromium can write and Playwright does not ask it for."""
    height = min(LONGEST[width], page.evaluate("document.documentElement.scrollHeight"))
    page.set_viewport_size(
        {"width": width, "height": height}
    )  # the bar of a phone stands at the end
    answer = page.context.new_cdp_session(page).send(
        "Page.captureScreenshot", {"format": "webp", "quality": QUALITY}
    )
    target.write_bytes(base64.b64decode(answer["data"]))
    page.set_viewport_size({"width": width, "height": 900 if width > 400 else 640})


if __name__ == "__main__":
    main()
