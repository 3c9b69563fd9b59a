"""The console under attack: each of its routes, taken from the table of routes itself."""

from typing import Any, Final
from urllib.parse import quote

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.test import Client

from coordinator.models import Event
from tests.console.scene import person
from tests.world import fingerprint

from .ground import DOORS, Ground, enter

pytestmark = pytest.mark.django_db(transaction=True)

#: Written by whoever is refused, and by looking itself.
MAY_MOVE: Final = frozenset({"event", "refusedwrites", "installation"})
#: All else that a page could change.
TABLES: Final = tuple(
    sorted(
        model._meta.db_table.removeprefix("coordinator_")
        for model in apps.get_app_config("coordinator").get_models()
        if model._meta.managed and model._meta.model_name not in MAY_MOVE
    )
)
#: What a form of ours may be asked for, so that a refusal is for who asks and not for what is missing.
FORM: Final = {
    "reason": "Because an attacker wants it so.",
    "role": "admin",
    "shown_roles": "approver",
    "action_key": "0" * 32,
    "name": "mine",
    "lifetime": "30",
    "theme": "dark",
    "next": "/",
}
NONSENSE: Final = (
    "\x00", "'\\\U0010ffff", "-1", "9" * 400, "1e999", "a" * 3000, "2026-13-45",
)  # fmt: skip
QUERY: Final = (
    "q", "state", "queue", "kind", "owner", "run", "node", "before", "after", "page", "since", "until", "object",
    "actor", "refused", "hours", "unfold", "way", "turn", "downstream", "attempt", "digest", "pool", "revoked",
    "seen", "rows", "verdict", "class", "cursor", "next", "theme", "tab", "step", "from", "to", "at", "verb", "task",
)  # fmt: skip

ELSEWHERE: Final = (
    "https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example", "\\\\evil.example",
    "@evil.example", "javascript:alert(1)", "https:evil.example", "///evil.example", "/\n/evil.example",
)  # fmt: skip


def test_no_form_of_any_page_is_taken_without_its_token(ground: Ground, admin: Any) -> None:
    client = enter(Client(enforce_csrf_checks=True), admin)
    before = fingerprint(*TABLES)
    for name, address in ground.addresses():
        answer = client.post(address, FORM)
        assert answer.status_code in (403, 405), (name, answer.status_code)
    assert fingerprint(*TABLES) == before


def test_without_signing_in_no_page_shows_or_does_anything(ground: Ground) -> None:
    client, before = Client(), fingerprint(*TABLES)
    for name, address in ground.addresses():
        if name in DOORS:
            continue
        for answer in (client.get(address), client.post(address, FORM)):
            assert answer.status_code in (302, 405), (name, answer.status_code)
            if answer.status_code == 302:
                assert answer["Location"].startswith("/sign-in?next="), name
            assert len(answer.content) < 100, name
    assert fingerprint(*TABLES) == before


@pytest.mark.parametrize("role", ["viewer", "approver"])
def test_whoever_only_looks_changes_nothing_by_any_page(ground: Ground, role: str) -> None:
    client = enter(Client(), person("mallory", role))
    settle = {"effect", "effect-ask", "effect-settle", "effects-unknown", "approval"}
    before, roles = fingerprint(*TABLES), _roles()
    for name, address in ground.addresses():
        if name in DOORS or (role == "approver" and name in settle):
            continue
        answer = client.post(address, FORM)
        assert answer.status_code in (200, 302, 403, 405, 409, 422), (name, answer.status_code)
        assert fingerprint(*TABLES) == before, name
        assert _roles() == roles, name


def test_nonsense_in_an_address_is_no_fault_of_the_server(ground: Ground, admin: Any) -> None:
    client = enter(Client(raise_request_exception=False), admin)
    faults = []
    for name, address in ground.addresses():
        if name in DOORS:
            continue
        for number, text in enumerate(NONSENSE):
            query = "&".join(f"{field}={quote(text)}" for field in QUERY)
            answer = client.get(f"{address}?{query}")
            b"".join(answer) if answer.streaming else answer.content
            if answer.status_code >= 500:
                faults.append((name, number, answer.status_code))
    assert not faults


def test_nonsense_in_a_form_is_no_fault_of_the_server(ground: Ground, admin: Any) -> None:
    client = enter(Client(raise_request_exception=False), admin)
    faults = []
    fields = (*QUERY, *FORM, "shown", "version", "expected", "payload_digest", "effects", "tasks", "receipt",
              "note", "minutes", "probe", "guarantee", "queues", "scopes", "overlap_hours", "confirm", "input",
              "zone", "language", "shortcuts", "intake", "username", "password", "lookup_id", "dispatches",
              "call_timeout_seconds", "settle_seconds", "required_approvers", "key_valid_seconds")  # fmt: skip
    for name, address in ground.addresses():
        for number, text in enumerate(NONSENSE):
            if name == "sign-out":
                continue
            answer = client.post(address, dict.fromkeys(fields, text))
            if answer.status_code >= 500:
                faults.append((name, number, answer.status_code))
    assert not faults


@pytest.mark.parametrize(
    "text", ["%00", "..%2f..%2fetc%2fpasswd", "%ff%fe", "%E2%80%AE", "a" * 3000]
)
def test_an_address_of_nonsense_names_nothing(ground: Ground, admin: Any, text: str) -> None:
    client = enter(Client(raise_request_exception=False), admin)
    for start in (
        "queues",
        "queues/x",
        "shadow",
        "downstreams",
        "numbers",
        "effects",
        "approvals",
        "tasks",
        "people",
    ):
        for end in ("", "/intake", "/rounds", "/promote", "/change", "/settle/happened"):
            answer = client.get(f"/{start}/{text}{end}")
            assert answer.status_code in (302, 404), (start, text, end, answer.status_code)


def test_the_next_page_after_a_theme_is_one_of_ours(admin: Any) -> None:
    client = enter(Client(), admin)
    for target in ELSEWHERE:
        answer = client.post("/profile/theme", {"theme": "dark", "next": target})
        assert answer["Location"] == "/", target
        answer = client.get("/sign-in", {"next": target})
        assert answer["Location"] == "/", target


def _roles() -> list[tuple[str, str]]:
    return sorted(User.objects.values_list("username", "groups__name"), key=str)


def test_who_tried_is_on_record(ground: Ground) -> None:
    client = enter(Client(), person("mallory", "viewer"))
    client.post(f"/people/{ground.parts['user_id']}/role", FORM)
    told = Event.objects.filter(kind="REFUSED", actor__contains="mallory")
    assert told.exists()
