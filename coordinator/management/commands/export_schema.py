"""`manage.py export_schema`: the OpenAPI document as a file, for readers and generators of clients."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.api.schema import schema_bytes


class Command(BaseCommand):
    help = (
        "Write the API's OpenAPI document. With --check it only compares, and fails where the file is stale. "
        "Example: manage.py export_schema docs/openapi.json"
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, nargs="?", default=Path("docs/openapi.json"))
        parser.add_argument(
            "--check", action="store_true", help="write nothing; exit code 1 where it would differ"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        file: Path = options["file"]
        schema = schema_bytes()
        if options["check"]:
            if not file.exists() or file.read_bytes() != schema:
                raise CommandError(f"{file} is stale: run `manage.py export_schema {file}`.")
            self.stdout.write(f"{file} is what the server serves.")
            return
        file.write_bytes(schema)
        self.stdout.write(f"{file}: {len(schema)} bytes.")
