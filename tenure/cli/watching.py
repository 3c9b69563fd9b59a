"""Following a run until nothing moves in it any more."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
_TELLING = ("CLAIMED", "FAILED", "AWAITING_APPROVAL", "AWAITING_RECONCILIATION", "CANCELLED")


@dataclass(frozen=True)
class Look:
    """A run and the newest task of each of its nodes, at one moment."""

    run: Run
    tasks: Sequence[Task]

    @property
    def counts(self) -> Counter[str]:
        """How many nodes are in which state."""
        return Counter(task.state for task in self.tasks)

    def sentence(self) -> str:
        """`17 of 40 committed, 3 CLAIMED, 20 BLOCKED`."""
        counts = self.counts
        rest = [
            f"{number} {state}" for state, number in counts.most_common() if state != "COMMITTED"
        ]
        return ", ".join([f"{counts['COMMITTED']} of {len(self.tasks)} committed", *rest])


def look(client: Client, run_id: str) -> Look:
    """One look. The run is read first: a run that was over then has no later news in its tasks."""
    run = client.run(run_id)
    tasks = [task for task in client.tasks(run_id=run_id) if task.state != "SUPERSEDED"]
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
    """Plain progress: each task's change of state is one line."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}

    def show(self, seen: Look) -> None:
        for task in seen.tasks:
            if self._states.get(task.task_id) != task.state:
                self._states[task.task_id] = task.state
                if task.state not in {"BLOCKED", "READY"}:
                    say(
                        f"{task.node_id}: {task.state}"
                        + (f" by {task.owner}" if task.state == "CLAIMED" else "")
                    )
        if seen.run.state in _OVER:
            say(f"run {seen.run.run_id}: {seen.run.state} ({seen.sentence()})")


def _view(seen: Look) -> Group:
    counts = seen.counts
    head = Text.assemble(
        (printable(seen.run.name or seen.run.run_id), "bold"),
        "  ",
        styled(seen.run.state),
        f"  {seen.sentence()}",
    )
    bar = ProgressBar(total=max(1, len(seen.tasks)), completed=counts["COMMITTED"], width=60)
    table = Table(box=None, show_header=False, pad_edge=False)
    rows = [task for state in _TELLING for task in seen.tasks if task.state == state]
    for task in rows[:MOST_ROWS]:
        attempt = f"attempt {task.claim_generation}" if task.claim_generation > 1 else ""
        table.add_row(
            styled(task.state), printable(task.node_id), printable(task.owner or ""), attempt
        )
    if len(rows) > MOST_ROWS:
        table.add_row("", f"… and {len(rows) - MOST_ROWS} more", "", "")
    return Group(head, bar, table)
