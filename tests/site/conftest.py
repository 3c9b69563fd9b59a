"""A state folder that the server's own account can reach, short enough for a socket."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def state_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def state() -> Iterator[Path]:
    with state_folder() as folder:
        yield folder
