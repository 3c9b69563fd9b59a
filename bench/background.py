"""Celery's worker and beat beside a place, as `up` runs them, with its whole schedule."""

import subprocess
import sys
from types import TracebackType
from typing import Self

from bench.place import ROOT, Place
from coordinator.site.children import Child
from coordinator.site.fleet import Fleet, Surroundings


class Background:
    """The jobs of a place while it is entered. Their logs are in its folder."""

    def __init__(self, place: Place) -> None:
        self._place = place
        environment = place.environment
        fleet = Fleet(
            Surroundings(
                state=place.folder,
                host="127.0.0.1",
                port=place.port,
                url=place.target.url,
                database_url=environment["DATABASE_URL"],
                secret_key=environment["SECRET_KEY"],
            )
        )
        self._children = {
            "Celery worker": Child(fleet.worker()),
            "Celery beat": Child(fleet.beat()),
        }

    def __enter__(self) -> Self:
        """Also installs the broker's queues, as the first start of `up` does."""
        subprocess.run(
            [sys.executable, "-m", "coordinator.site.prepare"],
            cwd=ROOT,
            env=self._place.environment,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        for child in self._children.values():
            child.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for child in self._children.values():
            child.ask_to_stop()
        for child in self._children.values():
            child.stop(hurry=lambda: False)

    @property
    def roots(self) -> dict[str, int]:
        """Process ids by name."""
        return {name: child.process.pid for name, child in self._children.items() if child.process}

    def ended(self) -> list[str]:
        """Those that should run and don't."""
        return [name for name, child in self._children.items() if child.has_exited()]
