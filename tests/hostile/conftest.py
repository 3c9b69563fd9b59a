"""What an attacker meets: the console in full use, and the API's small world."""

from typing import Any

import pytest

from tests.api.conftest import _nothing_is_remembered, api
from tests.console.conftest import admin, operator, scene, viewer, worlds
from tests.snapshots import restored

from .ground import Ground, compose_ground

__all__ = ["_nothing_is_remembered", "admin", "api", "operator", "scene", "viewer", "worlds"]


@pytest.fixture
def ground(transactional_db: Any) -> Ground:
    return restored(compose_ground)
