"""The outside world of the example, all of it on this machine: a git repository, an object store, a mail server.

The fleet starts it and tells its members by environment variables where it is. It knows nothing of Tenure.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from examples.review.store import ObjectStore

if TYPE_CHECKING:
    from aiosmtpd.controller import Controller

GIT, STORE, MAIL = "REVIEW_GIT", "REVIEW_STORE", "REVIEW_MAIL"
#: The mail server wants a named port; somebody else may take a free one before it does.
MOST_TRIES = 5

Say = Callable[[str], None]


class Outside:
    """Running while its `with` lasts; what it was given stays in its folder."""

    def __init__(self, folder: Path, *, lose_first: bool, say: Say) -> None:
        self.folder = folder.resolve()
        self._say = say
        self._lose_first = lose_first
        self._open = ExitStack()
        #: How members find it. A part that is not there has no variable.
        self.environment: dict[str, str] = {}

    @property
    def repository(self) -> Path:
        """The bare repository; it is there only where git is."""
        return self.folder / "reports.git"

    @property
    def objects(self) -> Path:
        """Where the store keeps its objects, each as a file."""
        return self.folder / "objects"

    @property
    def mailbox(self) -> Path:
        """Every message that the mail server has taken, one file each."""
        return self.folder / "mail"

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            store = ObjectStore(self.objects, lose_first=self._lose_first, say=self._say)
            self.environment[STORE] = stack.enter_context(store).url
            self.environment[MAIL] = stack.enter_context(MailServer(self.mailbox, self._say)).place
            if shutil.which("git") is None:
                self._say(
                    "git is not installed here: the report will be committed to no repository"
                )
            else:
                _make_repository(self.repository)
                self.environment[GIT] = str(self.repository)
            self._open = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()


class MailServer:
    """SMTP on loopback. It takes every message, keeps it in a file, and delivers none."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._folder = folder
        self._say = say
        self._controller: Controller | None = None

    @property
    def place(self) -> str:
        """`host:port`."""
        assert self._controller is not None
        return f"{self._controller.hostname}:{self._controller.port}"

    def __enter__(self) -> Self:
        from aiosmtpd.controller import Controller

        self._folder.mkdir(parents=True, exist_ok=True)
        for tries_left in reversed(range(MOST_TRIES)):
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            self._controller = Controller(self, hostname="127.0.0.1", port=port)
            try:
                self._controller.start()
            except OSError:
                if not tries_left:
                    raise
            else:
                break
        return self

    def __exit__(self, *_: object) -> None:
        if self._controller is not None:
            with suppress(OSError):
                self._controller.stop()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:  # noqa: N802, ARG002 - the library's name
        """Keep it before it is acknowledged."""
        file = self._folder / f"{time.time_ns()}.eml"
        file.write_bytes(envelope.content)
        self._say(f"the mail server takes a message for {', '.join(envelope.rcpt_tos)}: {file}")
        return "250 taken"


def _make_repository(folder: Path) -> None:
    """A bare repository whose refs only ever go on: that is what its guarantee rests on."""
    if not (folder / "HEAD").exists():
        _git("init", "--quiet", "--bare", str(folder))
    for name in ("receive.denyNonFastForwards", "receive.denyDeletes"):
        _git("--git-dir", str(folder), "config", name, "true")


def _git(*words: str) -> None:
    subprocess.run(
        ["git", *words],
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
    )
