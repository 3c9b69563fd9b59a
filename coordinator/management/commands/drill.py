"""`manage.py drill`: try the fence of one queue, or of all (contract 14)."""

import getpass
import sys
from dataclasses import asdict
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import system
from coordinator.outcomes import Refusal
from coordinator.selectors.drills import DrillRecord
from coordinator.selectors.queues import queue_names
from coordinator.services.drills import run_drill


class Command(BaseCommand):
    help = (
        "Send canary tasks through expiry, take-over, late calls, an older epoch, a cancel and a second payload, and "
        "see that each is refused. About a second a queue; exit code 1 when a step was not answered as it must be. "
        "Example: manage.py drill --queue reviews"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--queue", help="this queue; without it, every queue by name")
        parser.add_argument("--reason", default="asked for by hand", help="stands in its event")
        parser.add_argument("--json", action="store_true", help="one JSON array instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        names = [options["queue"]] if options["queue"] else queue_names()
        actor = system(f"drill by {getpass.getuser()}")
        drills = []
        for name in names:
            answer = run_drill(queue=name, reason=options["reason"], actor=actor)
            if isinstance(answer, Refusal):
                raise CommandError(f"There is no queue `{name}`.")
            drills.append(answer)
            if not options["json"]:
                self._tell(answer)
        if options["json"]:
            told = [asdict(drill) for drill in drills]
            self.stdout.write(orjson.dumps(told, option=orjson.OPT_INDENT_2).decode())
        elif not drills:
            self.stdout.write("There is no queue yet.")
        if not all(drill.passed for drill in drills):
            sys.exit(1)

    def _tell(self, drill: DrillRecord) -> None:
        verdict = {
            True: "passed",
            False: "FAILED",
            None: "void: an epoch bump crossed it; try again",
        }
        self.stdout.write(f"{drill.queue}: {verdict[drill.passed]}")
        for step in drill.steps:
            mark = "ok   " if step.passed else "WRONG"
            told = "" if step.passed else f", not {step.expected}"
            self.stdout.write(f"  {mark}  {step.step}: {step.answered}{told}")
