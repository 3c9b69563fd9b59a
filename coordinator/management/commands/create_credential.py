"""`manage.py create_credential`: a worker's bearer token, from the command line (contract 17)."""

import getpass
import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import system
from coordinator.outcomes import Refusal
from coordinator.services.credentials import SCOPES, issue_credential


class Command(BaseCommand):
    help = (
        "Make a worker's credential and print its token, once. Pool and queues must exist. "
        "Example: manage.py create_credential fleet-1 --pool blue --queue reviews --scope work submit"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("name", help="what people will know it by")
        parser.add_argument("--pool", required=True, help="the pool that its workers belong to")
        parser.add_argument(
            "--queue",
            required=True,
            nargs="+",
            action="extend",
            help="the queues that it may touch",
        )
        parser.add_argument("--scope", required=True, nargs="+", action="extend", choices=SCOPES)
        parser.add_argument("--json", action="store_true", help="print JSON for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        issued = issue_credential(
            name=options["name"],
            pool=options["pool"],
            queues=options["queue"],
            scopes=options["scope"],
            actor=system(f"create_credential by {getpass.getuser()}"),
        )
        if isinstance(issued, Refusal):
            raise CommandError(
                "; ".join(f"{e.pointer.strip('/')}: {e.detail}" for e in issued.errors)
            )
        credential = issued.credential
        if options["json"]:
            told = {
                "credential_id": str(credential.credential_id),
                "name": credential.name,
                "token": issued.token,
            }
            self.stdout.write(json.dumps(told))
            return
        self.stdout.write(
            f"{credential.name} may {', '.join(credential.scopes)} in {', '.join(credential.queues)} "
            f"(pool {credential.pool}).\nIts token, shown only now:\n{issued.token}"
        )
