"""The example as `up` starts it: a review to its end, one worker frozen past its lease, and a quiet stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.models import Attempt, Run
from coordinator.tasks import sweep
from tests.sdk.conftest import Site
from tests.sdk.served import ROOT
from tests.sdk.threads import PATIENCE_SECONDS


@pytest.fixture
def swept(transactional_db: None) -> Iterator[None]:
    """The sweep each second, as Celery's beat has it."""
    over = threading.Event()

    def run() -> None:
        from django.db import connection

        while not over.wait(0.5):
            sweep()
        connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    for number in range(12):
        (made / f"module_{number:02}.py").write_text(
            f"import module_{(number + 1) % 12:02}\n\n\ndef f():\n    pass\n"
        )
    return made


def _fleet(site: Site, folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable, "-m", "examples.review_fleet", "--queue", site.queue, "--workers", "3",
            "--pace", "0.05", "--reports", str(folder.parent / "reports"), *more,
        ],
        cwd=ROOT,
        env={
            **os.environ,
            "TENURE_URL": site.url,
            "TENURE_TOKEN": site.token,
            "TENURE_DEMO_FOLDER": str(folder),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def _until(process: subprocess.Popen[str], *wanted: str) -> str:
    """Everything said until all of these were."""
    assert process.stdout is not None
    said = ""
    watchdog = threading.Timer(PATIENCE_SECONDS, process.kill)
    watchdog.start()
    try:
        for line in process.stdout:
            said += line
            if all(part in said for part in wanted):
                return said
    finally:
        watchdog.cancel()
    raise AssertionError(f"the fleet ended without {wanted}:\n{said}")


def test_the_review_comes_to_its_end_although_a_worker_was_frozen_past_its_lease(
    site: Site, folder: Path, swept: None
) -> None:
    process = _fleet(site, folder)
    try:
        said = _until(
            process, "waits for more work", "commit is refused: FENCED (STALE_GENERATION)"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()
    assert "ada is frozen (SIGSTOP)" in said
    assert "over after" in said
    run = Run.objects.get()
    assert run.state == "COMMITTED"
    assert f"{site.url}/runs/{run.run_id}" in said
    [report] = (folder.parent / "reports").iterdir()
    assert "imports itself in a circle" in report.read_text()
    states = sorted(Attempt.objects.values_list("state", flat=True))
    assert states == ["COMMITTED"] * 14 + ["FENCED"]


def test_a_fleet_that_is_started_again_goes_on_with_what_was_left(
    site: Site, folder: Path, swept: None
) -> None:
    first = _fleet(site, folder, "--no-freeze", "--pace", "1.0")
    try:
        _until(first, "of 14 nodes committed")
        first.send_signal(signal.SIGTERM)
        assert first.wait(60) == 0
    finally:
        first.kill()
        first.communicate()
    assert Run.objects.get().state == "ACTIVE"
    second = _fleet(site, folder, "--no-freeze")
    try:
        said = _until(second, "waits for more work")
    finally:
        second.terminate()
        second.communicate()
    assert "goes on with its review" in said
    assert Run.objects.get().state == "COMMITTED"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--folder", "/nowhere"], "is no folder"),
        (["--queue", "no-such-queue"], "has no queue 'no-such-queue'"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_1(
    arguments: list[str], told: str, site: Site, folder: Path
) -> None:
    command = [sys.executable, "-m", "examples.review_fleet", *arguments]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={
            **os.environ,
            "TENURE_URL": site.url,
            "TENURE_TOKEN": site.token,
            "TENURE_DEMO_FOLDER": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
