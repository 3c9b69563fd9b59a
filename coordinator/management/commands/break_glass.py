"""`manage.py break_glass open|close`: a recorded permission to write past the guard (contract 16)."""

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import system
from coordinator.outcomes import Refusal
from coordinator.services.break_glass import MAX_MINUTES, close_break_glass, open_break_glass


class Command(BaseCommand):
    help = (
        "Open or close a break-glass session. While one is open every page says so, and each write under it counts "
        'against coverage. Example: manage.py break_glass open --minutes 15 --reason "undo the import of 30 May"'
    )

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        opening = verbs.add_parser("open", help="open a session")
        opening.add_argument("--reason", required=True, help="why the guard must be passed by")
        opening.add_argument(
            "--minutes", type=int, default=15, help=f"1 to {MAX_MINUTES}, 15 by default"
        )
        closing = verbs.add_parser("close", help="close a session before it ends by itself")
        closing.add_argument("session", type=int)
        for verb in (opening, closing):
            verb.add_argument("--json", action="store_true", help="print JSON for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system(f"break_glass by {getpass.getuser()}")
        if options["verb"] == "open":
            answer = open_break_glass(
                reason=options["reason"], minutes=options["minutes"], actor=actor
            )
        else:
            answer = close_break_glass(session_id=options["session"], actor=actor)
        if isinstance(answer, Refusal):
            faults = "; ".join(
                f"{error.pointer.strip('/')}: {error.detail}" for error in answer.errors
            )
            raise CommandError(faults or answer.detail)
        if options["json"]:
            told = {
                "session": answer.pk,
                "expires_at": answer.expires_at.isoformat(),
                "closed_at": answer.closed_at.isoformat() if answer.closed_at else None,
                "writes": answer.writes,
            }
            self.stdout.write(json.dumps(told))
        elif answer.closed_at is None:
            self.stdout.write(
                f"Session {answer.pk} is open until {answer.expires_at:%Y-%m-%d %H:%M:%S} UTC.\n"
                f"In psql: SET tenure.break_glass = '{answer.pk}';"
            )
        else:
            self.stdout.write(
                f"Session {answer.pk} is closed. Statements under it: {answer.writes}."
            )
