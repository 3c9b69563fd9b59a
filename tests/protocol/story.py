"""A counterexample as a person reads it: who does what, in order, and what the ledger says after each step.

Worlds hold no generation numbers. A story has them again, counted along the way; odd generations are worker A's and
even ones worker B's, as if the two took turns.
"""

from collections.abc import Sequence
from typing import Final

from .world import Step, Task

SPEAKERS: Final = {
    "approver": "an approver",
    "coordinator": "the coordinator",
    "downstream": "outside,",
    "gate": "the gate",
    "operator": "an operator",
    "time": "meanwhile",
}


def tell(steps: Sequence[Step]) -> str:
    """The steps numbered, one a line, and the violation that they end with."""
    lines, names = [], _names(steps)
    width = max(len(name) + len(step.text) for name, step in zip(names, steps, strict=True)) + 5
    for number, (name, step) in enumerate(zip(names, steps, strict=True), start=1):
        line = f"{number:2}. {name} {step.text}"
        lines.append(f"{line:<{width}}  [{_ledger(step)}]")
    last = steps[-1].violation
    if last is not None:
        lines.append(f"    ✗ {last.text}")
    return "\n".join(lines)


def _names(steps: Sequence[Step]) -> list[str]:
    generation = 0
    owners: list[int] = []  # by dispatch
    names = []
    for step in steps:
        if step.who == "claimant":
            generation += 1
        speaker = _generation(step.who, generation, owners)
        names.append(_worker(speaker) if speaker else SPEAKERS.get(step.who, step.who))
        if len(step.world.dispatches) > len(owners):
            owners.append(speaker)
    return names


def _generation(who: str, newest: int, owners: Sequence[int]) -> int:
    """The generation of the attempt that acts; 0 where nobody's attempt does."""
    if who in ("claimant", "holder"):
        return newest
    if who == "before":
        return newest - 1
    if who.startswith("owner of "):
        return owners[int(who.removeprefix("owner of ")) - 1]
    return 0


def _worker(generation: int) -> str:
    return f"{'A' if generation % 2 else 'B'} (generation {generation})"


def _ledger(step: Step) -> str:
    task, slot = Task(step.world.task).name, step.world.effect.name
    return f"task {task}, slot {slot}{', performed' if step.world.performed else ''}"
