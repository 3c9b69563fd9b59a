"""Which files of a folder are worth a review: text, not generated, not somebody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

#: Folders that hold what tools made or what others wrote. Hidden ones are left out as well.
LEFT_OUT = frozenset(
    {
        "__pycache__",
        "node_modules",
        "vendor",
        "venv",
        "env",
        "dist",
        "build",
        "target",
        "var",
        "site-packages",
    }
)
LARGEST_FILE_BYTES = 512 * 1024
SNIFFED_BYTES = 8 * 1024


@dataclass(frozen=True)
class Listing:
    """The files to review, as paths below the folder, in order; and how many more there were."""

    root: Path
    paths: tuple[str, ...]
    left_out: int


def list_files(root: Path, *, limit: int) -> Listing:
    """Up to `limit` files of a folder. The same folder gives the same list."""
    found = sorted(_candidates(root))
    return Listing(root=root, paths=tuple(found[:limit]), left_out=max(0, len(found) - limit))


def read_text(root: Path, path: str) -> str:
    """A listed file's text. ValueError for a path that leads out of its folder."""
    file = (root / path).resolve()
    if not file.is_relative_to(root.resolve()):
        raise ValueError(f"{path} leads out of {root}")
    return file.read_text(encoding="utf-8", errors="replace")


def _candidates(root: Path) -> Iterator[str]:
    for folder, below, names in os.walk(root):
        below[:] = sorted(name for name in below if _is_ours(Path(folder) / name))
        for name in names:
            file = Path(folder) / name
            if not name.startswith(".") and _is_readable_text(file):
                yield file.relative_to(root).as_posix()


def _is_ours(folder: Path) -> bool:
    if folder.name.startswith(".") or folder.name in LEFT_OUT or folder.name.endswith(".egg-info"):
        return False
    return not folder.is_symlink() and not (folder / "pyvenv.cfg").exists()


def _is_readable_text(file: Path) -> bool:
    try:
        if (
            file.is_symlink()
            or not file.is_file()
            or not 0 < file.stat().st_size <= LARGEST_FILE_BYTES
        ):
            return False
        with file.open("rb") as stream:
            head = stream.read(SNIFFED_BYTES)
    except OSError:
        return False
    return b"\x00" not in head and _decodes(head)


def _decodes(head: bytes) -> bool:
    """Whether it is UTF-8, but for a character that the end of the sample cut in two."""
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start >= len(head) - 3
    return True
