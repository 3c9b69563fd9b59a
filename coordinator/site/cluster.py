"""A database cluster on disk: complete or not there at all."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from coordinator.site.accounts import Account
from coordinator.site.binaries import major_version

ROLE = "tenure"
HANDED_ON = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class PostgresError(Exception):
    """The server cannot be started; the message is one sentence with the mend."""


def ensure_cluster(data: Path, *, binaries: Path, account: Account) -> None:
    """Make the cluster if there is none; refuse one that is incomplete or another version's.

    It is made beside its place and renamed there: an initdb that was interrupted leaves nothing that looks like data.
    """
    major = major_version(binaries, account)
    if data.exists():
        _require_usable(data, major=major, binaries=binaries)
        return
    half_done = data.with_name(f"{data.name}.new")
    shutil.rmtree(half_done, ignore_errors=True)
    command = [
        str(binaries / "initdb"), "-D", str(half_done), "-U", ROLE, "-A", "trust", "-E", "UTF8",
        "--no-instructions", *_locale_arguments(major),
    ]  # fmt: skip
    made = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd="/",
        env=server_environment(),
        **account.as_popen(),
    )
    if made.returncode:
        raise PostgresError(f"initdb failed in {data.parent}: {complaint_of(made.stderr)}")
    half_done.rename(data)


def _require_usable(data: Path, *, major: int, binaries: Path) -> None:
    version_file = data / "PG_VERSION"
    if not version_file.exists() or not (data / "global" / "pg_control").exists():
        raise PostgresError(
            f"{data} is not a complete database folder. "
            "Restore it from a backup, or move it away to start empty."
        )
    found = version_file.read_text().strip()
    if found != str(major):
        raise PostgresError(
            f"{data} was written by PostgreSQL {found}, and {binaries} has version {major}. "
            f"Set PG_BIN to PostgreSQL {found}, or dump there and restore into an empty state folder."
        )


def server_environment() -> dict[str, str]:
    """What the server's programs need of ours: no PG* variable that would redirect them, and no secret."""
    inherited = {name: os.environ[name] for name in HANDED_ON if name in os.environ}
    return {**inherited, "LC_ALL": "C", "TZ": "UTC"}


def _locale_arguments(major: int) -> list[str]:
    if major >= 17:  # needs nothing of the machine's own locales
        return ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    return ["--locale=C.UTF-8" if sys.platform != "darwin" else "--locale=en_US.UTF-8"]


def complaint_of(text: str) -> str:
    """The line of a server's output that tells why: the last FATAL or PANIC, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    grave = [line for line in lines if "FATAL:" in line or "PANIC:" in line]
    return next(reversed(grave or lines), "no message")
