"""What people and agents write by hand is masked for people in the API's answers as on the pages (ADR 0022).

By the table of the pages' own test: none of its secrets stands in any answer to a person, and the mark of each that
the API tells stands in one, so that no field is left out of the masks for its name.
"""

import json
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console.visible import masked
from coordinator.api.schema import schema_bytes
from coordinator.models import Attempt, BulkJob
from coordinator.services.credentials import create_operator_token
from tests.console.test_every_route import PEOPLE, ask_for_pages
from tests.console.test_free_texts import furnish, put_secrets_in
from tests.hostile.ground import Ground, compose_ground
from tests.snapshots import restored

from .callers import Caller, worker

pytestmark = pytest.mark.django_db(transaction=True)

#: Columns of the table that no operation tells, each for its reason.
NOT_TOLD: Final = {
    "breakglass.reason": "the console alone has a page for it",
    "restore.reason": "the console alone tells why a task is held",
}
#: Answers that are no JSON of records, or take a file's name.
_OTHERS: Final = frozenset({"/memory/{namespace}/{key}", "/attempts/{attempt_id}/blobs/{name}"})


def answers(caller: Caller, ground: Ground) -> dict[str, str]:
    """Each GET of the schema with the ids of things that are there."""
    found: dict[str, str] = {}
    more = {"queue": "review", "slug": "fenced", "namespace": "n", "key": "k"}
    parts = ground.parts | more
    tasks = {str(each) for each in Attempt.objects.values_list("task_id", flat=True)}
    tasks |= {str(ground.of["task-reopen"]["task_id"]), str(parts["task_id"])}
    bulks = {str(each.bulk_id) for each in BulkJob.objects.all()}
    for path, methods in json.loads(schema_bytes())["paths"].items():
        short = path.removeprefix("/api/v1")
        if "get" not in methods or short in _OTHERS or "hint" in short:
            continue
        many = {"{task_id}": tasks, "{bulk_id}": bulks}
        for name, ids in many.items():
            if name in short:
                for one in ids:
                    ask(caller, short.replace(name, one).format(**parts), found)
                break
        else:
            ask(caller, short.format(**parts), found)
    incident = f"/incidents/{parts['incident_id']}/report?format=markdown"
    ask(caller, incident, found)
    return found


def ask(caller: Caller, path: str, found: dict[str, str]) -> None:
    reply: Any = caller.get(path)
    assert reply.status in (200, 404, 409), (path, reply)
    body = reply.body
    found[path] = body.decode() if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False)


def test_a_secret_in_a_free_text_is_masked_in_every_answer_that_tells_it(
    transactional_db: None,
) -> None:
    ground = restored(compose_ground)
    ask_for_pages(ground)
    furnish(ground)
    secrets = put_secrets_in()
    admin = User.objects.get(username=PEOPLE["admin"])
    caller = Caller(create_operator_token(user=admin, name="tests")[1], Client())
    told = answers(caller, ground)
    assert len(told) > 60
    leaks = [
        f"{name} at {path}"
        for path, text in told.items()
        for name, secret in secrets.items()
        if secret in text
    ]
    assert not leaks, "\n".join(leaks)
    whole = "\n".join(told.values())
    untold = {name for name, secret in secrets.items() if masked(f"Bearer {secret}") not in whole}
    assert untold == set(NOT_TOLD)


def test_a_worker_is_handed_them_whole(transactional_db: None) -> None:
    ground = restored(compose_ground)
    secrets = put_secrets_in()
    fleet = worker("reader", queues=["review"])
    failed = str(fleet.get(f"/tasks/{ground.of['task-reopen']['task_id']}/attempts").body)
    assert secrets["attempt.error.message"] in failed
    assert "[masked" not in failed
