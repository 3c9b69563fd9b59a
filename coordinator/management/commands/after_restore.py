"""`manage.py after_restore`: what must happen before a restored or promoted database goes on (contract 12, 17)."""

import getpass
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import Actor, ActorKind
from coordinator.outcomes import Outcome, Refusal
from coordinator.services.restores import Doubt, Restored, after_restore, look_at_identity


class Command(BaseCommand):
    help = (
        "After a restore, a copy or a promotion: holds intake, raises each queue's epoch above any seen, makes every "
        "effect that isn't final UNKNOWN, voids approvals, and holds open tasks that declare effects for a person. "
        "Without --confirm it shows both identities and what would be done, and changes nothing. May be cut off and "
        'run again. Example: manage.py after_restore --confirm tenure --reason "restored the backup of 30 May"'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--confirm", metavar="DATABASE", help="the name of the database, typed out"
        )
        parser.add_argument("--reason", default="", help="why; it stands in the history")
        parser.add_argument("--by", default="", help="who; else the user of this shell")
        parser.add_argument(
            "--epoch",
            action="append",
            default=[],
            metavar="QUEUE=N",
            help="the highest epoch that clients of a queue have seen, where the record outside may not know it",
        )
        parser.add_argument(
            "--force",
            action="store_true",
            help="also where nothing is in doubt: the record outside was lost together with the data",
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        seen = _epochs(options["epoch"])
        if not options["confirm"]:
            self._show(_granted(look_at_identity(seen_epochs=seen)), as_json=options["json"])
            raise CommandError(
                "Nothing was changed: repeat with --confirm DATABASE and --reason TEXT."
            )
        answer = after_restore(
            confirm=options["confirm"],
            reason=options["reason"],
            actor=Actor(ActorKind.OPERATOR, options["by"] or getpass.getuser()),
            seen_epochs=seen,
            even_without_doubt=options["force"],
        )
        if isinstance(answer, Refusal) and answer.outcome is Outcome.ALREADY_SETTLED:
            done = {"outcome": "NOTHING_TO_DO", "detail": answer.detail}
            self.stdout.write(json.dumps(done) if options["json"] else answer.detail)
            return
        self._tell(_granted(answer), as_json=options["json"])

    def _show(self, doubt: Doubt, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(asdict(doubt)))
            return
        lines = [
            f"This database is        {doubt.own}",
            f"It says of itself       {doubt.inside}",
            f"On file outside         {doubt.outside}",
            *(f"- {sign}" for sign in doubt.signs),
            *(f"Queue {name} would be raised to epoch {n}" for name, n in doubt.epochs.items()),
        ]
        if doubt.unfinished:
            lines.append("An earlier run of this command was cut off; it would be continued.")
        elif not doubt.hold:
            lines.append("Nothing is in doubt: there is nothing to do.")
        self.stdout.write("\n".join(lines))

    def _tell(self, done: Restored, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(asdict(done)))
            return
        self.stdout.write(
            f"Confirmed: {done.identity}.\n"
            + "".join(
                f"Queue {name}: epoch {epoch}, intake stopped.\n"
                for name, epoch in done.epochs.items()
            )
            + f"{done.held_tasks} tasks wait for a person, {done.unknown_effects} effects are UNKNOWN.\n"
            "Settle what is UNKNOWN, release each held task (POST /api/v1/tasks/ID/restore-hold/release), then open "
            "the intake of each queue."
        )


def _epochs(given: list[str]) -> dict[str, int]:
    epochs: dict[str, int] = {}
    for each in given:
        queue, _, number = each.rpartition("=")
        if not queue or not number.isascii() or not number.isdigit():
            raise CommandError(f"--epoch {each}: write it as QUEUE=N, such as reviews=7.")
        epochs[queue] = max(int(number), epochs.get(queue, 0))
    return epochs


def _granted(answer: Any) -> Any:
    if isinstance(answer, Refusal):
        faults = "; ".join(f"{each.pointer.strip('/')}: {each.detail}" for each in answer.errors)
        raise CommandError(faults or answer.detail)
    return answer
