"""Photographs every page of the console: light and dark, 320, 768 and 1440 pixels wide.

    python -m tests.console.screenshots [FOLDER] [--only NAME] [--chosen]

Starts a database, a server and a browser of its own, composes the scene of the tests, and stops
everything again. `--chosen` takes only the few that stand in docs/screenshots.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests import plugin

WIDTHS: Final = (320, 768, 1440)
CHOSEN: Final = frozenset(
    {
        "overview-light-1440",
        "overview-dark-320",
        "task-timeline-light-1440",
        "task-timeline-dark-1440",
        "run-light-1440",
        "tasks-dark-1440",
        "approval-light-1440",
        "effect-dark-1440",
        "incident-bump-light-1440",
    }
)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", nargs="?", default="docs/screenshots", type=Path)
    parser.add_argument("--only", default="", help="only pages whose name begins so")
    parser.add_argument(
        "--chosen", action="store_true", help="only those that the documentation shows"
    )
    parser.add_argument("--width", type=int, action="append", help="instead of 320, 768 and 1440")
    parser.add_argument(
        "--scheme", choices=("light", "dark"), action="append", help="instead of both"
    )
    parser.add_argument("--language", default="en", help="what the browser asks for: en or zh")
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
    with _served() as url:
        from tests.console.conftest import session_cookie
        from tests.console.desk import compose_desk
        from tests.console.scene import compose, person
        from tests.console.siege import compose_siege, declare

        scene, user = compose(), person("ada", "admin")
        cookie = session_cookie(user, url)
        wanted.folder.mkdir(parents=True, exist_ok=True)
        pages = _pages(scene) | _desk_pages(compose_desk())
        _photograph(wanted, url, cookie, _only(wanted, pages))
        compose_siege()  # its banner stands on every page from here on
        _photograph(wanted, url, cookie, _only(wanted, _incident_pages(declare())))


def _only(wanted: argparse.Namespace, pages: dict[str, str]) -> dict[str, str]:
    return {name: path for name, path in pages.items() if name.startswith(wanted.only)}


def _desk_pages(desk: Any) -> dict[str, str]:
    return {
        "approvals": "/approvals",
        "approvals-decided": "/approvals?turn=decided",
        "approval": f"/approvals/{desk.refund}",
        "approval-superseded": f"/approvals/{desk.superseded}?turn=decided",
        "approval-expired": f"/approvals/{desk.expired}",
        "unknown": "/effects/unknown",
        "effect": f"/effects/{desk.mail}",
        "effect-unsealable": f"/effects/{desk.fax}",
        "effect-settled": f"/effects/{desk.settled}",
    }


def _incident_pages(incident_id: Any) -> dict[str, str]:
    return {
        "incidents": "/incidents",
        "incident-new": "/incidents/new",
        "incident-preview": f"/incidents/{incident_id}/step/2",
        "incident-bump": f"/incidents/{incident_id}/step/3",
        "incident-locked": f"/incidents/{incident_id}/step/5",
        "incident-abort": f"/incidents/{incident_id}/abort",
    }


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


def _pages(scene: Any) -> dict[str, str]:
    from tests.console import rollout

    rollout.shadowed()
    task, run = f"/tasks/{scene.fenced}", f"/runs/{scene.review.run_id}"
    return {
        "sign-in": "/sign-in",
        "overview": "/",
        "tasks": "/tasks",
        "tasks-none": "/tasks?owner=nobody",
        "runs": "/runs",
        "run": run,
        "run-unfolded": f"{run}?unfold=1",
        "run-lineage": f"{run}/lineage",
        "run-cancel": f"{run}/cancel",
        "task-timeline": task,
        "task-candidates": f"{task}/candidates",
        "task-events": f"{task}/events",
        "task-input": f"{task}/input",
        "task-raw": f"{task}/raw",
        "task-held": f"/tasks/{scene.held}",
        "task-failed": f"/tasks/{scene.failed}",
        "task-bumped": f"/tasks/{scene.bumped}",
        "task-cancelled": f"/tasks/{scene.cancelled}",
        "task-cancel": f"/tasks/{scene.held}/cancel",
        "task-revise": f"/tasks/{scene.held}/revise",
        "queues": "/queues",
        "queue": "/queues/nightly",
        "queue-intake": "/queues/review/intake",
        "credentials": "/credentials",
        "credential": f"/credentials/{scene.credential}",
        "credential-new": "/credentials/new",
        "credential-revoke": f"/credentials/{scene.credential}/revoke",
        "credential-rotate": f"/credentials/{scene.credential}/rotate",
        "tasks-faulty": "/tasks?q=stat:ready",
        "tasks-columns": "/tasks?queue=review&cols=state,run,kind,epoch,lease,owner,submitted",
        "views": "/tasks/views",
        "view-new": "/tasks/views/new?state=FAILED",
        "view-rename": f"/tasks/views/{scene.view}",
        "view-delete": f"/tasks/views/{scene.view}/delete",
        "bulks": "/tasks/bulk",
        "bulk-review": f"/tasks/bulk/{scene.bulk_review}",
        "bulk-snooze": f"/tasks/bulk/{scene.bulk_snooze}",
        "bulk-done": f"/tasks/bulk/{scene.bulk_job}",
        "bulk-stop": f"/tasks/bulk/{scene.bulk_review}/stop",
        "shadow": "/shadow",
        "shadow-queue": f"/shadow/{rollout.QUEUE}",
        "shadow-rounds": f"/shadow/{rollout.QUEUE}/rounds",
        "shadow-round": f"/shadow/rounds/{rollout.a_mismatch().round_id}",
        "shadow-promote": f"/shadow/{rollout.QUEUE}/promote",
        "shadow-demote": "/shadow/review/demote",
        "numbers": "/numbers",
        "figure": "/numbers/ready_to_commit",
        "figure-coverage": "/numbers/coverage",
        "integrity": "/audit/integrity",
        "audit": "/audit",
        "audit-refused": "/audit?refused=only&queue=review",
        "workers": "/workers",
        "pools": "/pools",
        "downstreams": "/downstreams",
        "downstream": "/downstreams/letters",
        "downstream-new": "/downstreams/new",
        "downstream-change": "/downstreams/letters/change",
        "people": "/people",
        "person": f"/people/{scene.approver}",
        "person-role": f"/people/{scene.approver}/role",
        "menu": "/more",
        "profile": "/profile",
        "shortcuts": "/shortcuts",
        "not-found": "/tasks/00000000-0000-0000-0000-000000000000",
    }


def _photograph(wanted: argparse.Namespace, url: str, cookie: Any, pages: dict[str, str]) -> None:
    from playwright.sync_api import sync_playwright

    from tests.browser import ARGUMENTS, CHROMIUM

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        for width in wanted.width or WIDTHS:
            for scheme in wanted.scheme or ("light", "dark"):
                context = browser.new_context(
                    base_url=url,
                    viewport={"width": width, "height": 900 if width > 400 else 640},
                    color_scheme=scheme,
                    reduced_motion="reduce",
                    locale="zh-CN" if wanted.language.startswith("zh") else "en-GB",
                )
                page = context.new_page()
                for name, path in pages.items():
                    if wanted.chosen and f"{name}-{scheme}-{width}" not in CHOSEN:
                        continue
                    context.clear_cookies()
                    if name != "sign-in":
                        context.add_cookies([cookie])
                    page.goto(path)
                    page.evaluate("document.fonts.ready.then(() => true)")
                    page.screenshot(
                        path=wanted.folder / f"{name}-{scheme}-{width}.png",
                        full_page=not wanted.chosen or name == "task-timeline",
                    )
                context.close()
        browser.close()


if __name__ == "__main__":
    main()
