"""The checks that every story ends with, and the lane that they are told in."""

import pytest

from coordinator.actors import Worker
from tests import world
from tests.history import history_holds

__all__ = ["history_holds"]


@pytest.fixture
def by() -> Worker:
    """A worker of the queue `q`, which has many attempts and the shortest backoff."""
    world.queue(max_attempts=100, retry_backoff_seconds=0)
    return world.worker()
