"""The example's fleet as a process of its own, and what it needs of a coordinator."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

from coordinator.actors import system
from coordinator.services.downstreams import register_downstream
from coordinator.site.demo import DEMO_DOWNSTREAMS
from coordinator.tasks import sweep
from tests.sdk.conftest import Site
from tests.sdk.served import ROOT
from tests.sdk.threads import PATIENCE_SECONDS


class Sweeping:
    """The sweep each second, as Celery's beat has it."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(PATIENCE_SECONDS)

    def _run(self) -> None:
        from django.db import connection

        while not self._over.wait(0.5):
            sweep()
        connection.close()


class Fleet:
    """`examples.review_fleet` on a folder; killed at the end of the `with`, whatever happened."""

    def __init__(self, site: Site, folder: Path, *more: str, **environment: str) -> None:
        self.said = ""
        self._process = subprocess.Popen(
            [
                sys.executable, "-m", "examples.review_fleet", "--queue", site.queue, "--workers", "3",
                "--pace", "0.05", "--reports", str(folder.parent / "reports"),
                "--outside", str(folder.parent / "outside"), *more,
            ],
            cwd=ROOT,
            env=surroundings(site, folder) | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def until(self, *wanted: str) -> str:
        """Everything said until all of these were."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(PATIENCE_SECONDS, self._process.kill)
        watchdog.start()
        try:
            for line in self._process.stdout:
                self.said += line
                if all(part in self.said for part in wanted):
                    return self.said
        finally:
            watchdog.cancel()
        raise AssertionError(f"the fleet ended without {wanted}:\n{self.said}")

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)


def surroundings(site: Site, folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "TENURE_URL": site.url,
        "TENURE_TOKEN": site.token,
        "TENURE_DEMO_FOLDER": str(folder),
    }


def project(folder: Path) -> Path:
    """A small project whose modules import each other in a circle."""
    made = folder / "project"
    made.mkdir()
    for number in range(12):
        (made / f"module_{number:02}.py").write_text(
            f"import module_{(number + 1) % 12:02}\n\n\ndef f():\n    pass\n"
        )
    return made


def register_outside() -> None:
    """The downstreams of the example, as `up` registers them."""
    for name, kind, guarantee in DEMO_DOWNSTREAMS:
        register_downstream(name=name, kind=kind, guarantee=guarantee, actor=system("tests"))
