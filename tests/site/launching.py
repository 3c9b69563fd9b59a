"""`manage.py up` as a person starts it: a process of its own, with nothing of the test run's environment."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import IO

from tests.site.waiting import until

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OURS_ALONE = (
    "DATABASE_URL",
    "CELERY_BROKER_URL",
    "SECRET_KEY",
    "ALLOWED_HOSTS",
    "DEBUG",
    "DJANGO_ALLOW_ASYNC_UNSAFE",
)


def environment(**extra: str) -> dict[str, str]:
    mine = {
        name: value
        for name, value in os.environ.items()
        if name not in OURS_ALONE and not name.startswith("TENURE_")
    }
    return {**mine, **extra}


def manage(*words: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """A `manage.py` command that ends by itself."""
    return subprocess.run(
        [sys.executable, "manage.py", *words],
        cwd=CHECKOUT,
        env=environment(**extra),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Up:
    """One running `up`."""

    def __init__(
        self, state: Path, *, port: int | None = None, demo: Path | None = None, **extra: str
    ) -> None:
        """`demo`: the folder that the example fleet reviews; None leaves the fleet out."""
        self.state = state
        self.port = port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._told: IO[str] = (state.parent / f"{state.name}.{self.port}.told").open("w+")
        self.process = subprocess.Popen(
            [
                sys.executable, "manage.py", "up",
                "--state", str(state), "--port", str(self.port), *([] if demo else ["--no-demo"]),
            ],
            cwd=CHECKOUT,
            env=environment(TENURE_DEMO_FOLDER=str(demo or ""), **extra),
            stdin=subprocess.DEVNULL,
            stdout=self._told,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip

    def told(self) -> str:
        return Path(self._told.name).read_text()

    def until_running(self) -> "Up":
        until(lambda: "is running at" in self.told() or self.has_ended(), "up to be running")
        assert not self.has_ended(), self.told()
        return self

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """The exit code. A second call changes nothing."""
        if not self.has_ended():
            self.process.send_signal(number)
        code = self.process.wait(60)
        self._told.close()
        return code

    def processes(self) -> dict[int, str]:
        """Everything alive that works for this state folder: number and command line, ourselves included."""
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                words = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
                around = (folder / "environ").read_bytes()
            except OSError:
                continue
            mine = f"TENURE_STATE={self.state}\0".encode() in around or f"{self.state}/" in words
            if words and (mine or int(folder.name) == self.process.pid):
                found[int(folder.name)] = words
        return found

    def pid_of(self, word: str) -> int:
        """The first process with `word` in its command line."""
        return min(pid for pid, words in self.processes().items() if word in words)
