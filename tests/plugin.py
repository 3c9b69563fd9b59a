"""Starts a real PostgreSQL before Django reads its settings, and stops it at the end.

Named by `addopts = -p tests.plugin`. DATABASE_URL from outside is used instead. Each worker of pytest-xdist has its own
server: the oldest running transaction, which the roll-up of events waits for, is a whole server's. A killed run
leaves nothing: the server dies with us, and its folder is swept by the next run.
"""

import fcntl
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from coordinator.site.postgres import Postgres

PREFIX = "tenure-test-"
FAST = {
    "fsync": "off",  # here and only here: these data are thrown away
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}

#: Says that DATABASE_URL is the server that we have started, and not one given from outside.
OURS = "TENURE_TEST_SERVER"
#: Modules that were compiled once, for the hundred processes that a run starts: half the time of each start.
BYTECODE = Path(__file__).parent.parent / ".pytest_cache" / "bytecode"
#: Network namespaces need root.
ROOT_ONLY = Path(__file__).parent / "hosts"

_server: Postgres | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    """Earlier than pytest_configure: pytest-django reads the settings in this very hook, after us."""
    global _server  # noqa: PLW0603 - one for the whole run
    _compile_once()
    os.environ.setdefault("TENURE_LOG_LEVEL", "WARNING")
    os.environ.setdefault(
        "TENURE_DB_POOL_MAX", "60"
    )  # tests of races hold many connections in one process
    os.environ.setdefault(
        "DJANGO_ALLOW_ASYNC_UNSAFE", "true"
    )  # a browser driver's loop runs in the test's thread
    # One a process: workers of pytest-xdist share the state folder, and some tests spoil the file.
    os.environ["TENURE_IDENTITY_FILE"] = str(
        Path(tempfile.mkdtemp(prefix="tenure-identity-")) / "identity.json"
    )
    inherited = OURS in os.environ and "PYTEST_XDIST_WORKER" in os.environ
    if os.environ.get("DATABASE_URL") and not inherited:
        return
    _sweep_dead_runs()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o755)  # the server's account must get in when we are root
    _server = Postgres(folder, settings=FAST).start()
    os.environ["DATABASE_URL"] = _server.url
    os.environ["TENURE_STATE"] = str(folder)
    os.environ[OURS] = "yes"


def pytest_report_header() -> list[str]:
    if os.geteuid() == 0:
        return []
    return ["LEFT OUT: tests/hosts lays out network namespaces, which needs root"]


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return True if collection_path == ROOT_ONLY and os.geteuid() != 0 else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let `xdist_group` count: pytest 9.2 reads an item's id from another place than pytest-xdist 3.8 writes it to.

    What takes long goes first, else in whatever order it came: a run of several processes doesn't end with one that
    has just begun on the longest test, while the others have nothing left to do.
    """
    for item in items:
        grouped = getattr(item, "_nodeid", "")
        if "@" in grouped and hasattr(item, "_id"):
            item._id = type(item._id).parse(grouped)
    if "PYTEST_XDIST_WORKER" in os.environ:
        items.sort(key=_takes_long, reverse=True)


def _takes_long(item: pytest.Item) -> int:
    if item.get_closest_marker("slow"):
        return 2
    return 1 if item.get_closest_marker("browser") else 0


def pytest_unconfigure() -> None:
    global _server  # noqa: PLW0603 - one for the whole run
    shutil.rmtree(Path(os.environ.pop("TENURE_IDENTITY_FILE")).parent, ignore_errors=True)
    if _server is not None:
        _server.stop()
        shutil.rmtree(_server.state, ignore_errors=True)
        del os.environ["DATABASE_URL"], os.environ["TENURE_STATE"], os.environ[OURS]
        _server = None


def _compile_once() -> None:
    """Where sources are to be kept clean of compiled modules, keep these apart instead of going without."""
    if os.environ.pop("PYTHONDONTWRITEBYTECODE", ""):
        os.environ.setdefault("PYTHONPYCACHEPREFIX", str(BYTECODE))
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"]
        sys.dont_write_bytecode = False


def _sweep_dead_runs() -> None:
    """Remove the folders of runs that were killed: those whose lock nobody holds."""
    for folder in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        try:
            with (folder / "postgres.lock").open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            continue  # in use, or another user's
