"""Where one embedded server keeps its things, made safe for the account that it runs as."""

import hashlib
import os
import secrets
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from coordinator.site.accounts import Account
from coordinator.site.cluster import ROLE, PostgresError

DATABASE = "tenure"
PORT = 5432  # names the socket file only
SOCKET_PATH_LIMIT = 100  # sockaddr_un takes 107 bytes; 103 on macOS
UNREACHABLE_STATE_ROOT = Path("/var/lib/tenure")


@dataclass(frozen=True, slots=True)
class Places:
    """`home` holds everything of the server, `run` its socket."""

    home: Path
    run: Path

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "server.log"

    @property
    def url(self) -> str:
        return socket_url(self.run)


def socket_url(folder: Path) -> str:
    """The DATABASE_URL of a server that listens in `folder`."""
    return f"postgresql://{ROLE}@{quote(str(folder), safe='')}:{PORT}/{DATABASE}"


def default_places(state: Path) -> Places:
    """`postgres` in the state folder."""
    home = state / "postgres"
    return Places(home=home, run=_socket_folder(home))


def reachable_places(state: Path, *, account: Account) -> Places:
    """As `default_places`, but elsewhere when the account cannot enter the state folder (a checkout in /root).

    The modes of folders that are not ours are not changed. The other place is noted in the state folder: without
    that note, which goes with the folder, there are no data.
    """
    if not account.switched or account.can_enter(state):
        return default_places(state)
    note = state / "postgres.home"
    if not note.exists():
        UNREACHABLE_STATE_ROOT.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{UNREACHABLE_STATE_ROOT / secrets.token_hex(8)}\n")
    home = Path(note.read_text().strip())
    return Places(home=home, run=_socket_folder(home))


def _socket_folder(home: Path) -> Path:
    """`run` in the home, or a short one in the temporary folder when that path is too long for a socket."""
    folder = home / "run"
    if len(os.fsencode(folder / f".s.PGSQL.{PORT}")) <= SOCKET_PATH_LIMIT:
        return folder
    short = hashlib.sha256(os.fsencode(home)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"tenure-{short}"


def make_places(places: Places, *, account: Account) -> None:
    """Create both folders for the account alone. Raises PostgresError when one belongs to somebody else."""
    for folder in (places.home, places.run):
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid not in {os.geteuid(), account.uid}:
            raise PostgresError(
                f"{folder} belongs to another user. Remove it, or choose another state folder "
                "with --state or TENURE_STATE."
            )
        account.take(folder)
        folder.chmod(0o700)
