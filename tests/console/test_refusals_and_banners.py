"""What a page says where something is missing, forbidden, broken, or dangerously open."""

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F
from django.test import Client

from coordinator.intake_shares import is_let_in
from coordinator.models import BreakGlass, Queue, Task
from coordinator.selectors import console_overview
from coordinator.services import break_glass
from coordinator.states import TaskState
from tests import world
from tests.console.scene import Scene

pytestmark = pytest.mark.django_db(transaction=True)


def test_an_address_that_names_nothing_is_told(client: Client) -> None:
    answer = client.get("/no/such/page")
    assert answer.status_code == 404
    assert "The address names no page of the console." in answer.content.decode()


@pytest.mark.parametrize("path", ["tasks", "runs"])
def test_an_unknown_id_is_told_with_what_may_have_happened(signed_in: Client, path: str) -> None:
    unknown = "00000000-0000-7000-8000-000000000000"
    answer = signed_in.get(f"/{path}/{unknown}")
    assert answer.status_code == 404
    page = answer.content.decode()
    assert unknown in page
    assert "It never existed, or it was pruned" in page


def test_a_fault_of_ours_tells_its_request_id_and_nothing_else(
    signed_in: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("a secret detail")

    monkeypatch.setattr(console_overview, "read_queues_now", broken)
    signed_in.raise_request_exception = False
    answer = signed_in.get("/", headers={"X-Request-Id": "told-to-the-caller"})
    page = answer.content.decode()
    assert answer.status_code == 500
    assert "told-to-the-caller" in page
    assert "a secret detail" not in page
    assert "style=" not in page


def test_an_open_break_glass_session_is_on_every_page(signed_in: Client, scene: Scene) -> None:
    opened = break_glass.open_break_glass(
        reason="Repairing the ledger by hand.", minutes=10, actor=world.operator(name="erin")
    )
    for address in (
        "/",
        "/tasks",
        f"/tasks/{scene.held}",
        "/profile",
        f"/tasks/{scene.held}/cancel",
    ):
        page = signed_in.get(address).content.decode()
        assert "Break-glass is open." in page, address
        assert "Repairing the ledger by hand." in page, address
    overview = signed_in.get("/").content.decode()
    assert "A break-glass session is open" in overview
    break_glass.close_break_glass(session_id=opened.pk, actor=world.operator(name="erin"))  # type: ignore[union-attr]
    for address in ("/", "/tasks", "/profile"):
        page = signed_in.get(address).content.decode()
        assert "Break-glass is open." not in page
        assert "Break-glass was used." in page, address
    BreakGlass.objects.update(closed_at=F("closed_at") - timedelta(hours=25))
    assert "Break-glass was used." not in signed_in.get("/").content.decode()


def test_a_healthy_zero_is_a_sentence(signed_in: Client) -> None:
    page = signed_in.get("/").content.decode()
    assert "Nothing needs a human." in page
    assert "There is no queue yet." in page


def test_what_needs_a_human_stands_by_its_gravity(signed_in: Client, scene: Scene) -> None:
    page = signed_in.get("/").content.decode()
    used_up = page.index("Tasks that have used up their attempts")
    stopped = page.index("The intake of nightly is stopped")
    assert used_up < stopped
    assert 'data-title="(2) Overview' in page


@pytest.mark.parametrize(
    ("which", "told"),
    [
        ("held", "holds it under generation 1; its lease runs until"),
        ("fenced", "has the canonical commit, since"),
        ("failed", "All 3 attempts are used up"),
        ("cancelled", "cancelled it at"),
        ("bumped", "Intake of queue <code>nightly</code> is stopped"),
    ],
)
def test_a_task_says_why_it_is_as_it_is(
    signed_in: Client, scene: Scene, which: str, told: str
) -> None:
    assert told in signed_in.get(f"/tasks/{getattr(scene, which)}").content.decode()


def test_a_blocked_task_names_what_it_waits_for(signed_in: Client, scene: Scene) -> None:
    merge = world.task_id(scene.review, "merge")
    page = signed_in.get(f"/tasks/{merge}").content.decode()
    assert "It waits for 6 parents without a canonical commit" in page
    assert "does not move until a person reopens or revises it" in page


def test_a_ready_task_says_who_may_take_it_and_what_is_in_the_way(
    signed_in: Client, scene: Scene
) -> None:
    ready = world.task_id(scene.review, "analyse tenure/client.py")
    assert world.task(ready).state == TaskState.READY
    page = signed_in.get(f"/tasks/{ready}").content.decode()
    assert "no worker has asked for it yet" in page
    assert "takes it under generation 1" in page
    fresh = world.submit(world.node("waits"), queue_name="nightly")
    page = signed_in.get(f"/tasks/{world.task_id(fresh, 'waits')}").content.decode()
    assert "It is READY, but nobody can claim it now." in page
    assert "<code>INTAKE_STOPPED</code>" in page


def test_a_task_that_a_canary_does_not_let_in_yet_says_so(signed_in: Client) -> None:
    world.queue(name="part", intake="STOPPED", intake_share=1)
    world.submit(*(world.node(f"n{number}") for number in range(8)), queue_name="part")
    waits = next(each for each in Task.objects.all() if not is_let_in(each.task_id, 1))
    page = signed_in.get(f"/tasks/{waits.task_id}").content.decode()
    assert "Intake of queue <code>part</code> lets 1 % of the tasks in; not this one yet." in page
    Queue.objects.filter(name="part").update(intake_share=0)
    page = signed_in.get(f"/tasks/{waits.task_id}").content.decode()
    assert "Intake of queue <code>part</code> is stopped." in page


def test_a_lapsed_lease_is_told_before_anybody_takes_over(signed_in: Client, scene: Scene) -> None:
    world.lapse(scene.held, seconds_ago=5)
    page = signed_in.get(f"/tasks/{scene.held}").content.decode()
    assert "its lease ran out at" in page
    assert "the fence decides, not the clock" in page


@pytest.mark.parametrize("method", ["put", "delete", "patch", "post"])
def test_pages_take_no_other_method(signed_in: Client, method: str) -> None:
    assert getattr(signed_in, method)("/tasks").status_code == 405
