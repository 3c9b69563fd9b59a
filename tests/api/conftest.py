"""A small world behind the API: one queue, its fleet, and people of each role, each with a caller."""

from collections.abc import Iterator

import pytest
from django.db import connection

from coordinator.api.remembering import WORKERS
from coordinator.api.throttling import FAILURES
from coordinator.services import queue_ids

from . import callers
from .callers import Api


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What the process keeps between requests belongs to one test's database."""
    for forget in (FAILURES.forget, WORKERS.forget, queue_ids.forget):
        forget()
    yield
    for forget in (FAILURES.forget, WORKERS.forget, queue_ids.forget):
        forget()


@pytest.fixture
def api(db: None) -> Api:
    """Rolled back at the end, so that the test is one transaction, and may take as long as a busy machine needs."""
    with connection.cursor() as cursor:
        for timeout in ("idle_in_transaction_session_timeout", "statement_timeout"):
            cursor.execute("SELECT set_config(%s, '0', true)", [timeout])
    return callers.make_world()
