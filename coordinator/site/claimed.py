"""What one `up` claims for itself before it starts anything: the state folder and the port."""

import errno
import fcntl
import os
import secrets
import socket
import time
from pathlib import Path
from typing import IO

STRAGGLER_SECONDS = 8.0
PAUSE_SECONDS = 0.1


class UpError(Exception):
    """`up` cannot go on. The message is one sentence with the mend."""


class StateFolder:
    """The state folder, held by a lock file that names its holder. The lock goes with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.after_a_crash = False
        self._lock: IO[str] | None = None

    def take(self) -> None:
        """Create the folder and hold it. Raises UpError when another `up` does, or when it can't be written."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / "up.lock").open("a+")
        except OSError as error:
            raise UpError(
                f"The state folder {self.path} cannot be used: {error.strerror}. "
                "Choose another with --state or TENURE_STATE."
            ) from error
        lock.seek(0)
        holder = lock.read().strip()
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.close()
            raise UpError(
                f"Tenure already runs on {self.path} (process {holder or 'unknown'}). "
                "Stop it there, or choose another state folder with --state or TENURE_STATE."
            ) from error
        self.after_a_crash = bool(holder)  # an orderly end leaves the file empty
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    def release(self) -> None:
        if self._lock is not None:
            self._lock.truncate(0)
            self._lock.close()
            self._lock = None

    def secret(self, name: str, *, random_bytes: int = 50) -> str:
        """The kept secret of this name, made on first use; only its owner can read the file."""
        path = self.path / name
        if not path.exists():
            self.keep(name, secrets.token_urlsafe(random_bytes))
        return path.read_text().strip()

    def keep(self, name: str, value: str) -> None:
        """Write a secret: complete or not at all, mode 0600."""
        fresh = self.path / f"{name}.new"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(value + "\n")
        fresh.replace(self.path / name)


def require_free_port(host: str, port: int, *, patience_seconds: float) -> None:
    """Raise UpError unless `host`:`port` can be listened on; wait so long for what a crashed run left behind to go."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            _try_to_listen(host, port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and time.monotonic() < deadline:
                time.sleep(PAUSE_SECONDS)
                continue
            raise UpError(_port_message(host, port, error)) from error
        return


def _try_to_listen(host: str, port: int) -> None:
    family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        probe.listen(1)


def _port_message(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"Port {port} on {host} is in use. Stop what listens there, or choose another with --port."
    if error.errno == errno.EACCES:
        return (
            f"Port {port} needs privileges that this user lacks. Choose one above 1023 with --port."
        )
    return f"Cannot listen on {host}:{port}: {error.strerror or error}. Choose another --host or --port."
