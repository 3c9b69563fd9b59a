"""Following a run until nothing moves in it any more."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from tenure.cli.printing import printable, say, styled
from tenure.client import Client
from tenure.records import Run, Task

SHORTEST_POLL_SECONDS = 0.5
LONGEST_POLL_SECONDS = 3.0
#: Rows of the live view; a run may have 10 000 nodes, a terminal has forty lines.
MOST_ROWS = 12
_OVER = {"COMMITTED", "CANCELLED", "FAILED"}
_TELLING = ("FAILED", "AWAITING_APPROVAL", "AWAITING_RECONCILIATION", "CANCELLED", "CLAIMED")


@dataclass(frozen=True)
class Look:
    """A run at one moment, and those of its tasks that tell something."""

    run: Run
    tasks: Sequence[Task]

    @property
    def counts(self) -> Counter[str]:
        """How many nodes are in which state."""
        return Counter(self.run.progress or {})

    def sentence(self) -> str:
        """`17 of 40 committed, 3 CLAIMED, 20 BLOCKED`."""
        counts = self.counts
        rest = [
            f"{number} {state}" for state, number in counts.most_common() if state != "COMMITTED"
        ]
        return ", ".join([f"{counts['COMMITTED']} of {counts.total()} committed", *rest])


def look(client: Client, run_id: str) -> Look:
    """One look. Only tasks of the telling states are fetched: a run may have 10 000 nodes."""
    run = client.run(run_id)
    states = [state for state in _TELLING if (run.progress or {}).get(state)]
    tasks = [
        task
        for state in states
        for task in islice(client.tasks(run_id=run_id, state=state), MOST_ROWS)
    ]
    return Look(run, tasks)


def watch(client: Client, run_id: str, *, quiet: bool = False) -> Look:
    """Show progress until the run is over; the last look. Live on a terminal, a line per change elsewhere."""
    if quiet:
        return _follow(client, run_id, lambda _seen: None)
    if sys.stdout.isatty():
        with Live(console=Console(), refresh_per_second=8) as live:
            return _follow(client, run_id, lambda seen: live.update(_view(seen)))
    lines = _Lines()
    return _follow(client, run_id, lines.show)


def _follow(client: Client, run_id: str, show: Callable[[Look], None]) -> Look:
    pause = SHORTEST_POLL_SECONDS
    before: Counter[str] | None = None
    while True:
        seen = look(client, run_id)
        show(seen)
        if seen.run.state in _OVER:
            return seen
        moved = seen.counts != before
        before = seen.counts
        pause = SHORTEST_POLL_SECONDS if moved else min(LONGEST_POLL_SECONDS, pause * 1.5)
        time.sleep(pause)


class _Lines:
    """Plain progress: a line when the counts change, and one for each task that needs a person."""

    def __init__(self) -> None:
        self._sentence = ""
        self._told: set[str] = set()

    def show(self, seen: Look) -> None:
        for task in seen.tasks:
            if task.state != "CLAIMED" and f"{task.task_id} {task.state}" not in self._told:
                self._told.add(f"{task.task_id} {task.state}")
                say(f"{task.node_id}: {task.state}")
        if seen.run.state in _OVER:
            say(f"run {seen.run.run_id}: {seen.run.state} ({seen.sentence()})")
        elif seen.sentence() != self._sentence:
            self._sentence = seen.sentence()
            say(self._sentence)


def _view(seen: Look) -> Group:
    counts = seen.counts
    head = Text.assemble(
        (printable(seen.run.name or seen.run.run_id), "bold"),
        "  ",
        styled(seen.run.state),
        f"  {seen.sentence()}",
    )
    bar = ProgressBar(total=max(1, counts.total()), completed=counts["COMMITTED"], width=60)
    table = Table(box=None, show_header=False, pad_edge=False)
    for task in seen.tasks[:MOST_ROWS]:
        attempt = f"attempt {task.claim_generation}" if task.claim_generation > 1 else ""
        table.add_row(
            styled(task.state), printable(task.node_id), printable(task.owner or ""), attempt
        )
    return Group(head, bar, table)
