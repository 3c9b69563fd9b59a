"""Wide graphs: many parents of one child, and many children of one parent. Time per edge must stay flat."""

import time
from typing import Any, Final

from bench.clients import Api
from bench.place import QUEUE, Target

#: A run has 10,000 nodes at most, and one of them is the other end.
WIDTHS: Final = (100, 1_000, 9_999)
BATCH: Final = 100


def per_edge(target: Target, *, widths: tuple[int, ...] = WIDTHS) -> list[dict[str, Any]]:
    """Microseconds per edge: of committing the parents of a fan-in, and of committing the parent of a fan-out.

    The commits of as many unrelated tasks are taken off the former, so that the edges alone are left to compare.
    """
    api = Api(target)
    rows = []
    for width in widths:
        names = [f"n{number}" for number in range(width)]
        leaves = [{"node_id": name, "kind": "fan", "input": {}} for name in names]
        alone = _drain(api, _submit(api, leaves))
        fan_in = [*leaves, {"node_id": "end", "kind": "fan", "input": {}, "depends_on": names}]
        joined = _drain(api, _submit(api, fan_in), last=1)
        root = {"node_id": "root", "kind": "fan", "input": {}}
        children = [leaf | {"depends_on": ["root"]} for leaf in leaves]
        fanned = _first(api, _submit(api, [root, *children]))
        rows.append(
            {
                "width": width,
                "fan_in_us": round(joined / width * 1e6, 1),
                "no_edges_us": round(alone / width * 1e6, 1),
                "fan_out_us": round(fanned / width * 1e6, 1),
            }
        )
    return rows


def _submit(api: Api, nodes: list[dict[str, Any]]) -> int:
    api.post("/runs", {"queue": QUEUE, "name": "fan", "nodes": nodes}, keyed=True)
    return len(nodes)


def _drain(api: Api, tasks: int, *, last: int = 0) -> float:
    """Seconds spent in commits until only `last` tasks are left; those are finished outside the clock."""
    seconds = 0.0
    for remaining in range(tasks - last, 0, -BATCH):
        claims = api.claim("fan", min(BATCH, remaining), kinds=["fan"])
        begin = time.perf_counter()
        api.commit(claims, single=False)
        seconds += time.perf_counter() - begin
    if last:
        api.commit(api.claim("fan", last, kinds=["fan"]), single=False)
    return seconds


def _first(api: Api, tasks: int) -> float:
    """Seconds of the root's commit, which releases all the others; they are finished outside the clock."""
    claims = api.claim("fan", 1, kinds=["fan"])
    begin = time.perf_counter()
    api.commit(claims, single=False)
    seconds = time.perf_counter() - begin
    _drain(api, tasks - 1)
    return seconds
