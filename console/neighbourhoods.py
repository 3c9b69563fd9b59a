"""A task with what it was made from and what waits for it, as a small drawing of the run's graph."""

from console.graphs import Drawing, draw_dag
from coordinator.selectors.console_task import Neighbour, Neighbours, TaskFacts
from coordinator.selectors.runs import Graph, GraphEdge, GraphNode


def draw_neighbourhood(task: TaskFacts, neighbours: Neighbours) -> Drawing:
    """At most MAX_NEIGHBOURS on each side; the run's own page draws all of it."""
    itself = Neighbour(task.task_id, task.node_id, task.state)
    nodes = [*neighbours.parents, itself, *neighbours.children]
    edges = [GraphEdge(each.node_id, task.node_id) for each in neighbours.parents]
    edges += [GraphEdge(task.node_id, each.node_id) for each in neighbours.children]
    return draw_dag(Graph([_node(each, task) for each in nodes], edges), unfold=True)


def _node(each: Neighbour, task: TaskFacts) -> GraphNode:
    owner = task.owner if each.task_id == task.task_id else None
    return GraphNode(each.node_id, each.task_id, "", each.state, 1, 0, owner, None, 0)
