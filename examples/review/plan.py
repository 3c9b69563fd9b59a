"""The run: one inventory, one analysis for each file after it, one report after all of them, and then its effects."""

from __future__ import annotations

import hashlib
from typing import Any

from examples.review.effects import ARCHIVE, NOTIFY, PUBLISH, SLOTS
from examples.review.handlers import ANALYSE, INVENTORY, REPORT
from examples.review.listing import Listing
from tenure import Client

#: How the run is recognised when the fleet starts again.
EXAMPLE = "folder-review"
LONGEST_NAME = 200


def nodes(listing: Listing) -> list[dict[str, Any]]:
    """The DAG of a listing. All that reads may be done twice without harm; the last three declare what they send."""
    root = str(listing.root)
    analyses = [
        {
            "node_id": _name(path),
            "kind": ANALYSE,
            "input": {"root": root, "path": path},
            "depends_on": [INVENTORY],
            # In the order of the list; a file that was lost to a frozen worker is then the first to be done again.
            "priority": -number,
        }
        for number, path in enumerate(listing.paths)
    ]
    return [
        {
            "node_id": INVENTORY,
            "kind": INVENTORY,
            "input": {"root": root, "paths": list(listing.paths)},
        },
        *analyses,
        {
            "node_id": REPORT,
            "kind": REPORT,
            "input": {"root": root, "left_out": listing.left_out},
            "depends_on": [node["node_id"] for node in analyses],
        },
        *(_effect(kind, after=[REPORT]) for kind in (PUBLISH, ARCHIVE)),
        _effect(NOTIFY, after=[REPORT, PUBLISH, ARCHIVE]),
    ]


def _effect(kind: str, *, after: list[str]) -> dict[str, Any]:
    """A node with one outside effect. Whether it may be sent again is the coordinator's to say, by its downstream."""
    return {
        "node_id": kind,
        "kind": kind,
        "input": {},
        "depends_on": after,
        "slots": SLOTS[kind],
    }


def _name(path: str) -> str:
    """A node's name has at most 200 characters; of longer paths the end is kept, with a digest of the whole."""
    name = f"{ANALYSE}:{path}"
    if len(name) <= LONGEST_NAME:
        return name
    mark = hashlib.sha256(path.encode()).hexdigest()[:12]
    return f"{ANALYSE}:{mark}…{path[-(LONGEST_NAME - 40) :]}"


def submit(client: Client, *, queue: str, listing: Listing) -> str:
    """Submit the review of a listing; the run's id."""
    run = client.submit_run(
        queue=queue,
        name=f"Review of {listing.root.name or listing.root}",
        metadata={"example": EXAMPLE, "root": str(listing.root)},
        nodes=nodes(listing),
    )
    return run.run_id


def unfinished(client: Client, *, queue: str, listing: Listing) -> str | None:
    """A review of this folder that an earlier fleet left half done."""
    for run in client.runs(queue=queue, state="ACTIVE"):
        metadata = run.metadata or {}
        if metadata.get("example") == EXAMPLE and metadata.get("root") == str(listing.root):
            return run.run_id
    return None
