"""The operating-system account that PostgreSQL runs as. It refuses to run as root."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

UNPRIVILEGED = ("postgres", "nobody")


class NoAccount(Exception):
    """Started by root on a machine without an unprivileged account."""


class PopenIdentity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[int]


@dataclass(frozen=True, slots=True)
class Account:
    """Who the server runs as. `switched` is false when that is simply who we are."""

    name: str
    uid: int
    gid: int
    switched: bool

    def as_popen(self) -> PopenIdentity:
        if not self.switched:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def take(self, *paths: Path) -> None:
        """Make these paths the account's own."""
        if self.switched:
            for path in paths:
                os.chown(path, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        return self._succeeds(["/bin/sh", "-c", 'cd "$0"', str(folder)])

    def can_run(self, program: Path) -> bool:
        return self._succeeds([str(program), "--version"])

    def _succeeds(self, command: list[str]) -> bool:
        try:
            return (
                subprocess.run(command, capture_output=True, cwd="/", **self.as_popen()).returncode
                == 0
            )
        except OSError:
            return False


def server_account() -> Account:
    """Ourselves; for root `postgres`, else `nobody`."""
    if os.geteuid() != 0:
        return Account(name=str(os.geteuid()), uid=os.geteuid(), gid=os.getegid(), switched=False)
    for name in UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name=name, uid=entry.pw_uid, gid=entry.pw_gid, switched=True)
    raise NoAccount(
        "PostgreSQL does not run as root, and there is no user `postgres` or `nobody` to run it as. "
        "Start as another user, or set DATABASE_URL to a running server."
    )
