"""What a web process has done before its first request."""

import os
import subprocess
import sys

_TELL = """
import gc, sys
import coordinator.site.wsgi
routes = "coordinator.api.views.claims" in sys.modules
print(gc.get_freeze_count(), gc.get_threshold()[0], len(gc.get_objects()), routes)
"""


def test_the_collector_looks_at_nothing_that_stays_and_every_route_is_loaded() -> None:
    """Else a full collection stops it for a tenth of a second, every few seconds of load."""
    told = subprocess.run(
        [sys.executable, "-c", _TELL],
        env=os.environ.copy(),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    frozen, young, looked_at, routes = told.stdout.split()
    assert int(frozen) > 50_000
    assert int(looked_at) < int(frozen) / 20
    assert int(young) >= 10_000
    assert routes == "True"
