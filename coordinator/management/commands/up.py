"""`manage.py up`: everything, in the foreground, with one command."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.site.claimed import UpError
from coordinator.site.launch import Launch, Options
from coordinator.site.web import raise_file_limit


class Command(BaseCommand):
    help = (
        "Run everything in the foreground: database, migrations, web, Celery worker and beat, and the example fleet. "
        "Ctrl-C stops all of it. Example: manage.py up --port 8000 --state ./var"
    )
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--port", type=port_number, default=8000, help="port of the web server (default 8000)"
        )
        parser.add_argument(
            "--host", default="127.0.0.1", help="address to listen on (default 127.0.0.1)"
        )
        parser.add_argument(
            "--state", type=Path, help="folder for data and logs (default: TENURE_STATE, else var/)"
        )
        parser.add_argument("--no-demo", action="store_true", help="do not start the example fleet")

    def handle(self, *args: Any, **options: Any) -> None:
        chosen = Options(
            state=(options["state"] or settings.STATE_DIR).expanduser().resolve(),
            host=options["host"],
            port=options["port"],
            demo=not options["no_demo"],
        )
        raise_file_limit()  # a connection is an open file, and a fleet keeps one for each agent
        try:
            Launch(chosen, say=self.say).run()
        except UpError as error:
            raise CommandError(str(error)) from error

    def say(self, line: str) -> None:
        self.stdout.write(line)
        self.stdout.flush()


def port_number(text: str) -> int:
    """A port; for anything else a ValueError, of which argparse makes one line."""
    port = int(text)
    if not 1 <= port <= 65535:
        raise ValueError(text)
    return port
