"""Check H of the console's design: what each stage of an incident refuses, keeps and tells."""

import re
from typing import Any
from uuid import UUID

import orjson
import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client

from coordinator.models import Event, IncidentStep, Queue
from tests import world
from tests.console import siege as sieges
from tests.console.siege import QUEUE, WHY, Siege
from tests.console.test_approvals import client_of
from tests.console.test_incidents import (
    bump_form,
    drained,
    form,
    path,
    settle,
    state,
    switched,
)
from tests.incidents import rollback

pytestmark = pytest.mark.django_db(transaction=True)

COOKIE = settings.SESSION_COOKIE_NAME
#: What each step's form sends when somebody is ahead of the gate.
AHEAD: dict[int, dict[str, Any]] = {
    3: {"epochs": f"{QUEUE}=1", "phrase": QUEUE, "alone": "on"},
    4: {"decision": "KEEP"},
    5: {"to_pool": "green", "phrase": "switch to green"},
    6: {"percent": 100},
    7: {},
}


def reached(siege: Siege, stage: str) -> UUID:
    """An incident at this stage, its next steps not yet open."""
    match stage:
        case "STOPPED":
            return sieges.declare()
        case "BUMPED":
            incident_id = sieges.declare()
            client_of("ben", "operator").post(path(incident_id, 3), bump_form(incident_id))
            return incident_id
        case "DRAINED":
            return drained(siege)[0]
        case _:
            return switched(siege)[0]


@pytest.mark.parametrize(
    ("stage", "ahead"),
    [("STOPPED", (4, 5, 6, 7)), ("BUMPED", (5, 6, 7)), ("DRAINED", (6, 7)), ("SWITCHED", (7,))],
)
def test_no_step_ahead_of_its_gate_is_shown_or_taken(
    siege: Siege, stage: str, ahead: tuple[int, ...]
) -> None:
    incident_id = reached(siege, stage)
    ben = client_of("ben", "operator")
    before = world.fingerprint()
    for number in ahead:
        assert ben.get(path(incident_id, number)).status_code == 409, number
        sent = form(incident_id, **AHEAD[number])
        assert ben.post(path(incident_id, number), sent).status_code == 409, number
    assert world.fingerprint() == before
    assert state(incident_id) == stage


@pytest.mark.parametrize(
    ("number", "sent"),
    [
        (3, {"epochs": f"{QUEUE}=1", "phrase": QUEUE.upper()}),
        (3, {"epochs": f"{QUEUE}=1", "phrase": f"{QUEUE} \u200b"}),
        (3, {"epochs": f"{QUEUE}=1", "phrase": ""}),
        (5, {"to_pool": "green", "phrase": "switch to blue"}),
        (5, {"to_pool": "green", "phrase": "green"}),
    ],
)
def test_a_wrong_phrase_is_a_422_that_takes_the_focus(
    siege: Siege, number: int, sent: dict[str, Any]
) -> None:
    incident_id = sieges.declare() if number == 3 else drained(siege)[0]
    before = world.fingerprint()
    answer = client_of("ben", "operator").post(path(incident_id, number), form(incident_id, **sent))
    page = answer.content.decode()
    assert answer.status_code == 422
    field = re.search(r'<input id="id_phrase"[^>]*>', page)
    assert field
    assert 'aria-invalid="true" aria-describedby="e-phrase" data-take-focus' in field[0]
    assert 'id="e-phrase"' in page
    assert WHY in page  # what was typed is still there
    assert world.fingerprint() == before


def test_the_same_person_in_another_session_is_no_second_one(siege: Siege) -> None:
    first = client_of("olga", "operator")
    incident_id = sieges.declare(by="olga")
    other = Client()
    same = User.objects.get(username="olga")
    other.force_login(same, "django.contrib.auth.backends.ModelBackend")
    assert first.cookies[COOKIE].value != other.cookies[COOKIE].value
    for session in (first, other):
        assert session.post(path(incident_id, 3), bump_form(incident_id)).status_code == 403
    assert state(incident_id) == "STOPPED"
    assert Queue.objects.get(name=QUEUE).scheduler_epoch == 1
    refused = Event.objects.filter(kind="REFUSED", actor="operator:olga", data__has_key="point")
    assert refused.exists()


def test_it_goes_on_after_a_reload_and_in_another_persons_browser(siege: Siege) -> None:
    """Each step by somebody else, in a browser that has seen nothing of it before."""
    incident_id = sieges.declare()
    for number, sent, name in (
        (3, {"epochs": f"{QUEUE}=1", "phrase": QUEUE}, "ben"),
        (4, {"decision": "DISCARD"}, "carla"),
        (5, {"to_pool": "green", "phrase": "switch to green"}, "dora"),
        (6, {"percent": 10}, "emil"),
        (6, {"percent": 100}, "fred"),
    ):
        somebody = client_of(name, "operator")
        landed = somebody.get(f"/incidents/{incident_id}")  # the step that is at hand
        assert landed["Location"] in (path(incident_id, number), path(incident_id, number - 1))
        pages = [somebody.get(path(incident_id, number)).content.decode() for _ in range(2)]
        assert _without_keys(pages[0]) == _without_keys(pages[1])  # a reload changes nothing
        assert (
            somebody.post(path(incident_id, number), form(incident_id, **sent)).status_code == 302
        )
        if number == 3:
            sieges.let_leases_run_out(incident_id)
            settle(siege)
    assert state(incident_id) == "CLOSED"
    steps = {step.step: step.actor for step in IncidentStep.objects.all()}
    assert steps == {
        "STOPPED": "operator:olga",
        "BUMPED": "operator:ben",
        "DRAINED": "operator:dora",
        "SWITCHED": "operator:dora",
        "CLOSED": "operator:fred",
    }


def _without_keys(page: str) -> str:
    """Without what is new at each load: keys, tokens and the time."""
    page = re.sub(r'name="(action_key|csrfmiddlewaretoken)" value="[^"]*"', "", page)
    return re.sub(r"\d{4}-\d\d-\d\dT[0-9:.+]+|\d\d:\d\d:\d\d", "", page)


def test_the_report_tells_each_step_with_its_person_and_its_time(siege: Siege) -> None:
    incident_id, ben = switched(siege)
    ben.post(path(incident_id, 6), form(incident_id, percent=10))
    ben.post(path(incident_id, 6), form(incident_id, percent=100))
    page = ben.get(path(incident_id, 7)).content.decode()
    markdown = ben.get(f"/incidents/{incident_id}/report.md").content.decode()
    told = orjson.loads(ben.get(f"/incidents/{incident_id}/report.json").content)
    steps = list(IncidentStep.objects.order_by("id"))
    assert [step.step for step in steps] == [each["step"] for each in told["incident"]["steps"]]
    for step, each in zip(steps, told["incident"]["steps"], strict=True):
        assert each["by"] == step.actor
        assert each["at"].startswith(f"{step.at:%Y-%m-%dT%H:%M:%S}")
        assert step.actor in page
        row = f"| {step.step} | {step.at:%Y-%m-%dT%H:%M:%S.%f}Z | {step.actor} |"
        assert row in markdown, row
    for name in ("stopped", "draining", "switched", "total"):
        assert told["durations"][name] is not None
    (canary,) = told["incident"]["canaries"]
    assert (canary["share"], canary["by"]) == (10, "operator:ben")
    assert rollback.record(incident_id).ended_at is not None
