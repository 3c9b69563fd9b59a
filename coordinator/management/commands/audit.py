"""`manage.py audit`: check the stored history against its invariants; name the rows that break one (contract 14)."""

import getpass
import sys
from dataclasses import asdict
from typing import Any

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import system
from coordinator.outcomes import Refusal
from coordinator.selectors.audits import AuditReport, find_audit
from coordinator.services.audits import run_audit

_SHOWN = 50


class Command(BaseCommand):
    help = (
        "Read the whole stored history in small batches and check that it holds together: one canonical commit a task, "
        "no successor before its parents, nothing of an old epoch after its bump, and so on. Exit code 1 when a row "
        "breaks an invariant. Example: manage.py audit --json"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--reason", default="asked for by hand", help="stands in its event")
        parser.add_argument("--json", action="store_true", help="one JSON object instead of text")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = system(f"audit by {getpass.getuser()}")
        answer = run_audit(reason=options["reason"], actor=actor)
        if isinstance(answer, Refusal):
            raise CommandError("; ".join(error.detail for error in answer.errors))
        report = find_audit(answer.audit_id)
        assert report is not None, "it was made just now"
        if options["json"]:
            self.stdout.write(orjson.dumps(asdict(report), option=orjson.OPT_INDENT_2).decode())
        else:
            self._tell(report)
        if report.audit.broken:
            sys.exit(1)

    def _tell(self, report: AuditReport) -> None:
        self.stdout.write(f"{report.audit.rows_read} rows read.")
        if not report.audit.broken:
            self.stdout.write("Every invariant holds.")
        for invariant, count in report.audit.broken.items():
            self.stdout.write(f"BROKEN  {invariant}: {count}")
        for finding in report.findings[:_SHOWN]:
            self.stdout.write(
                f"  {finding.subject}: {finding.invariant} {orjson.dumps(finding.detail).decode()}"
            )
