"""A small world behind the API: one queue, its fleet, and people of each role, each with a caller."""

from collections.abc import Iterator

import pytest

from coordinator.api.throttling import FAILURES

from . import callers
from .callers import Api


@pytest.fixture(autouse=True)
def _nobody_is_throttled() -> Iterator[None]:
    FAILURES.forget()
    yield
    FAILURES.forget()


@pytest.fixture
def api(db: None) -> Api:
    return callers.make_world()
