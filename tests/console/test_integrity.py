"""The integrity of the history: passes that are shown, asked for, and what they found, named."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from coordinator.actors import system
from coordinator.clock import read_clock
from coordinator.models import Audit, Credential
from coordinator.services.audits import continue_audits, run_audit
from tests.console import rollout
from tests.console.scene import Scene, any_time

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "Before the report of this quarter."


def test_a_pass_is_asked_for_and_its_end_is_shown(signed_in: Client, scene: Scene) -> None:
    assert "No pass is over yet." in signed_in.get("/audit/integrity").content.decode()
    answer = signed_in.post("/audit/integrity/run", {"reason": WHY}, follow=True)
    assert "one is at work:" in answer.content.decode()
    assert Audit.objects.get().asked_by == "operator:olga"
    while continue_audits(actor=system("audit")) and Audit.objects.filter(finished_at=None):
        pass
    page = signed_in.get("/audit/integrity").content.decode()
    assert "Everything held." in page
    assert WHY in page
    one = signed_in.get(f"/audit/integrity/{Audit.objects.get().audit_id}").content.decode()
    assert "Everything held." in one


def test_what_is_broken_is_named_with_its_row(signed_in: Client, scene: Scene) -> None:
    with any_time() as cursor:
        cursor.execute("DELETE FROM coordinator_canonicalcommit WHERE task_id = %s", [scene.fenced])
    run_audit(reason=WHY, actor=system("tests"))
    page = signed_in.get("/audit/integrity").content.decode()
    assert "The history breaks an invariant." in page
    assert "a task is COMMITTED where it has a canonical commit" in page
    assert str(scene.fenced) in page
    overview = signed_in.get("/").content.decode()
    assert 'href="/audit/integrity"' in overview


def test_who_may_not_asks_for_none(client: Client, viewer: Any) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get("/audit/integrity/run").status_code == 200
    assert client.post("/audit/integrity/run", {"reason": WHY}).status_code == 403
    assert not Audit.objects.exists()
    assert client.get("/audit/integrity").status_code == 200


def test_credentials_that_end_and_mismatches_need_a_human(signed_in: Client, scene: Scene) -> None:
    rollout.shadowed()
    soon = read_clock() + timedelta(days=3)
    Credential.objects.filter(credential_id=scene.credential).update(expires_at=soon)
    page = signed_in.get("/").content.decode()
    assert "Credentials in use that end within a week" in page
    assert f"Shadow of {rollout.QUEUE}: mismatches that nobody has explained" in page
