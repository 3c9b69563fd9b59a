"""An empty database becomes an installation: `python -m tests.chaos.making QUEUE` prints its tokens as JSON."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from tests.chaos.downstream import SETTLE_SECONDS

POOL = "chaos"
CALL_SECONDS = 3


def main(queue: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "coordinator.site.settings")
    os.environ["TENURE_DB_TIMEOUTS"] = "off"
    from coordinator.site.prepare import prepare

    prepare(demo=False)
    from django.contrib.auth.models import Group, User

    from coordinator.actors import system
    from coordinator.services.credentials import create_credential, create_operator_token
    from coordinator.services.downstreams import register_downstream
    from coordinator.services.queues import create_queue, ensure_pool
    from tests.chaos.bugs import prepare_named

    actor = system("chaos")
    ensure_pool(name=POOL, actor=actor)
    create_queue(
        name=queue,
        active_pool=POOL,
        actor=actor,
        default_ttl_seconds=5,
        max_attempts=100,
        retry_backoff_seconds=0,
        retry_backoff_max_seconds=2,
    )
    guarantees: dict[str, tuple[str, dict[str, Any]]] = {
        "keyed": ("IDEMPOTENT_KEY", {"key_valid_seconds": 86_400}),
        "conditional": ("CONDITIONAL_WRITE", {}),
        "gated": ("GATED", {"refuses_late": True}),
        "late": ("QUERY_ONLY", {"refuses_late": True}),
    }
    for name, (guarantee, more) in guarantees.items():
        register_downstream(
            name=name,
            kind="etag" if name == "conditional" else "http",
            guarantee=guarantee,
            actor=actor,
            call_timeout_seconds=CALL_SECONDS,
            settle_seconds=SETTLE_SECONDS,
            **more,
        )
    tokens = {
        scope: create_credential(
            name=f"chaos-{scope}", pool=POOL, queues=[queue], scopes=[scope], actor=actor
        )[1]
        for scope in ("work", "gate")
    }
    person = User.objects.create_user("chaos")
    person.groups.add(Group.objects.get(name="admin"))
    tokens["operator"] = create_operator_token(user=person, name="chaos")[1]
    prepare_named()
    print(json.dumps(tokens))


if __name__ == "__main__":
    main(*sys.argv[1:])
