"""What people and agents write by hand may have a secret in it: each such text is masked wherever a page tells it.

One table of all columns that hold such a text. Each gets a secret of its own; none of them stands on any page, and
the mark of each stands on one at least, so that no column is in the table for nothing (ADR 0022).
"""

import re
from typing import Any, Final

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.utils import timezone

from console.visible import masked
from coordinator.models import Approval, BulkJob, Restore, RestoreHold
from coordinator.services.asking import note_unknown
from coordinator.services.break_glass import open_break_glass
from coordinator.services.cancels import cancel_task
from coordinator.services.shadow_explanations import explain_round
from tests import world
from tests.console import rollout
from tests.console.scene import any_time
from tests.console.test_every_form import at_step
from tests.console.test_every_route import PEOPLE, ask_for_pages
from tests.hostile.ground import Ground, compose_ground, enter
from tests.incidents import rollback
from tests.snapshots import restored

pytestmark = pytest.mark.django_db(transaction=True)

#: Columns of free text that pages tell, by table.
TOLD: Final = {
    "approval": ("end_reason", "assigned_note"),
    "attempt": ("end_reason",),
    "audit": ("reason",),
    "breakglass": ("reason",),
    "bulkitem": ("detail",),
    "bulkjob": ("reason",),
    "decision": ("comment",),
    "downstream": ("probe",),
    "incident": ("reason",),
    "incidentcanary": ("reason",),
    "incidentstep": ("reason",),
    "candidatedecision": ("reason",),
    "promotionrequest": ("reason", "end_reason"),
    "restore": ("reason",),
    "shadowexplanation": ("reason", "link"),
}
#: Members of JSON that people and agents write, by table, column and member.
TOLD_IN_JSON: Final = (
    ("event", "data", "reason"),
    ("attempt", "error", "message"),
    ("evidence", "detail", "detail"),
)
#: Columns that are called as the others are and need no mask, each for its reason.
NOT_TOLD: Final = {
    "installation.held_because": "the coordinator's own words",
    "auditwatch.fault_detail": "the coordinator's own words",
    "auditfinding.detail": "the coordinator's own words: ids and states",
    "restorehold.reason": "told by its event alone",
    "evidence.detail": "JSON: its members are in the table",
}
_CALLED: Final = "(reason|note|comment|detail|probe|because|link|statement)$"
Secrets = dict[str, str]


def test_every_column_of_free_text_is_in_the_table(transactional_db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT replace(table_name, 'coordinator_', '') || '.' || column_name"
            " FROM information_schema.columns WHERE table_schema = current_schema()"
            " AND table_name LIKE 'coordinator\\_%%' AND data_type IN ('text', 'jsonb')"
            " AND column_name ~ %s",
            [_CALLED],
        )
        found = {name for (name,) in cursor.fetchall()}
    told = {f"{table}.{column}" for table, columns in TOLD.items() for column in columns}
    assert found == told | set(NOT_TOLD)


def test_a_secret_in_a_free_text_is_masked_on_every_page_that_tells_it(
    transactional_db: None,
) -> None:
    ground = restored(compose_ground)
    addresses = [address for _, address in ask_for_pages(ground)] + furnish(ground)
    secrets = put_secrets_in()
    client = enter(Client(), User.objects.get(username=PEOPLE["admin"]))
    shown, leaks = "", []
    for address in dict.fromkeys(addresses):
        answer: Any = client.get(address)
        assert answer.status_code in (200, 409), address  # some are over by now
        # What is edited has to stay what it is: a mask that is sent back would be kept.
        page = re.sub(r"<textarea.*?</textarea>", "", answer.content.decode(), flags=re.DOTALL)
        leaks += [f"{name} at {address}" for name, secret in secrets.items() if secret in page]
        shown += page
    assert not leaks, "\n".join(leaks)
    untold = [name for name, secret in secrets.items() if masked(f"Bearer {secret}") not in shown]
    assert not untold, f"no page tells {untold}"


def put_secrets_in() -> Secrets:
    """Each column's texts end in a secret of its own; what it is, by the column."""
    columns = [(table, column) for table, names in TOLD.items() for column in names]
    secrets: Secrets = {}
    with any_time() as cursor:
        for table, column in columns:
            secret = secrets[f"{table}.{column}"] = f"column{len(secrets):02}" * 3
            cursor.execute(
                f"UPDATE coordinator_{table} SET {column} = {column} || %s WHERE {column} IS NOT NULL",
                [f" Bearer {secret}"],
            )
        for table, column, member in TOLD_IN_JSON:
            secret = secrets[f"{table}.{column}.{member}"] = f"member{len(secrets):02}" * 3
            cursor.execute(
                f"UPDATE coordinator_{table} SET {column} = jsonb_set({column}, %s,"
                f" to_jsonb(({column} ->> %s) || %s)) WHERE jsonb_typeof({column} -> %s) = 'string'",
                [[member], member, f" Bearer {secret}", member],
            )
    return secrets


def furnish(ground: Ground) -> list[str]:
    """Words where the ground has none yet; the pages beside the ground's that tell them."""
    operator = world.operator()
    open_break_glass(reason="A row has to be mended by hand.", minutes=5, actor=operator)
    explain_round(
        round_id=rollout.a_mismatch().round_id,
        reason="Both are right here.",
        link="https://tracker.example/7",
        actor=operator,
    )
    at_step(6)(ground, User.objects.get(username=PEOPLE["admin"]))
    incident_id = ground.parts["incident_id"]
    rollback.took(rollback.let_in(incident_id, 10, reason="A tenth of them first."))
    rollback.took(rollback.resume(incident_id, reason="They fare well."))
    withdrawn = Approval.objects.get(effect__node_id="newsletter")
    cancel_task(task_id=withdrawn.effect.task_id, reason="Nobody wants to read it.", actor=operator)
    rejected = Approval.objects.get(effect__node_id="gift")
    passed_on(ground, User.objects.get(username="anna-lena").pk)
    note = "Asked them on the phone."
    note_unknown(
        effect_id=ground.parts["effect_id"],
        dispatches=1,
        note=note,
        check_in_minutes=60,
        actor=operator,
    )
    (done,) = BulkJob.objects.exclude(finished_at=None)[:1]
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_promotionrequest SET state = 'WITHDRAWN', ended_at = requested_at,"
            " ended_by = 'operator:bob', end_reason = 'Not this week.'"
        )
        at = timezone.now()
        run = Restore.objects.create(
            begun_at=at,
            begun_by="operator:bob",
            reason="Its disk was lost.",
            found={},
            finished_at=at,
        )
        RestoreHold.objects.create(restore=run, task_id=ground.parts["task_id"], held_at=at)
    return [
        *(f"/incidents/{incident_id}/step/{number}" for number in range(1, 8)),
        f"/incidents/{incident_id}/report.md",
        f"/incidents/{incident_id}/report.json",
        f"/approvals/{withdrawn.approval_id}",
        f"/approvals/{rejected.approval_id}",
        f"/tasks/bulk/{done.bulk_id}",
        f"/tasks/{ground.of['task-reopen']['task_id']}",
        f"/tasks/{rejected.effect.task_id}",
        f"/tasks/{withdrawn.effect.task_id}",
    ]


def passed_on(ground: Ground, user_id: int) -> None:
    with any_time() as cursor:
        cursor.execute(
            "UPDATE coordinator_approval SET assignee_id = %s, assigned_by = 'operator:bob',"
            " assigned_at = requested_at, assigned_note = 'You know the customer.' WHERE approval_id = %s",
            [user_id, ground.parts["approval_id"]],
        )
