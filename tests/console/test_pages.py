"""Every page answers, within its budget of queries, with the headers that it must have."""

from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def addresses(scene: Scene) -> list[str]:
    task, run = f"/tasks/{scene.fenced}", f"/runs/{scene.review.run_id}"
    return [
        "/",
        "/tasks",
        "/tasks?state=READY&queue=review",
        "/runs",
        run,
        f"{run}?unfold=1",
        f"{run}/lineage",
        f"{run}/cancel",
        task,
        f"{task}/candidates",
        f"{task}/effects",
        f"{task}/graph",
        f"{task}/events",
        f"{task}/input",
        f"{task}/raw",
        f"/tasks/{scene.held}",
        f"/tasks/{scene.failed}",
        f"/tasks/{scene.cancelled}",
        f"/tasks/{scene.bumped}",
        f"/tasks/{scene.held}/cancel",
        f"/tasks/{scene.failed}/reopen",
        f"/tasks/{scene.held}/revise",
        f"/tasks/{scene.held}/release",
        "/queues",
        "/queues/review",
        "/queues/review/intake",
        "/tasks?kind=analyse&cols=state,run,queue,kind,epoch,submitted",
        "/tasks?q=stat:ready",
        "/tasks/views",
        "/tasks/views/new?state=FAILED",
        f"/tasks/views/{scene.view}",
        f"/tasks/views/{scene.view}/delete",
        "/tasks/bulk",
        f"/tasks/bulk/{scene.bulk_review}",
        f"/tasks/bulk/{scene.bulk_job}",
        f"/tasks/bulk/{scene.bulk_snooze}",
        f"/tasks/bulk/{scene.bulk_review}/stop",
        "/shadow",
        "/shadow/review",
        "/shadow/review/rounds",
        "/shadow/review/promote",
        "/shadow/review/demote",
        "/numbers",
        "/numbers?hours=24&queue=review",
        "/numbers/ready_to_commit?hours=6",
        "/numbers/coverage",
        "/audit/chain",
        "/audit/chain?first=1",
        "/audit/integrity",
        "/audit/integrity/run",
        "/audit",
        "/audit?refused=only&kind=REFUSED&queue=review",
        "/audit?actor=nobody",
        "/workers",
        "/workers?pool=green&queue=nightly",
        "/pools",
        "/downstreams",
        "/downstreams/letters",
        "/downstreams/new",
        "/downstreams/letters/change",
        "/people",
        f"/people/{scene.approver}",
        f"/people/{scene.approver}/role",
        "/more",
        "/profile",
        "/shortcuts",
    ]


def administered(scene: Scene) -> list[str]:
    """Pages that only administrators see."""
    credential = f"/credentials/{scene.credential}"
    return [
        "/credentials",
        "/credentials?revoked=1",
        "/credentials/new",
        credential,
        f"{credential}/revoke",
        f"{credential}/rotate",
    ]


def test_every_page_answers(signed_in: Client, scene: Scene) -> None:
    answers = {address: signed_in.get(address).status_code for address in addresses(scene)}
    assert set(answers.values()) == {200}, answers


def test_an_administrators_pages_answer_them_alone(
    client: Client, scene: Scene, admin: Any, operator: Any
) -> None:
    for user, status in ((admin, 200), (operator, 403)):
        client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
        answers = {address: client.get(address).status_code for address in administered(scene)}
        assert set(answers.values()) == {status}, answers


LISTS = [
    "/tasks",
    "/runs",
    "/tasks?queue=review",
    "/tasks?q=analyse&state=COMMITTED",
    "/tasks/facets?kind=analyse",
    "/tasks/views",
    "/queues",
    "/credentials",
    "/people",
    "/workers",
    "/pools",
    "/downstreams",
]


@pytest.mark.parametrize("address", LISTS)
def test_a_list_page_takes_at_most_eight_queries(
    client: Client, scene: Scene, admin: Any, address: str
) -> None:
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    client.get(address)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        answer = client.get(address)
    assert answer.status_code == 200
    assert len(captured) <= 8, [query["sql"][:120] for query in captured.captured_queries]


@pytest.mark.parametrize("address", ["/", "/tasks", "/sign-in", "/profile"])
def test_the_headers_leave_no_room_for_scripts_of_others(signed_in: Client, address: str) -> None:
    answer: Any = signed_in.get(address)
    policy = answer["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["Referrer-Policy"] == "same-origin"
    assert "no-store" in answer["Cache-Control"] or address == "/sign-in"
