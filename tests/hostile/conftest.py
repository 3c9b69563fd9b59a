"""What an attacker meets: the console in full use, and the API's small world."""

from typing import Any

import pytest

from tests.api.conftest import api
from tests.console.conftest import admin, operator, scene, viewer, worlds
from tests.snapshots import restored

from .ground import Ground, compose_ground

__all__ = ["admin", "api", "operator", "scene", "viewer", "worlds"]


@pytest.fixture
def ground(transactional_db: Any) -> Ground:
    return restored(compose_ground)
