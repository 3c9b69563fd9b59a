"""A small world behind the API: one queue, its fleet, and people of each role, each with a caller."""

import pytest
from django.db import connection

from . import callers
from .callers import Api


@pytest.fixture
def api(db: None) -> Api:
    """Rolled back at the end, so that the test is one transaction, and may take as long as a busy machine needs."""
    with connection.cursor() as cursor:
        for timeout in ("idle_in_transaction_session_timeout", "statement_timeout"):
            cursor.execute("SELECT set_config(%s, '0', true)", [timeout])
    return callers.make_world()
