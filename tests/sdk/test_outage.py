"""The web server is killed while a fleet works: the fleet waits, comes back, and nothing is done twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from coordinator.models import CanonicalCommit, Task
from tenure import Claim
from tests.sdk.conftest import Site
from tests.sdk.served import Served
from tests.sdk.threads import PATIENCE_SECONDS, ended, started, until_counted


@pytest.fixture
def fragile(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A web server of this test's own."""
    server = Served(tmp_path_factory.mktemp("fragile") / "web.log")
    server.start()
    yield server
    server.kill()


def test_work_goes_on_after_kill_9_of_the_web_server_and_each_task_commits_once(
    site: Site, fragile: Served
) -> None:
    tasks = site.submit(24)
    worker = site.worker(url=fragile.url, concurrency=4, ttl_seconds=300)
    halfway = threading.Event()

    @worker.handler("work")
    def work(claim: Claim) -> int:
        number: int = claim.input["number"]
        if number == 8:
            halfway.set()
        threading.Event().wait(0.05)
        return number

    thread = started(worker)
    assert halfway.wait(PATIENCE_SECONDS)
    fragile.kill()
    fragile.start()
    until_counted(worker, "committed", 24)
    worker.stop()
    ended(thread)
    assert CanonicalCommit.objects.count() == len(tasks)
    assert set(Task.objects.values_list("state", flat=True)) == {"COMMITTED"}
    assert worker.counts["retries"] + worker.counts.get("waiting", 0) >= 1
