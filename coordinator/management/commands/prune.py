"""`manage.py prune`: takes away what is over and nobody asks for any more (contract 17)."""

import getpass
import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from coordinator.actors import Actor, ActorKind
from coordinator.outcomes import Refusal
from coordinator.services.pruning import ALL, Pruned, prune


class Command(BaseCommand):
    help = (
        "Take away stored answers, unreferenced blobs and runs that are over for longer than the settings keep them "
        "(TENURE_KEEP_ANSWERS_HOURS, TENURE_KEEP_BLOBS_DAYS, TENURE_KEEP_RUNS_DAYS, TENURE_KEEP_SHADOW_DAYS), in short "
        "batches; never anything unsettled. May be cut off and run again. Example: manage.py prune --dry-run"
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--dry-run", action="store_true", help="only count what would be taken away"
        )
        parser.add_argument("--json", action="store_true", help="print JSON for a script")

    def handle(self, *args: Any, **options: Any) -> None:
        actor = Actor(ActorKind.OPERATOR, getpass.getuser())
        answer = prune(actor=actor, dry_run=options["dry_run"], pace=ALL)
        if isinstance(answer, Refusal):
            raise CommandError(answer.detail)
        self.stdout.write(json.dumps(asdict(answer)) if options["json"] else _told(answer))
        if not answer.complete and not answer.dry_run:
            raise CommandError("Something is left that is due; run it again.")


def _told(pruned: Pruned) -> str:
    counts = {
        "answers forgotten": pruned.answers_forgotten,
        "keys expired": pruned.keys_expired,
        "blobs": pruned.blobs,
        "stray files": pruned.stray_files,
        "runs": pruned.runs,
        "shadow rounds": pruned.shadow_rounds,
    }
    lines = [
        f"{what}: {count if pruned.complete or not pruned.dry_run else f'{count} or more'}"
        for what, count in counts.items()
    ]
    return "\n".join([*(["Would be taken away:"] if pruned.dry_run else []), *lines])
