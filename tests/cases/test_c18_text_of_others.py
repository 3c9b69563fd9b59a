"""C18 — task arguments that run in the operator's browser.

Every text that a worker, a legacy feed or a person may write, in every view that shows it. The worlds of the
console's own tests are taken together here with the pages of set-up, audit, bulk, rollout and numbers.
"""

import csv
import html
import io
import re
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import timezone

from coordinator.actors import Actor, ActorKind
from coordinator.models import Credential, Downstream, Queue, ShadowRound, Task
from coordinator.services.audits import start_audit
from coordinator.services.bulk_steps import run_bulk_step
from coordinator.services.bulks import Reviewed, Verb, review_bulk, start_bulk
from coordinator.services.credentials import create_operator_token, revoke_credential
from coordinator.services.roles import ensure_roles
from coordinator.services.roll_ups import roll_up
from coordinator.services.shadow_events import Told
from coordinator.services.shadow_explanations import explain_round
from coordinator.shadow.words import LegacyEvent, Triage
from tests import world
from tests.console.conftest import PATIENCE_MS, Open, opened  # noqa: F401 (a fixture)
from tests.console.filling import filled
from tests.console.test_hostile_decisions import addresses  # noqa: F401 (a fixture)
from tests.console.test_hostile_text import ALL, HIDDEN, IMAGE, hostile  # noqa: F401 (a fixture)
from tests.shadow.feeds import feeder, send, settle

pytestmark = pytest.mark.django_db(transaction=True)

FORMULA = "=cmd|' /C calc'!A0"
NAME = ALL[:150]
#: A form gives back what it was given, to the letter; what is shown beside it is drawn.
EDITED = frozenset({"change downstream"})


def mallory() -> User:
    """An administrator whose very name is hostile."""
    ensure_roles()
    user, _ = User.objects.get_or_create(username=IMAGE[:150])
    user.groups.add(Group.objects.get(name="admin"))
    return user


@pytest.fixture
def pages(request: pytest.FixtureRequest) -> dict[str, str]:
    """Every view, with the hostile worlds in it; each by the name that a failure is told by."""
    found = {f"work: {name}": url for name, url in request.getfixturevalue("hostile").items()}
    found |= {f"desk: {name}": url for name, url in request.getfixturevalue("addresses").items()}
    user = mallory()
    actor = Actor(ActorKind.OPERATOR, user.username, user.pk, address="203.0.113.9")
    return found | _set_up(user) | _bulk(actor) | _rollout(actor) | _history(actor)


def _set_up(user: User) -> dict[str, str]:
    create_operator_token(user=user, name=ALL)
    world.downstream(name=NAME, guarantee="NONE", probe=f"{ALL} {HIDDEN}", serial_scope=ALL[:150])
    Downstream.objects.filter(name=NAME).update(kind=ALL[:150])
    world.pool(name=NAME)
    row = Credential.objects.filter(name=ALL).order_by("id").first()
    assert row is not None
    Credential.objects.filter(pk=row.pk).update(
        last_used_route=ALL[:190], last_contract=IMAGE, last_used_from=IMAGE
    )
    credential, there = f"/credentials/{row.credential_id}", f"/downstreams/{quote(NAME, safe='')}"
    return {
        "credentials": "/credentials",
        "credential": credential,
        "revoke": f"{credential}/revoke",
        "rotate": f"{credential}/rotate",
        "new credential": "/credentials/new",
        "people": "/people",
        "person": f"/people/{user.pk}",
        "downstreams": "/downstreams",
        "downstream": there,
        "change downstream": f"{there}/change",
        "workers": f"/workers?pool={quote(NAME)}&queue={quote(NAME)}",
        "all workers": "/workers",
        "pools": "/pools",
    }


def _bulk(actor: Actor) -> dict[str, str]:
    fresh = world.submit(world.node(f"bulk {ALL[:150]}"), queue_name=NAME, actor=actor)
    ids = [task.task_id for task in fresh.tasks]
    reviewed = review_bulk(verb=Verb.CANCEL, wanted=None, task_ids=ids, asked=ALL, actor=actor)
    assert isinstance(reviewed, Reviewed), reviewed
    start_bulk(bulk_id=reviewed.bulk_id, reason=f"{ALL} {HIDDEN}", actor=actor)
    run_bulk_step()
    return {"bulks": "/tasks/bulk", "bulk": f"/tasks/bulk/{reviewed.bulk_id}"}


def _rollout(actor: Actor) -> dict[str, str]:
    """A legacy feed with hostile owners, keys and ids, and a person's hostile word on it."""
    begun = timezone.now() - timedelta(days=30)
    owners = ((0, "CLAIMED", ALL[:190]), (9, "CLAIMED", HIDDEN), (12, "COMMITTED", ALL[:190]))
    send(
        [
            Told(
                NAME[:100],
                ALL[:190],
                LegacyEvent(f"{number} {ALL[:150]}", kind, owner, begun + timedelta(seconds=at)),
            )
            for number, (at, kind, owner) in enumerate(owners)
        ],
        by=feeder(NAME),
        queue=NAME,
    )
    settle()
    found = ShadowRound.objects.exclude(verdict="AGREE").get()
    explain_round(
        round_id=found.round_id,
        reason=f"{ALL} {HIDDEN}",
        triage=Triage.NOISE,
        owner=ALL[:190],
        link=f"https://example.org/{IMAGE}",
        actor=actor,
    )
    here = f"/shadow/{quote(NAME, safe='')}"
    return {
        "shadows": "/shadow",
        "shadow": here,
        "rounds": f"{here}/rounds?verdict={IMAGE}",
        "round": f"/shadow/rounds/{found.round_id}",
        "promote": f"{here}/promote",
        "demote": f"{here}/demote",
    }


def _history(actor: Actor) -> dict[str, str]:
    start_audit(reason=f"{ALL} {HIDDEN}", actor=actor)
    world.submit(world.node(FORMULA), queue_name=NAME, name=FORMULA, actor=actor)
    roll_up()
    echo = quote(ALL)
    return {
        "audit": "/audit",
        "audit echo": f"/audit?actor={echo}&object={echo}&since={echo}&queue={echo}&kind={echo}",
        "integrity": "/audit/integrity",
        "numbers": f"/numbers?queue={quote(NAME)}&hours={echo}",
        "figure": f"/numbers/fenced_commits?queue={quote(NAME)}",
        "no figure": f"/numbers/{quote(IMAGE, safe='')}",
        "search echo": f"/find?q={echo}",
        "no page": f"/{quote(IMAGE)}",
    }


@pytest.fixture
def client_of_mallory(pages: dict[str, str], client: Client) -> Client:
    user = User.objects.get(username=IMAGE[:150])
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def test_c18_2_the_text_stands_literally_in_every_view(
    client_of_mallory: Client, pages: dict[str, str]
) -> None:
    for name, address in pages.items():
        answer = client_of_mallory.get(address, follow=True)
        page = answer.content.decode()
        assert answer.status_code in (200, 404), (name, answer.status_code)
        assert "<img" not in page, name
        assert "<b>bold" not in page, name
        assert not re.search(r"<script>|<script [^>]*>[^<]", page), name
        assert not re.search(r"<[^>]* onmouseover=", re.sub(r'"[^"]*"', '""', page)), name
        assert 'href="javascript' not in page.lower(), name
        if name not in EDITED:
            assert not {"\u202e", "\u200b", "\u0007"} & set(page), name
        assert "development-only" not in page, name


@pytest.mark.browser
@pytest.mark.slow
def test_c18_2_nothing_of_it_runs_in_any_view(
    request: pytest.FixtureRequest, pages: dict[str, str]
) -> None:
    open_window: Open = request.getfixturevalue("opened")
    window = open_window(user=User.objects.get(username=IMAGE[:150]))
    page = window.page
    assert PATIENCE_MS
    page.on("dialog", lambda dialog: window.faults.append(f"dialog: {dialog.message}"))
    for name, address in pages.items():
        page.goto(address)
        assert page.evaluate("window.pwned") is None, name
        assert page.locator("img, main script, [onmouseover]").count() == 0, name
        assert not [*window.violations(), *window.faults], (name, window.faults)


def test_c18_2_a_refusal_and_a_receipt_tell_it_literally(
    client_of_mallory: Client, pages: dict[str, str]
) -> None:
    """The pages that say no, and the line that says it is done."""
    row = Credential.objects.filter(name=ALL).order_by("id").first()
    assert row is not None
    for address, form in (
        (pages["revoke"], filled(client_of_mallory, pages["revoke"], reason=ALL)),
        (pages["change downstream"], {"shown": ALL, "reason": ALL, "kind": ALL, "guarantee": ALL}),
        (pages["promote"], {"shown_stage": "SHADOW", "confirm": ALL, "reason": ALL}),
        ("/credentials/new", {"name": ALL, "pool": ALL, "queues": [ALL], "scopes": [ALL]}),
        ("/tasks/bulk/review", {"verb": "cancel", "f-state": ALL, "f-q": ALL}),
    ):
        page = client_of_mallory.post(address, form, follow=True).content.decode()
        assert "<img" not in page, address
        assert "<b>bold" not in page, address
    revoke_credential(credential_id=row.credential_id, actor=world.operator(), reason=ALL)
    assert "<img" not in client_of_mallory.get(pages["audit"]).content.decode()


def test_c18_3_answers_in_json_say_what_they_are(
    client_of_mallory: Client, pages: dict[str, str]
) -> None:
    task = Task.objects.filter(node_id__startswith="a ").first()
    assert task is not None
    for path in (
        f"/tasks/{task.task_id}",
        f"/tasks/{task.task_id}/candidates",
        f"/tasks/{task.task_id}/events",
        "/tasks",
        "/queues",
        "/credentials",
        "/downstreams",
    ):
        answer = client_of_mallory.get(f"/api/v1{path}")
        assert answer.status_code == 200, path
        assert answer["Content-Type"].startswith("application/json"), path
        assert answer["X-Content-Type-Options"] == "nosniff", path


def test_c18_3_no_cell_of_an_export_is_a_formula(
    client_of_mallory: Client, pages: dict[str, str]
) -> None:
    answer: Any = client_of_mallory.get("/audit/export.csv")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Content-Disposition"].startswith("attachment")
    text = b"".join(answer.streaming_content).decode()
    cells = [cell for row in csv.reader(io.StringIO(text)) for cell in row]
    assert f"'{FORMULA}" in cells
    assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\n"))]


def test_c18_4_a_value_reads_the_same_in_list_and_detail(
    client_of_mallory: Client, pages: dict[str, str]
) -> None:
    for shown, where in (
        (html.escape(f"a {ALL[:180]}"), ("work: tasks", "work: task 0 ", "work: run")),
        (html.escape(ALL), ("credentials", "credential")),
        (html.escape(NAME), ("downstreams", "downstream", "pools", "shadows", "shadow")),
        (html.escape(ALL[:190]), ("round", "shadow")),
    ):
        for name in where:
            if (name, shown) != ("shadow", html.escape(ALL[:190])):
                page = client_of_mallory.get(pages[name]).content.decode()
                assert shown in page.replace("<wbr>", ""), name  # where a line may break
    assert Queue.objects.filter(name=NAME).exists()
