"""Cycles among the nodes of a run: none of them could ever start (contract 6)."""

from collections.abc import Mapping, Sequence


def find_cycle(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """The nodes of one cycle in the order of work, or an empty list. `parents` names only its own keys.

    Kahn's algorithm, then a walk among the nodes that it left over: linear in nodes and edges.
    """
    left = _left_over(parents)
    if not left:
        return []
    path: dict[str, None] = {}
    name = next(iter(left))
    while name not in path:  # each node left over waits for another one left over: the walk returns
        path[name] = None
        name = next(parent for parent in parents[name] if parent in left)
    names = list(path)
    return names[names.index(name) :][::-1]


def _left_over(parents: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The nodes on a cycle or behind one, after all others were taken out in the order of work."""
    waits = {name: len(above) for name, above in parents.items()}
    children: dict[str, list[str]] = {}
    for name, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(name)
    free = [name for name, count in waits.items() if count == 0]
    while free:
        name = free.pop()
        del waits[name]
        for child in children.get(name, ()):
            waits[child] -= 1
            if waits[child] == 0:
                free.append(child)
    return waits
