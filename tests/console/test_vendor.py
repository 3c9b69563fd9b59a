"""Vendored files are what they were when they were looked at."""

import base64
import hashlib
import re
from pathlib import Path

VENDOR = Path(__file__).parent.parent.parent / "static" / "vendor"


def test_each_vendored_file_has_its_digest() -> None:
    rows = re.findall(
        r"^\| `([^`]+)` \|.*\| `([^`]+)` \|$", (VENDOR / "README.md").read_text(), re.MULTILINE
    )
    told = dict(rows)
    present = {
        str(path.relative_to(VENDOR)): base64.b64encode(
            hashlib.sha384(path.read_bytes()).digest()
        ).decode()
        for path in VENDOR.rglob("*")
        if path.suffix in {".js", ".woff2", ".css"}
    }
    assert present == told


def test_each_folder_has_its_licence() -> None:
    for folder in {
        path.parent for path in VENDOR.rglob("*") if path.suffix in {".js", ".woff2", ".css"}
    }:
        assert list(folder.glob("LICENSE*")), folder
