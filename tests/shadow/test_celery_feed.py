"""A real Celery application on a real broker, watched by one line: what it does is judged (contract 13).

The broker is the queues in the same PostgreSQL; a message that is not acknowledged in time is delivered again.
"""

import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from coordinator.models import ShadowEvent, ShadowRound
from coordinator.site.broker import install_queues
from tests.races.crowd import database_url
from tests.sdk.conftest import Site, served, site
from tests.sdk.served import ROOT
from tests.site.waiting import until

from .feeds import settle

__all__ = ["served", "site"]
pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

_NUMBERS = itertools.count(1)


@dataclass
class Legacy:
    """Somebody's Celery application: its messages, and its workers, each a real process."""

    site: Site
    folder: Path
    stack: ExitStack
    prefix: str = field(default_factory=lambda: f"legacy{next(_NUMBERS)}_")
    lease_seconds: float = 60.0

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "LEGACY_BROKER": make_conninfo(**conninfo_to_dict(database_url())),  # type: ignore[arg-type]
            "LEGACY_PREFIX": self.prefix,
            "LEGACY_LEASE_SECONDS": str(self.lease_seconds),
            "TENURE_URL": self.site.url,
            "TENURE_TOKEN": self.site.token_for("shadow"),
            "TENURE_QUEUE": self.site.queue,
        }

    def worker(self, name: str, pool: str = "prefork") -> "subprocess.Popen[bytes]":
        """In a session of its own: with prefork, a main process and the child that does the work."""
        with (self.folder / f"{name}.log").open("ab") as log:
            started = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "celery",
                    "-A",
                    "tests.shadow.legacy_app",
                    "worker",
                    "--hostname",
                    f"{name}@legacy",
                    "--pool",
                    pool,
                    "--concurrency",
                    "1",
                    "--without-gossip",
                    "--without-mingle",
                    "--without-heartbeat",
                    "--loglevel",
                    "WARNING",
                ],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.stack.callback(end, started)
        return started

    def send(self, task: str, *arguments: str) -> str:
        """Publish a task, as a process of the application does; its id."""
        code = (
            "import sys; from tests.shadow import legacy_app as l;"
            f" print(getattr(l, '{task}').delay(*sys.argv[1:]).id)"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def begun(self) -> list[int]:
        """The processes that have begun the waiting task, by their order."""
        marks = sorted(self.folder.glob("began-*"), key=lambda mark: mark.stat().st_mtime_ns)
        return [int(mark.name.removeprefix("began-")) for mark in marks]

    def go(self) -> None:
        (self.folder / "go").write_text("")


def end(process: "subprocess.Popen[bytes]") -> None:
    """The worker and all of its children, frozen ones too."""
    for number in (signal.SIGCONT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
    process.wait(30)


@pytest.fixture
def legacy(site: Site, tmp_path: Path) -> Iterator[Legacy]:
    with psycopg.connect(database_url(), autocommit=True) as database:
        install_queues(database)
    with ExitStack() as stack:
        yield Legacy(site, tmp_path, stack)


def events(task_id: str) -> list[str]:
    return list(
        ShadowEvent.objects.filter(task_key=task_id)
        .exclude(event="RENEWED")
        .order_by("at")
        .values_list("event", flat=True)
    )


def has(task_id: str, *kinds: str) -> Callable[[], bool]:
    return lambda: events(task_id) == list(kinds)


def lapsed(legacy: Legacy) -> Callable[[], bool]:
    """Whether a lease has run out that nobody renews from now on: who comes earlier claims what is still held."""
    ends_at = time.monotonic() + legacy.lease_seconds
    return lambda: time.monotonic() > ends_at


def judged(task_id: str) -> ShadowRound:
    """Its only round, after the windows have passed: everything lies an hour back."""
    from django.db import connection

    from tests import world

    with world.guarded(), connection.cursor() as cursor:
        cursor.execute("ALTER TABLE coordinator_shadowevent DISABLE TRIGGER shadowevent_is_final")
        cursor.execute("UPDATE coordinator_shadowevent SET at = at - interval '1 day'")
        cursor.execute("ALTER TABLE coordinator_shadowevent ENABLE TRIGGER shadowevent_is_final")
    settle()
    return ShadowRound.objects.get(task_key=task_id)


def test_a_task_delivered_again_while_its_worker_lives_is_a_double_claim(legacy: Legacy) -> None:
    task_id = legacy.send("wait_for", str(legacy.folder))
    for name in ("a", "b"):
        legacy.worker(name)
    until(lambda: len(legacy.begun()) == 2, "the broker to deliver it a second time")
    legacy.go()
    until(has(task_id, "CLAIMED", "CLAIMED", "COMMITTED", "COMMITTED"), "both to be told")
    found = judged(task_id)
    assert found.verdict == "DOUBLE_CLAIM"
    first, second = legacy.begun()
    assert f"a@legacy/{first}" in found.mismatches or f"b@legacy/{first}" in found.mismatches
    assert str(second) in found.mismatches


def test_a_frozen_worker_that_wakes_up_after_it_was_replaced_commits_late(legacy: Legacy) -> None:
    legacy.lease_seconds = 1.5
    task_id = legacy.send("wait_for", str(legacy.folder))
    legacy.worker("a")
    until(lambda: len(legacy.begun()) == 1, "the first to begin")
    until(has(task_id, "CLAIMED"), "its claim to be told")
    (frozen,) = legacy.begun()
    os.kill(frozen, signal.SIGSTOP)
    until(lapsed(legacy), "its lease to run out")
    legacy.worker("b")
    until(lambda: len(legacy.begun()) == 2, "the broker to deliver it to the other")
    legacy.go()
    until(has(task_id, "CLAIMED", "CLAIMED", "COMMITTED"), "the other to finish")
    os.kill(frozen, signal.SIGCONT)
    until(has(task_id, "CLAIMED", "CLAIMED", "COMMITTED", "COMMITTED"), "the first to finish, too")
    assert judged(task_id).verdict == "LATE_COMMIT"


def test_a_task_of_a_killed_worker_is_taken_over_and_both_sides_agree(legacy: Legacy) -> None:
    legacy.lease_seconds = 1.5
    task_id = legacy.send("wait_for", str(legacy.folder))
    victim = legacy.worker("a")
    until(lambda: len(legacy.begun()) == 1, "the first to begin")
    until(has(task_id, "CLAIMED"), "its claim to be told")
    end(victim)
    until(lapsed(legacy), "its lease to run out")
    legacy.worker("b")
    until(lambda: len(legacy.begun()) == 2, "the broker to deliver it again")
    legacy.go()
    until(has(task_id, "CLAIMED", "CLAIMED", "COMMITTED"), "the other to finish")
    assert judged(task_id).verdict == "AGREE"


def test_retries_failures_and_rejections_are_told(legacy: Legacy) -> None:
    again = legacy.send("fails_once", str(legacy.folder))
    failed, rejected = legacy.send("fails"), legacy.send("is_rejected")
    legacy.worker("a", "solo")
    until(has(again, "CLAIMED", "RELEASED", "CLAIMED", "COMMITTED"), "the retry")
    until(has(failed, "CLAIMED", "FAILED"), "the failure")
    until(lambda: len(events(rejected)) > 1, "the rejection")
    assert events(rejected)[:2] == ["CLAIMED", "RELEASED"]
    committed = ShadowEvent.objects.get(task_key=again, event="COMMITTED")
    assert committed.result_digest is not None
    claims = ShadowEvent.objects.filter(task_key=again, event="CLAIMED")
    assert len({claim.input_digest for claim in claims}) == 1
    assert all(claim.owner.startswith("a@legacy/") for claim in claims)


def test_a_worker_that_stops_tells_the_last_of_it(legacy: Legacy) -> None:
    task_id = legacy.send("wait_for", str(legacy.folder))
    worker = legacy.worker("a")
    until(lambda: len(legacy.begun()) == 1, "it to begin")
    worker.terminate()
    legacy.go()
    worker.wait(60)
    assert events(task_id) == ["CLAIMED", "COMMITTED"]
