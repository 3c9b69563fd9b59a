"""kill -9 in the middle of a run: afterwards it completes, with one canonical commit a task."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.crash.running import Installation, kill
from tests.site.conftest import state_folder
from tests.site.launching import Up

# One process of the test run keeps the shared installation.
pytestmark = [pytest.mark.xdist_group("crash"), pytest.mark.slow]


@pytest.fixture(scope="module")
def installation() -> Iterator[Installation]:
    """Shared: whatever is killed in it, it runs again afterwards."""
    with state_folder() as folder:
        made = Installation.of(Up(folder / "var").until_running())
        yield made
        assert made.up.stop(signal.SIGTERM) == 0, made.up.told()


def test_a_killed_worker_leaves_its_tasks_to_the_next_one(installation: Installation) -> None:
    run = installation.submit()
    with ExitStack() as stack:
        victim = installation.worker(stack)
        run.until_halfway()
        kill(victim)
        installation.worker(stack)  # started again, as a supervisor would
        run.until_complete()
    run.must_be_whole()


@pytest.mark.parametrize(
    "word",
    [
        pytest.param(" -m granian ", id="the web server"),
        pytest.param("coordinator.site.celery worker", id="the Celery worker"),
        pytest.param(" --schedule ", id="Celery beat"),
        pytest.param("bin/postgres -D", id="PostgreSQL"),
    ],
)
def test_a_killed_part_comes_back_and_the_run_completes(
    installation: Installation, word: str
) -> None:
    run = installation.submit()
    with ExitStack() as stack:
        for _ in range(2):
            installation.worker(stack)
        run.until_halfway()
        installation.kill_part(word)
        run.until_complete()
    run.must_be_whole()
    assert not installation.up.has_ended()


def test_everything_killed_at_once_goes_on_with_the_same_data(installation: Installation) -> None:
    """All of `up` and both workers, as in a power cut; then all of it is started again."""
    run = installation.submit()
    with ExitStack() as stack:
        victims = [installation.worker(stack) for _ in range(2)]
        run.until_halfway()
        installation.kill_everything()
        for victim in victims:
            kill(victim)
    installation.start_again()
    with ExitStack() as stack:
        for _ in range(2):
            installation.worker(stack)
        run.until_complete()
    run.must_be_whole()
