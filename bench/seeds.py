"""What stands in the queue before anything is measured, and a folder in which it may stay for the next measurement."""

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench import clients
from bench.finished import count_in, make_finished
from bench.place import Place

SUBMITTED_AT_ONCE: Final = 50_000


@dataclass(frozen=True, slots=True)
class Seeds:
    """So many tasks that are over and that wait. `folder`: where they stay; `reused`: and stand already."""

    finished: int
    open: int
    folder: Path | None = None
    reused: bool = False

    def place(self) -> Place:
        return Place(folder=self.folder)

    def sow(self, place: Place, *, say: Callable[[str], object] = sys.stderr.write) -> None:
        """Make what is missing of both; nothing in a folder that is reused. The waiting ones are the older."""
        if self.reused:
            return
        waiting = self.open - count_in(place, state="READY")
        while waiting > 0:
            say(f"{waiting:,} waiting tasks are to be submitted\n")
            clients.submit(place.target, nodes=min(SUBMITTED_AT_ONCE, waiting))
            waiting -= SUBMITTED_AT_ONCE
        make_finished(place, self.finished - count_in(place, state="COMMITTED"), say=say)


def add_arguments(parser: argparse.ArgumentParser, *, finished: int, waiting: int) -> None:
    parser.add_argument("--finished", type=int, default=finished, help="finished tasks to make")
    parser.add_argument("--open", type=int, default=waiting, help="waiting tasks to submit")
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument(
        "--keep",
        type=Path,
        metavar="DIR",
        help="put the server there and leave it there; what is missing of an earlier seeding is added",
    )
    folder.add_argument(
        "--reuse",
        type=Path,
        metavar="DIR",
        help="measure on what an earlier --keep has left there, as it stands",
    )


def chosen(options: argparse.Namespace) -> Seeds:
    """Exits with one sentence where there is nothing to reuse."""
    if options.reuse and not (options.reuse / "token").exists():
        sys.exit(f"error: nothing was kept in {options.reuse}; seed it with --keep first.")
    return Seeds(
        finished=options.finished,
        open=options.open,
        folder=options.reuse or options.keep,
        reused=bool(options.reuse),
    )
