"""Downstreams in the console: promises in plain words, changes bound to what was seen, look-ups tried."""

from typing import Any

import pytest
from django.test import Client

from console.views import downstreams as views
from coordinator.models import Downstream, EffectSlot, Event
from coordinator.states import Guarantee
from tenure.downstreams.base import Absent, Adapter, Bound, Call, DontKnow, Found, Happened, Sent
from tests import world
from tests.console.scene import Scene
from tests.effects import ledger

pytestmark = pytest.mark.django_db(transaction=True)
WHY = "The vendor has confirmed it in writing."


class Answers(Adapter):
    """An adapter of an operator that gives a fixed answer, and remembers what it was asked."""

    kind = "http"
    limits = ""

    def __init__(self, answer: Found | Exception) -> None:
        super().__init__(Guarantee.IDEMPOTENT_KEY)  # type: ignore[arg-type]
        self.answer = answer
        self.asked: list[Bound] = []

    def send(self, call: Call) -> Sent:
        raise AssertionError("nothing is sent")

    def look_up(self, bound: Bound, *, deadline: float) -> Found:
        assert deadline > 0
        self.asked.append(bound)
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def as_admin(client: Client, admin: Any) -> Client:
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    return client


def described(**more: Any) -> dict[str, Any]:
    return {
        "name": "billing",
        "kind": "http",
        "guarantee": "IDEMPOTENT_KEY",
        "key_valid_seconds": "3600",
        "call_timeout_seconds": "30",
        "settle_seconds": "60",
        "serial_scope": "",
        "required_approvers": "1",
        "probe": "",
        "reason": WHY,
    } | more


def test_a_downstream_is_registered_with_who_and_why(as_admin: Client) -> None:
    assert as_admin.post("/downstreams/new", described()).status_code == 302
    told = Event.objects.get(kind="DOWNSTREAM_REGISTERED")
    assert (told.actor, told.data["reason"]) == ("operator:ada", WHY)
    page = as_admin.get("/downstreams/billing").content.decode()
    assert "returns the first result, while the key is remembered" in page
    assert "no person has to approve them" in page


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, "Give it the name that slots will use."),
        ({"key_valid_seconds": ""}, "for how long does it dedupe on a key?"),
        ({"call_timeout_seconds": "0"}, "greater than or equal to 1"),
        ({"guarantee": "PERFECT"}, "Select a valid choice"),
        ({"reason": "short"}, "Say why in 10 characters or more."),
    ],
)
def test_a_faulty_promise_is_told_by_its_field(
    as_admin: Client, change: dict[str, str], told: str
) -> None:
    answer = as_admin.post("/downstreams/new", described(**change))
    assert answer.status_code == 422
    assert told in answer.content.decode()
    assert not Downstream.objects.exists()


def shown(client: Client, name: str) -> str:
    page = client.get(f"/downstreams/{name}/change").content.decode()
    return page.split('name="shown" value="')[1].split('"')[0]


def test_a_change_is_bound_to_what_was_seen(as_admin: Client) -> None:
    world.downstream(name="billing", guarantee="NONE")
    seen = shown(as_admin, "billing")
    first = as_admin.post("/downstreams/billing/change", described(shown=seen))
    assert first.status_code == 302
    told = Event.objects.get(kind="DOWNSTREAM_CHANGED").data
    assert told["before"]["guarantee"] == "NONE"
    assert told["after"]["guarantee"] == "IDEMPOTENT_KEY"
    assert told["reason"] == WHY
    stale = as_admin.post("/downstreams/billing/change", described(shown=seen, settle_seconds="9"))
    assert stale.status_code == 409
    page = stale.content.decode()
    assert "It changed while you were looking" in page
    assert "<td>NONE</td><td><strong>IDEMPOTENT_KEY</strong></td>" in page
    forged = as_admin.post("/downstreams/billing/change", described(shown="forged"))
    assert forged.status_code == 409
    assert Downstream.objects.get().settle_seconds == 60


def test_a_viewer_reads_and_changes_nothing(client: Client, viewer: Any, scene: Scene) -> None:
    client.force_login(viewer, backend="django.contrib.auth.backends.ModelBackend")
    before = world.fingerprint("downstream")
    page = client.get("/downstreams/letters").content.decode()
    assert "You may not manage queues" in page
    for path in ("new", "letters/change", "letters/ask"):
        assert client.post(f"/downstreams/{path}", described()).status_code == 403
    assert world.fingerprint("downstream") == before


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Happened(receipt={"id": "r-1"}), "Look-ups work."),
        (Absent(detail="404"), "look-ups do not work as they should"),
        (DontKnow(detail="timeout"), "It could not say."),
        (OSError("no route"), "the look-up failed: OSError"),
    ],
)
def test_a_look_up_is_tried_and_settles_nothing(
    as_admin: Client, monkeypatch: pytest.MonkeyPatch, answer: Any, told: str
) -> None:
    world.queue()
    fleet = world.worker()
    _, effect, _ = ledger.sent(by=fleet, guarantee=Guarantee.IDEMPOTENT_KEY)
    with world.guarded("report"):
        EffectSlot.objects.update(
            state="COMMITTED", receipt='{"id":"r-1"}', settled_at="2026-01-01T00:00:00Z"
        )
    adapter = Answers(answer)
    monkeypatch.setattr(views, "registered_adapters", lambda: {"there": adapter})
    before = world.fingerprint()
    page = as_admin.post("/downstreams/there/ask")
    assert page.status_code == 200
    assert told in page.content.decode()
    assert [bound.effect_id for bound in adapter.asked] == [effect.effect_id]
    assert world.fingerprint() == before
    assert Event.objects.get(kind="DOWNSTREAM_ASKED").actor == "operator:ada"


def test_what_can_not_be_asked_says_so(
    as_admin: Client, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert as_admin.post("/downstreams/letters/ask").status_code == 409
    monkeypatch.setattr(
        views, "registered_adapters", lambda: {"letters": Answers(Absent(detail=""))}
    )
    answer = as_admin.post("/downstreams/letters/ask")
    assert answer.status_code == 409
    assert "there is nothing to ask about" in answer.content.decode()
