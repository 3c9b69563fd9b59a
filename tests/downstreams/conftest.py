from __future__ import annotations

import os
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.sdk.conftest import history_holds, served, site

__all__ = ["history_holds", "served", "site"]


@pytest.fixture
def database() -> dict[str, Any]:
    """How the tests' PostgreSQL is reached; a database of one's own is made through it."""
    return dict(conninfo_to_dict(os.environ["DATABASE_URL"]))
