"""A worker that has just been started, with an empty memory: `python -m tests.cases.fresh_process CREDENTIAL`.

Claims all that it can get and prints the tasks' ids, one a line.
"""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    import django

    django.setup()
    from coordinator.actors import ActorKind, Worker
    from tests import world

    worker = Worker(
        kind=ActorKind.WORKER,
        name="fresh",
        id=int(sys.argv[1]),
        pool="blue",
        queues=frozenset({"q"}),
        scopes=frozenset({"work"}),
        contract="claim.v1",
    )
    for claim in world.claim(by=worker, limit=100):
        print(claim.fence.task_id)


if __name__ == "__main__":
    main()
