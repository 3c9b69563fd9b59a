"""What every case starts and ends with."""

import pytest

from coordinator.models import Queue
from tests import world
from tests.api.conftest import api
from tests.history import history_holds

__all__ = ["api", "history_holds"]


@pytest.fixture
def lane() -> Queue:
    """The queue `q`, with many attempts and the shortest backoff."""
    return world.queue(max_attempts=100, retry_backoff_seconds=0)
