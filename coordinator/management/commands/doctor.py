"""`manage.py doctor`: is this installation sound, and what would mend it?"""

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from coordinator.site.diagnosis import as_json, diagnose


class Command(BaseCommand):
    help = (
        "Say what is wrong with the installation and how to mend it; exit code 1 when something is. "
        "Example: manage.py doctor --json"
    )
    requires_system_checks: list[str] = []
    requires_migrations_checks = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        findings = diagnose()
        if options["json"]:
            self.stdout.write(json.dumps(as_json(findings), indent=2))
        else:
            for finding in findings:
                self.stdout.write(
                    f"{'ok   ' if finding.ok else 'WRONG'}  {finding.what}: {finding.detail}"
                )
                if finding.mend:
                    self.stdout.write(f"         mend: {finding.mend}")
        if not all(finding.ok for finding in findings):
            sys.exit(1)
