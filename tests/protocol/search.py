"""Breadth-first search of every world that a model can reach, and the shortest way to each violation.

Breadth first means that the first counterexample found is a shortest one. Worlds are remembered packed, with the packed
world that they came from; the story is found again by walking back and asking which step led on.
"""

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from . import attempts, downstreams, people
from .likeness import forget
from .rules import Model
from .world import Effect, Step, Violation, World

#: A search never holds more worlds than this (about 200 bytes each).
MOST_WORLDS = 5_000_000

#: Contract 2, "leaves to", as this model reads it; compared with the coordinator's own table by a test.
ARROWS = frozenset(
    {
        (Effect.UNBOUND, Effect.PREPARED),
        (Effect.PREPARED, Effect.ACCEPTED),
        (Effect.PREPARED, Effect.UNKNOWN),
        (Effect.PREPARED, Effect.VOID),
        (Effect.ACCEPTED, Effect.COMMITTED),
        (Effect.ACCEPTED, Effect.UNKNOWN),
        (Effect.ACCEPTED, Effect.PREPARED),
        (Effect.UNKNOWN, Effect.COMMITTED),
        (Effect.UNKNOWN, Effect.RESENDABLE),
        (Effect.UNKNOWN, Effect.PREPARED),
        (Effect.RESENDABLE, Effect.ACCEPTED),
        (Effect.RESENDABLE, Effect.COMMITTED),
        (Effect.RESENDABLE, Effect.UNKNOWN),
        (Effect.RESENDABLE, Effect.PREPARED),
    }
)


class TooLarge(Exception):
    """The search met its bound before it had seen everything: it proves nothing."""


@dataclass(kw_only=True)
class Found:
    """What a search saw. It is exhaustive unless it stopped at a violation that it was asked to stop at."""

    states: int
    transitions: int
    depth: int
    exhausted: bool
    arrows: set[tuple[Effect, Effect]]
    stories: dict[Violation, list[Step]] = field(default_factory=dict)


def successors(model: Model, world: World) -> Iterator[Step]:
    """Each thing that can happen next, with the first rule that it breaks."""
    for module in (attempts, people, downstreams):
        for step in module.steps(model, world):
            after = step.world if model.every_world else forget(model, step.world)
            wrong = step.violation or _broken(world, step.world)
            yield step._replace(world=after, violation=wrong)


def _broken(before: World, after: World) -> Violation | None:
    """What must hold of every world, whoever brought it about."""
    if after.effect == Effect.COMMITTED and not after.performed:
        return Violation.NEVER_HAPPENED
    if after.performed and after.effect in (Effect.PREPARED, Effect.VOID):
        return Violation.LEDGER_DENIES
    moved = before.effect != after.effect
    if moved and (before.effect, after.effect) not in ARROWS:
        return Violation.NO_SUCH_ARROW
    return None


def search(model: Model, *, until: Collection[Violation] = ()) -> Found:
    """Visit everything; or stop as soon as each violation of `until` has been seen once.

    A path ends where the effect happened twice; after any other violation it goes on, since a worse one may follow.
    Raises `TooLarge` beyond `MOST_WORLDS`.
    """
    start = model.start
    parents: dict[bytes, bytes] = {start.key(): b""}
    frontier = deque([(start, 0)])
    found = Found(states=1, transitions=0, depth=0, exhausted=True, arrows=set())
    while frontier:
        world, found.depth = frontier.popleft()
        for step in successors(model, world):
            found.transitions += 1
            after = step.world
            if after.effect != world.effect:
                found.arrows.add((world.effect, after.effect))
            if step.violation is not None and step.violation not in found.stories:
                found.stories[step.violation] = [*story_to(model, parents, world), step]
            if step.violation == Violation.PERFORMED_TWICE:
                continue
            key = after.key()
            if key not in parents:
                parents[key] = world.key()
                frontier.append((after, found.depth + 1))
        if until and found.stories.keys() >= set(until):
            found.exhausted = False
            break
        if len(parents) > MOST_WORLDS:
            raise TooLarge(f"more than {MOST_WORLDS:,} worlds; lower the number of dispatches")
    found.states = len(parents)
    return found


def reachable(model: Model) -> Iterator[World]:
    """Every world of the model once, nearest first."""
    seen = {model.start.key()}
    frontier = deque([model.start])
    while frontier:
        world = frontier.popleft()
        yield world
        for step in successors(model, world):
            if step.world.key() not in seen:
                seen.add(step.world.key())
                frontier.append(step.world)


def story_to(model: Model, parents: dict[bytes, bytes], last: World) -> list[Step]:
    """The steps from the first world to `last`."""
    keys = [last.key()]
    while parents[keys[-1]]:
        keys.append(parents[keys[-1]])
    world, story = model.start, []
    for key in reversed(keys[:-1]):
        step = next(s for s in successors(model, world) if s.world.key() == key)
        story.append(step)
        world = step.world
    return story
