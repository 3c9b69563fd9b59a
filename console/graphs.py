"""The DAG of a run, laid out in layers from left to right by the server.

Longest-path layers, virtual nodes where an edge crosses several, barycentre sweeps against
crossings. Siblings that differ in nothing but their input are folded into one box; above
FOLD_ABOVE nodes everything of one kind and layer is. Nothing is left out of the numbers.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Final

from coordinator.selectors.runs import Graph, GraphNode
from coordinator.states import TaskState

FOLD_ABOVE: Final = 200
FOLD_SIBLINGS: Final = 6  # so many alike are one box
BOX_WIDTH, BOX_HEIGHT, COLUMN_GAP, ROW_GAP, MARGIN = 172, 48, 44, 14, 12
_THREAD_HEIGHT: Final = 10  # what a passing edge takes in a column
_SWEEPS: Final = 6

Key = Hashable
Edges = Sequence[tuple[Key, Key]]


@dataclass(frozen=True, slots=True)
class Group:
    """One box: a node, or nodes that are alike. `states` counts them."""

    key: str
    nodes: tuple[GraphNode, ...]

    @property
    def folded(self) -> bool:
        return len(self.nodes) > 1

    @property
    def states(self) -> dict[str, int]:
        return dict(Counter(node.state for node in self.nodes))


@dataclass(frozen=True, slots=True)
class Box:
    group: Group
    x: int
    y: int


@dataclass(frozen=True, slots=True)
class Edge:
    path: str
    done: bool  # every parent in it is committed


@dataclass(frozen=True, slots=True)
class Drawing:
    width: int
    height: int
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]
    folded: bool


def draw_dag(graph: Graph, *, unfold: bool = False) -> Drawing:
    """`unfold` draws every node, where there are no more than FOLD_ABOVE."""
    nodes, edges = graph.nodes, [(edge.parent, edge.child) for edge in graph.edges]
    groups = _fold(nodes, edges, unfold=unfold and len(nodes) <= FOLD_ABOVE)
    home = {node.node_id: group.key for group in groups for node in group.nodes}
    links = sorted(
        {(home[a], home[b]) for a, b in edges if a in home and b in home and home[a] != home[b]}
    )
    layers = _layers([group.key for group in groups], links)
    columns, chains = _columns(layers, links)
    _sweep(columns, chains)
    places = _place(columns)
    by_key = {group.key: group for group in groups}
    return Drawing(
        width=max((x for x, _ in places.values()), default=0) + BOX_WIDTH + MARGIN,
        height=max((y + _tall(key) for key, (_, y) in places.items()), default=0) + MARGIN,
        boxes=tuple(Box(by_key[key], *places[key]) for key in by_key),
        edges=tuple(_edge(by_key[str(chain[0])], chain, places) for chain in chains),
        folded=any(group.folded for group in groups),
    )


# --- folding ----------------------------------------------------------------------------------


def _fold(
    nodes: Sequence[GraphNode], edges: Sequence[tuple[str, str]], *, unfold: bool
) -> list[Group]:
    if unfold:
        return [Group(node.node_id, (node,)) for node in nodes]
    parents: dict[str, list[str]] = defaultdict(list)
    children: dict[str, list[str]] = defaultdict(list)
    for parent, child in edges:
        parents[child].append(parent)
        children[parent].append(child)
    alike: dict[Key, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        place = (
            node.kind,
            tuple(sorted(parents[node.node_id])),
            tuple(sorted(children[node.node_id])),
        )
        alike[place].append(node)
    groups = [group for members in alike.values() for group in _groups(members)]
    if len(groups) <= FOLD_ABOVE:
        return groups
    return _fold_layers(nodes, edges)


def _groups(members: Sequence[GraphNode]) -> list[Group]:
    if len(members) >= FOLD_SIBLINGS:
        return [Group(members[0].node_id, tuple(members))]
    return [Group(node.node_id, (node,)) for node in members]


def _fold_layers(nodes: Sequence[GraphNode], edges: Sequence[tuple[str, str]]) -> list[Group]:
    """One box for each kind in each layer: never more than layers times kinds."""
    layers = _layers([node.node_id for node in nodes], edges)
    alike: dict[Key, list[GraphNode]] = defaultdict(list)
    for node in nodes:
        alike[layers[node.node_id], node.kind].append(node)
    return [Group(members[0].node_id, tuple(members)) for members in alike.values()]


# --- layers -----------------------------------------------------------------------------------


def _layers(keys: Iterable[Key], edges: Iterable[tuple[Key, Key]]) -> dict[Key, int]:
    """Each node one to the right of its rightmost parent."""
    before: dict[Key, set[Key]] = {key: set() for key in keys}
    for parent, child in edges:
        if parent in before and child in before:
            before[child].add(parent)
    layers: dict[Key, int] = {}
    for key in TopologicalSorter(before).static_order():
        layers[key] = max((layers[parent] + 1 for parent in before[key]), default=0)
    return layers


@dataclass(frozen=True, slots=True)
class _Thread:
    """A virtual node: where a long edge passes a column."""

    parent: Key
    child: Key
    layer: int


def _columns(layers: Mapping[Key, int], links: Edges) -> tuple[list[list[Key]], list[list[Key]]]:
    """The nodes of each layer with the threads that pass it, and each edge as a chain through them."""
    columns: list[list[Key]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for key, layer in layers.items():
        columns[layer].append(key)
    chains = []
    for parent, child in links:
        threads = [
            _Thread(parent, child, layer) for layer in range(layers[parent] + 1, layers[child])
        ]
        for thread in threads:
            columns[thread.layer].append(thread)
        chains.append([parent, *threads, child])
    return columns, chains


def _sweep(columns: list[list[Key]], chains: Sequence[Sequence[Key]]) -> None:
    """Sort each column by the mean place of its neighbours, forth and back, a few times."""
    left: dict[Key, list[Key]] = defaultdict(list)
    right: dict[Key, list[Key]] = defaultdict(list)
    for chain in chains:
        for earlier, later in itertools.pairwise(chain):
            left[later].append(earlier)
            right[earlier].append(later)
    place = {key: float(index) for column in columns for index, key in enumerate(column)}
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = left if forward else right
        for column in columns if forward else columns[::-1]:
            column.sort(
                key=lambda key: _mean([place[each] for each in neighbours[key]], place[key])
            )
            place.update({key: float(index) for index, key in enumerate(column)})


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


# --- places -----------------------------------------------------------------------------------


def _tall(key: Key) -> int:
    return _THREAD_HEIGHT if isinstance(key, _Thread) else BOX_HEIGHT


def _place(columns: Sequence[Sequence[Key]]) -> dict[Key, tuple[int, int]]:
    """Columns stand beside each other, each centred on the tallest."""
    heights = [sum(_tall(key) + ROW_GAP for key in column) - ROW_GAP for column in columns]
    tallest = max(heights, default=0)
    places: dict[Key, tuple[int, int]] = {}
    for index, column in enumerate(columns):
        x, y = MARGIN + index * (BOX_WIDTH + COLUMN_GAP), MARGIN + (tallest - heights[index]) // 2
        for key in column:
            places[key] = (x, y)
            y += _tall(key) + ROW_GAP
    return places


def _edge(start: Group, chain: Sequence[Key], places: Mapping[Key, tuple[int, int]]) -> Edge:
    steps = [f"M{places[chain[0]][0] + BOX_WIDTH} {_middle(chain[0], places)}"]
    bend = COLUMN_GAP // 2
    for earlier, key in itertools.pairwise(chain):
        x, y = places[key][0], _middle(key, places)
        from_x, from_y = places[earlier][0] + BOX_WIDTH, _middle(earlier, places)
        steps.append(f"C{from_x + bend} {from_y} {x - bend} {y} {x} {y}")
        if isinstance(key, _Thread):
            steps.append(f"H{x + BOX_WIDTH}")
    return Edge(path="".join(steps), done=set(start.states) == {TaskState.COMMITTED})


def _middle(key: Key, places: Mapping[Key, tuple[int, int]]) -> int:
    return places[key][1] + _tall(key) // 2
