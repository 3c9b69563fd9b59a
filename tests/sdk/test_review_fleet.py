"""The example as `up` starts it: a review, one worker frozen past its lease, and a quiet stop."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from coordinator.models import Attempt, Run
from tests import world
from tests.sdk.conftest import Site
from tests.sdk.fleets import Fleet, Sweeping, project, register_outside, surroundings
from tests.sdk.served import ROOT

WAITS = "the mail waits for a person"


@pytest.fixture
def swept(transactional_db: None) -> Iterator[None]:
    register_outside()
    with Sweeping():
        yield


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return project(tmp_path)


def test_the_review_comes_to_its_end_although_a_worker_was_frozen_past_its_lease(
    site: Site, folder: Path, swept: None
) -> None:
    # Only the frozen one's lease ever lapses, however long a busy machine lets the others stand still.
    with Fleet(site, folder, "--practice", "--ttl", "60") as fleet:
        fleet.until("ada is frozen (SIGSTOP)")
        world.lapse(Attempt.objects.get(owner__startswith="ada-", state="STARTED").task_id)
        said = fleet.until(WAITS, "commit is refused: FENCED (STALE_GENERATION)")
        assert fleet.stop() == 0
    assert "practice │ left out: an administrator makes practice" in said
    assert "ada is frozen (SIGSTOP)" in said
    assert "over after" in said
    run = Run.objects.get()
    assert f"{site.url}/runs/{run.run_id}" in said
    [report] = (folder.parent / "reports").iterdir()
    assert "imports itself in a circle" in report.read_text()
    states = sorted(Attempt.objects.values_list("state", flat=True))
    assert states == ["COMMITTED"] * 16 + ["FENCED", "PARKED"]


def test_a_fleet_that_is_started_again_goes_on_with_what_was_left(
    site: Site, folder: Path, swept: None
) -> None:
    with Fleet(site, folder, "--no-freeze", "--pace", "1.0") as first:
        first.until("of 17 nodes committed")
        assert first.stop() == 0
    assert Run.objects.get().state == "ACTIVE"
    with Fleet(site, folder, "--no-freeze") as second:
        said = second.until(WAITS)
        assert second.stop() == 0
    assert "goes on with its review" in said
    assert Run.objects.count() == 1


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--folder", "/nowhere"], "is no folder"),
        (["--queue", "no-such-queue"], "has no queue 'no-such-queue'"),
        ([], "An administrator registers the downstreams review-git, review-store, review-mail"),
    ],
)
def test_what_cannot_work_is_one_line_and_exit_code_1(
    arguments: list[str], told: str, site: Site, folder: Path
) -> None:
    outside = str(folder.parent / "outside")
    command = [sys.executable, "-m", "examples.review_fleet", "--outside", outside]
    done = subprocess.run(
        [*command, "--queue", site.queue, *arguments],
        cwd=ROOT,
        env=surroundings(site, folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
