"""The candidates of a task beside its canonical result, and one of them compared with it."""

from dataclasses import dataclass
from uuid import UUID

from console.diffs import DiffLine, compare
from coordinator.selectors import console_task
from coordinator.selectors.candidates import Candidate, list_candidates


@dataclass(frozen=True, slots=True)
class Compared:
    """`lines` is None where there is nothing to compare, or it is too large to compare in a page (`too_large`)."""

    candidates: tuple[Candidate, ...]
    chosen: Candidate | None
    lines: tuple[DiffLine, ...] | None
    too_large: bool
    readable: bool


def compare_candidates(task_id: UUID, chosen_key: str, *, readable: bool) -> Compared:
    """`chosen_key` is `<attempt_id>:<digest>`; else the newest that is not canonical is chosen."""
    candidates = tuple(list_candidates(task_id, with_results=False))
    others = [each for each in candidates if not each.canonical]
    chosen = next(
        (each for each in others if key_of(each) == chosen_key), others[0] if others else None
    )
    canonical = next((each for each in candidates if each.canonical), None)
    comparable = (
        readable and chosen and canonical and chosen.blob is None and canonical.blob is None
    )
    if not chosen or not comparable:
        return Compared(candidates, chosen, None, False, readable)
    before = console_task.read_result(task_id)
    after = console_task.read_candidate(task_id, chosen.attempt_id, chosen.result_digest)
    if before is None or after is None or before.cut or after.cut:
        return Compared(candidates, chosen, None, True, readable)
    lines = compare(before.text, after.text)
    return Compared(candidates, chosen, lines, lines is None, readable)


def key_of(candidate: Candidate) -> str:
    return f"{candidate.attempt_id}:{candidate.result_digest}"
