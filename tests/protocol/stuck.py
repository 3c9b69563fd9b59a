"""Whether every effect that may be out can still be settled, from every world that a model can reach.

Clean is not enough: a protocol that parks everything for ever is clean too.
"""

from collections import defaultdict, deque
from collections.abc import Iterable

from .rules import Model, may_be_out
from .search import story_to, successors
from .world import Step, World


def stuck(model: Model) -> tuple[int, list[Step]]:
    """How many worlds have an effect that may be out and no way to settle it, with the shortest story of one."""
    parents: dict[bytes, bytes] = {model.start.key(): b""}
    leads_here: dict[bytes, list[bytes]] = defaultdict(list)
    worlds = {model.start.key(): model.start}
    frontier = deque([model.start])
    while frontier:
        world = frontier.popleft()
        for step in successors(model, world):
            key = step.world.key()
            leads_here[key].append(world.key())
            if key not in parents:
                parents[key] = world.key()
                worlds[key] = step.world
                frontier.append(step.world)
    hopeful = _reaching(leads_here, (k for k, w in worlds.items() if not may_be_out(w.effect)))
    lost = [world for key, world in worlds.items() if key not in hopeful]
    return len(lost), _story(model, parents, lost)


def _reaching(leads_here: dict[bytes, list[bytes]], goal: Iterable[bytes]) -> set[bytes]:
    """Every world from which some path leads to the goal."""
    reached = set(goal)
    queue = deque(reached)
    while queue:
        for before in leads_here[queue.popleft()]:
            if before not in reached:
                reached.add(before)
                queue.append(before)
    return reached


def _story(model: Model, parents: dict[bytes, bytes], lost: list[World]) -> list[Step]:
    return (
        story_to(model, parents, lost[0]) if lost else []
    )  # in the order of the search: a shortest
