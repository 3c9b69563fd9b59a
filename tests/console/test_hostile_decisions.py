"""C18 for what people decide on: payloads, receipts, look-ups and reasons of others are text, and nothing hides."""

import re
from typing import Any

import pytest
from django.test import Client

from coordinator.actors import Worker
from coordinator.models import EffectSlot
from coordinator.services.approvals import reject
from coordinator.services.asking import note_unknown
from coordinator.services.incident_hearings import StepTaken
from coordinator.services.incidents import open_incident
from coordinator.states import Guarantee
from tests import world
from tests.console import desk as desks
from tests.console.conftest import Open
from tests.console.looking import too_wide
from tests.console.scene import person
from tests.console.test_hostile_text import ALL, HIDDEN, IMAGE
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)

SLOT = f"s {ALL[:150]}"
PAYLOAD = {
    "amount": "1e3",
    "currency": IMAGE,
    "summary": ALL,
    "to": [ALL, HIDDEN],
    ALL: {HIDDEN: [ALL]},
}


@pytest.fixture
def addresses(transactional_db: None) -> dict[str, str]:
    desks.furnish()
    fleet = world.worker(name=ALL, queues=(desks.QUEUE,))
    pending = desks.parked(ALL[:180], PAYLOAD, by=fleet, slot=SLOT)
    first = desks.parked("again", {**PAYLOAD, "amount": 1}, by=fleet, slot=SLOT)
    second = desks.ask(desks.revise(first.effect.task_id), PAYLOAD, by=fleet, slot=SLOT)
    rejected = desks.parked(f"c {HIDDEN}", {"to": ALL}, by=fleet, slot=SLOT)
    reject(
        approval_id=rejected.approval_id,
        payload_digest=rejected.payload_digest,
        reason=ALL,
        actor=ledger.person(IMAGE[:150]),
    )
    effect_id = desks.unknown(Guarantee.IDEMPOTENT_KEY, "mailer", by=fleet, seconds=400)
    note_unknown(
        effect_id=effect_id,
        dispatches=1,
        note=f"{ALL} {HIDDEN}",
        check_in_minutes=5,
        actor=ledger.person(IMAGE[:150]),
    )
    task = EffectSlot.objects.get(effect_id=pending.effect_id).task_id
    hostile_claim(fleet)
    incident = open_incident(
        queues=[desks.QUEUE], reason=f"{ALL} {HIDDEN}", actor=ledger.person(IMAGE[:150])
    )
    assert isinstance(incident, StepTaken)
    return {
        "inbox": "/approvals",
        "others": "/approvals?turn=others",
        "decided": "/approvals?turn=decided",
        **{
            f"request {number} {way}": f"/approvals/{each.approval_id}?way={way}"
            for number, each in enumerate((pending, first, second, rejected))
            for way in ("rendered", "json", "raw")
        },
        "unknown": "/effects/unknown",
        "echo": f"/effects/unknown?downstream={IMAGE}&queue={IMAGE}&state={IMAGE}",
        "effect": f"/effects/{effect_id}",
        "bound": f"/effects/{pending.effect_id}",
        "ledger": f"/tasks/{task}/effects",
        "graph": f"/tasks/{task}/graph",
        "incidents": "/incidents",
        **{
            f"step {number}": f"/incidents/{incident.incident_id}/step/{number}"
            for number in (1, 2, 3)
        },
    }


def hostile_claim(fleet: Worker) -> None:
    """What the preview of a bump names."""
    run = world.submit(world.node(f"h {ALL[:150]}", kind="held"), queue_name=desks.QUEUE)
    world.claim_one(
        by=fleet, of=run.tasks[0].task_id, queue_name=desks.QUEUE, owner=f"{ALL[:150]}{HIDDEN}"
    )


def test_hostile_text_stands_literally_where_people_decide(
    client: Client, addresses: dict[str, str]
) -> None:
    client.force_login(
        person("mallory", "admin"), backend="django.contrib.auth.backends.ModelBackend"
    )
    for name, address in addresses.items():
        answer = client.get(address)
        page = answer.content.decode()
        assert answer.status_code == 200, (name, answer.status_code)
        assert "<img" not in page, name
        assert "<b>bold" not in page, name
        assert not re.search(r"<script>|<script [^>]*>[^<]", page), name
        assert not re.search(r"<[^>]* onmouseover=", re.sub(r'"[^"]*"', '""', page)), name
        assert 'href="javascript' not in page.lower(), name
        assert not {"\u202e", "\u200b", "\u0007"} & set(page), name
        assert "development-only" not in page, name


@pytest.mark.browser
def test_nothing_of_it_runs_where_people_decide(
    opened: Open, addresses: dict[str, str], transactional_db: Any
) -> None:
    window = opened(user=person("mallory", "admin"))
    page = window.page
    page.on("dialog", lambda dialog: window.faults.append(f"dialog: {dialog.message}"))
    for name, address in addresses.items():
        page.goto(address)
        assert page.evaluate("window.pwned") is None, name
        assert page.locator("img, main script, [onmouseover]").count() == 0, name
        assert not [*window.violations(), *window.faults], (name, window.faults)
        page.set_viewport_size({"width": 320, "height": 640})
        assert not too_wide(page), name
        page.set_viewport_size({"width": 1440, "height": 900})
