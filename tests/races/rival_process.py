"""A worker process of its own that claims, renews and commits until it is told to stop; started by the epoch races.

    python -m tests.races.rival_process <credential id> <name>

Reads nothing but the database. It keeps using an epoch until it has been refused with it several times, so that
old-epoch calls keep coming after each bump. Ends when its standard input is closed, and prints what it was told.
"""

import json
import os
import select
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coordinator.actors import Worker

STUBBORN = 5


@dataclass(slots=True)
class Rounds:
    """What one worker was told, by verb, outcome and reason."""

    worker: "Worker"
    epoch: int = 1
    stale: int = 0
    told: Counter[str] = field(default_factory=Counter)

    def one(self) -> None:
        """Claim a few, renew them, commit them: each with the epoch that it knows."""
        from coordinator.outcomes import Refusal
        from coordinator.services.claims import claim_tasks
        from coordinator.services.commits import commit_results
        from coordinator.services.leases import Renewal, renew_leases
        from tests.world import commit_item

        answer = claim_tasks(
            queue="q",
            worker=self.worker,
            scheduler_epoch=self.epoch,
            owner=self.worker.name,
            ttl_seconds=60,
            limit=3,
        )
        self._count("claim", answer)
        if isinstance(answer, Refusal):
            self.stale += 1
            if self.stale >= STUBBORN and answer.current is not None:
                self.epoch, self.stale = answer.current.scheduler_epoch, 0
            return
        if not answer.claims:
            return
        items = [Renewal(c.fence.attempt_id, c.fence, c.owner, 60) for c in answer.claims]
        for renewed in renew_leases(items=items, worker=self.worker):
            self._count("renew", renewed)
        for committed in commit_results(
            items=[commit_item(claim) for claim in answer.claims], worker=self.worker
        ):
            self._count("commit", committed)

    def _count(self, verb: str, answer: Any) -> None:
        outcome = getattr(answer, "outcome", "GRANTED")
        reason = getattr(answer, "reason", None)
        self.told[f"{verb} {outcome}{f' {reason}' if reason else ''}"] += 1


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    import django

    django.setup()
    from coordinator.actors import ActorKind, Worker

    number, name = sys.argv[1:]
    worker = Worker(
        kind=ActorKind.WORKER,
        name=name,
        id=int(number),
        pool="blue",
        queues=frozenset({"q"}),
        scopes=frozenset({"work"}),
        contract="claim.v1",
    )
    rounds = Rounds(worker)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        rounds.one()
    print(json.dumps(rounds.told), flush=True)


if __name__ == "__main__":
    main()
