"""The checks that every story ends with, and the lane that they are told in."""

import pytest

from coordinator.actors import Worker
from tests import world
from tests.history import history_holds

__all__ = ["history_holds"]


@pytest.fixture
def by() -> Worker:
    """A worker of the queue `q` and its blue pool; the green pool has a worker too."""
    world.queue(max_attempts=100, retry_backoff_seconds=0)
    world.worker(name="fleet-green", pool_name="green")
    return world.worker()
