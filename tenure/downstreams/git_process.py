"""Running git, with a deadline that holds for its children too."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

LONGEST_SAID = 500


class GitFailed(Exception):
    """git ended with an error; `said` is what it wrote about it."""

    def __init__(self, verb: str, said: str) -> None:
        super().__init__(f"git {verb}: {said}")
        self.said = said


class GitTimedOut(GitFailed):
    """The deadline came first; git and its children were ended."""


class Git:
    """git in one repository of ours. `env` is added to what this process has."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.folder = folder
        self._env = {
            **os.environ,
            "GIT_TERMINAL_PROMPT": "0",  # a question for a password would wait for ever
            "GIT_ASKPASS": "true",
            "LC_ALL": "C",  # its words are read below
            **env,
        }

    def init(self) -> None:
        """Make the repository, where it is not there yet."""
        if not (self.folder / "HEAD").exists():
            self.run("init", "--quiet", "--bare", str(self.folder), deadline=None, inside=False)

    def run(
        self,
        *words: str,
        deadline: float | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        inside: bool = True,
    ) -> bytes:
        """What it wrote. Raises GitFailed, and GitTimedOut at the deadline."""
        status, out, err = self.attempt(
            *words, deadline=deadline, stdin=stdin, env=env, inside=inside
        )
        if status != 0:
            raise GitFailed(words[0], shortened(err or out))
        return out

    def attempt(
        self,
        *words: str,
        deadline: float | None,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        inside: bool = True,
    ) -> tuple[int, bytes, bytes]:
        """Its exit code, what it wrote and what it complained about. Raises GitTimedOut."""
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and left <= 0:
            raise GitTimedOut(words[0], "no time was left")
        where = ["--git-dir", str(self.folder)] if inside else []
        try:
            process = subprocess.Popen(
                ["git", *where, "-c", "gc.auto=0", "-c", "maintenance.auto=false", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._env, **(env or {})},
                start_new_session=True,  # its transports are children of its own; they end with it
            )
        except FileNotFoundError as error:
            raise GitFailed(words[0], "git is not installed on this machine") from error
        try:
            out, err = process.communicate(stdin, timeout=left)
        except subprocess.TimeoutExpired as error:
            raise GitTimedOut(words[0], "the deadline came first") from error
        finally:
            _end(process)
        return process.returncode, out, err


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it; nothing, where it has ended by itself."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def shortened(text: bytes) -> str:
    """What git said, for a sentence."""
    return " ".join(text.decode(errors="replace").split())[:LONGEST_SAID]


def lines(words: Sequence[str]) -> bytes:
    """Text for git's standard input, NUL after each."""
    return b"".join(word.encode() + b"\0" for word in words)
