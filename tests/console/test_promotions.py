"""A promotion in the console: one person asks, another confirms what the gate said, or nothing moves."""

from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.test import Client

from coordinator.models import Event, PromotionRequest, Queue
from coordinator.selectors import promotion
from tests import world
from tests.console import rollout
from tests.console.scene import person
from tests.shadow.feeds import feeder, settle, tell

pytestmark = pytest.mark.django_db(transaction=True)
QUEUE = rollout.QUEUE
WHY = "A month of agreement, and the drill has passed."
PHRASE = f"{QUEUE} IDEMPOTENT_READS"


@pytest.fixture(autouse=True)
def green(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> None:
    """A queue whose gate is open."""
    monkeypatch.setattr(promotion, "MEASURED_ELSEWHERE", ())
    world.queue(name=QUEUE, rollout_stage="SHADOW", promotion_rounds=1)
    tell("A claims 0", "A commits 9 r", by=feeder(QUEUE), key="letter", queue=QUEUE)
    settle()


def client_of(name: str, role: str = "operator") -> Client:
    client = Client()
    user = User.objects.filter(username=name).first() or person(name, role)
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def stage() -> str:
    return Queue.objects.get(name=QUEUE).rollout_stage


def ask(client: Client, **changes: str) -> Any:
    form = {"shown_stage": "SHADOW", "confirm": PHRASE, "reason": WHY} | changes
    return client.post(f"/shadow/{QUEUE}/promote", form, follow=True)


def standing() -> PromotionRequest:
    return PromotionRequest.objects.latest("request_id")


def word(**changes: str) -> dict[str, str]:
    return {
        "action_key": str(uuid4()),
        "evidence_digest": standing().evidence_digest,
        "confirm": PHRASE,
        "reason": "Read the figures; they are as they were.",
    } | changes


def here() -> str:
    return f"/shadow/promotions/{standing().request_id}"


def test_asking_leads_to_the_request_and_moves_nothing() -> None:
    olga = client_of("olga")
    page = ask(olga)
    text = page.content.decode()
    assert page.redirect_chain[-1][0] == here()
    assert "Asked. Nothing moves until another person has confirmed it." in text
    assert standing().evidence_digest in text
    assert stage() == "SHADOW"
    shown = olga.get(f"/shadow/{QUEUE}").content.decode()
    assert f'href="{here()}"' in shown
    assert olga.get(f"/shadow/{QUEUE}/promote").headers["Location"] == here()
    overview = client_of("otto").get("/").content.decode()
    assert f"A promotion of {QUEUE} waits for a second person" in overview


def test_two_people_promote_and_a_double_submit_has_the_same_receipt() -> None:
    ask(client_of("olga"))
    otto, form = client_of("otto"), word()
    pages = [otto.post(here(), form, follow=True) for _ in range(2)]
    receipts = [str(next(iter(page.context["messages"]))) for page in pages]
    assert receipts[0] == receipts[1] == "Promoted: the stage is IDEMPOTENT_READS."
    assert stage() == "IDEMPOTENT_READS"
    event = Event.objects.get(kind="STAGE_PROMOTED")
    assert (event.actor, event.data["requested_by"], event.data["address"]) == (
        "operator:otto",
        "operator:olga",
        "127.0.0.1",
    )
    page = otto.get(here()).content.decode()
    assert "operator:otto confirmed it." in page
    assert 'id="decision"' not in page


def test_who_asked_does_not_confirm_in_any_session() -> None:
    ask(client_of("olga"))
    before = world.fingerprint()
    for session in (client_of("olga"), client_of("olga")):
        assert "somebody else must confirm it" in session.get(here()).content.decode()
        answer = session.post(here(), word())
        assert answer.status_code == 403
        assert "somebody else must confirm it" in answer.content.decode()
    assert world.fingerprint() == before
    assert Event.objects.get(kind="REFUSED").data["outcome"] == "FORBIDDEN"


def test_a_lone_person_ticks_that_they_are_and_an_alarm_is_raised() -> None:
    olga = client_of("olga")
    ask(olga)
    olga.post(here(), word(alone="on", reason="Nobody else is awake tonight."))
    assert stage() == "IDEMPOTENT_READS"
    assert Event.objects.get(kind="ALARM").data["alarm"] == "LONE_PROMOTION"
    assert "an alarm was raised" in olga.get(here()).content.decode()


def test_a_gate_that_has_closed_is_told_with_what_changed() -> None:
    ask(client_of("olga"))
    form = word()
    told = ("A claims 0", "B claims 9", "A commits 12 r")
    tell(*told, by=feeder(QUEUE), key="twice", queue=QUEUE, source="other")
    settle()
    otto = client_of("otto")
    assert "not met" in otto.get(here()).content.decode()
    answer = otto.post(here(), form)
    page = answer.content.decode()
    assert answer.status_code == 409
    assert "GATE_CLOSED" in page
    assert "VOID" in page
    assert stage() == "SHADOW"
    assert "It is void" in otto.get(here()).content.decode()


@pytest.mark.parametrize(
    ("changes", "status", "told"),
    [
        ({"confirm": QUEUE}, 422, "Type it exactly"),
        ({"reason": "short"}, 422, "Say why in 10 characters or more."),
        ({"evidence_digest": "sha256:" + "0" * 64}, 409, "PAYLOAD_CONFLICT"),
        ({"evidence_digest": "x"}, 422, "Enter a valid value."),
    ],
)
def test_a_confirmation_that_is_not_what_was_seen_moves_nothing(
    changes: dict[str, str], status: int, told: str
) -> None:
    ask(client_of("olga"))
    before = world.fingerprint()
    answer = client_of("otto").post(here(), word(**changes))
    assert (answer.status_code, told in answer.content.decode()) == (status, True)
    assert world.fingerprint() == before


def test_it_is_withdrawn_with_a_reason() -> None:
    ask(client_of("olga"))
    otto = client_of("otto")
    faulty = otto.post(f"{here()}/withdraw", {"action_key": str(uuid4()), "reason": "no"})
    assert faulty.status_code == 422
    form = {"action_key": str(uuid4()), "reason": "The mail team is on holiday."}
    page = otto.post(f"{here()}/withdraw", form, follow=True).content.decode()
    assert "Withdrawn. The stage stays as it is." in page
    assert standing().state == "WITHDRAWN"
    assert otto.post(here(), word()).status_code == 409
    assert stage() == "SHADOW"


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_who_may_not_promote_sees_why_and_is_refused(role: str) -> None:
    ask(client_of("olga"))
    client = client_of(role, role)
    assert "Roles that may: operators and admins." in client.get(here()).content.decode()
    before = world.fingerprint()
    for address in (here(), f"{here()}/withdraw", f"/shadow/{QUEUE}/promote"):
        assert client.post(address, word()).status_code == 403
    assert world.fingerprint() == before


def test_an_unknown_request_is_not_there() -> None:
    olga = client_of("olga")
    for address in (f"/shadow/promotions/{uuid4()}", f"/shadow/promotions/{uuid4()}/withdraw"):
        assert olga.post(address, {"reason": WHY}).status_code == 404
