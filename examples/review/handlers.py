"""What the fleet does for each kind of node. Nothing here knows of leases, fences or other workers."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

from examples.review import python_code, text
from examples.review.listing import read_text
from examples.review.report import make_report
from tenure import Claim, Fatal, Worker

INVENTORY, ANALYSE, REPORT = "inventory", "analyse", "report"


def register(worker: Worker, *, pause: Callable[[Claim], None]) -> None:
    """Give a worker the three kinds. `pause` stretches an analysis so that a person can follow."""

    @worker.handler(INVENTORY)
    def inventory(claim: Claim) -> dict[str, Any]:
        return take_inventory(_root(claim), claim.input["paths"])

    @worker.handler(ANALYSE)
    def analyse(claim: Claim) -> dict[str, Any]:
        pause(claim)
        return analyse_file(_root(claim), claim.input["path"])

    @worker.handler(REPORT)
    def report(claim: Claim) -> dict[str, Any]:
        analyses = {
            parent.result["path"]: parent.result["facts"]
            for parent in claim.parents.values()
            if "facts" in parent.result
        }
        return make_report(
            dict(sorted(analyses.items())),
            root=claim.input["root"],
            left_out=claim.input["left_out"],
        )


def take_inventory(root: Path, paths: list[str]) -> dict[str, Any]:
    """How much there is, by type, and one digest over all of it: two equal inventories mean equal files."""
    counts: Counter[str] = Counter()
    whole = hashlib.sha256()
    size = 0
    for path in paths:
        content = _bytes_of(root, path)
        whole.update(f"{path}\0{hashlib.sha256(content).hexdigest()}\n".encode())
        counts[PurePosixPath(path).suffix or "(none)"] += 1
        size += len(content)
    return {
        "files": len(paths),
        "bytes": size,
        "by_type": dict(sorted(counts.items())),
        "digest": whole.hexdigest(),
    }


def analyse_file(root: Path, path: str) -> dict[str, Any]:
    """The facts of one file. One that has gone since the listing is a fact too, and no failure."""
    try:
        content = read_text(root, path)
    except OSError as error:
        return {"path": path, "gone": error.strerror or str(error)}
    facts = text.measure(content, path)
    if path.endswith(".py"):
        facts |= python_code.study(content, path)
    return {"path": path, "facts": facts}


def _bytes_of(root: Path, path: str) -> bytes:
    try:
        return read_text(root, path).encode(errors="replace")
    except OSError:
        return b""


def _root(claim: Claim) -> Path:
    root = Path(claim.input["root"])
    if not root.is_dir():
        raise Fatal(f"{root} is no folder on this machine")
    return root
