"""A worker that prepares one effect and is killed at once: `python -m tests.cases.preparing_process CREDENTIAL`.

It prints the effect's id before it kills itself, so that nothing of it can be cleaned up.
"""

import os
import signal
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    import django

    django.setup()
    from coordinator.actors import ActorKind, Worker
    from tests import world
    from tests.cases import mailbox

    worker = Worker(
        kind=ActorKind.WORKER,
        name="killed",
        id=int(sys.argv[1]),
        pool="blue",
        queues=frozenset({"q"}),
        scopes=frozenset({"work"}),
        contract="claim.v1",
    )
    effect = mailbox.prepared(world.claim_one(by=worker), by=worker)
    print(effect.effect_id, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
