"""What each page shows for a terminal really is a command, and a call of the API (console design, 3.11)."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from django.core.management import get_commands, load_command_class
from django.test import Client
from django.urls.converters import IntConverter, UUIDConverter

from console.commands import Shown, tenure
from console.incident_commands import incident_step
from console.page_commands import PAGES, WITHOUT
from console.urls import urlpatterns
from coordinator.api.schema import schema_bytes
from tenure.cli import parser
from tests.console import siege as sieges
from tests.console.scene import Scene
from tests.console.test_approvals import client_of

#: Names that a shell, a parser and an address would each trip over in their own way.
ODD = 'it\'s $(rm) `x` "q" a/b ?c=1 -x'
AN_ID = UUID(int=7)


def routes() -> dict[str, dict[str, Any]]:
    """Each route of the console with arguments as odd as its converters allow."""
    found: dict[str, dict[str, Any]] = {}
    for route in urlpatterns:
        values: dict[str, Any] = {}
        for name, converter in route.pattern.converters.items():
            match converter:
                case UUIDConverter():
                    values[name] = AN_ID
                case IntConverter():
                    values[name] = 6
                case _:
                    values[name] = "a" * 64 if name == "effect_id" else ODD
        assert route.name, route
        found[route.name] = values
    return found


def shown() -> Iterator[tuple[str, Shown]]:
    for name, values in routes().items():
        if name in PAGES:
            yield from ((name, each) for each in PAGES[name](values))
    for number in range(1, 8):
        told = incident_step(AN_ID, number, version=3, epochs={ODD: 7, "b": 1}, confirm=ODD)
        yield from ((f"step {number}", each) for each in told)


def test_every_page_has_its_commands_or_is_known_to_have_none() -> None:
    names = set(routes())
    assert names - set(PAGES) - WITHOUT == set()
    assert set(PAGES) - names == set()
    assert set(PAGES) & WITHOUT == set()


def test_each_command_is_one_that_the_command_line_takes(subtests: pytest.Subtests) -> None:
    told = list(shown())
    assert len(told) > 60
    for page, each in told:
        with subtests.test(page, cli=each.cli):
            program, *words = shlex.split(each.cli)
            if program == "manage.py":
                command = load_command_class(get_commands()[words[0]], words[0])
                command.create_parser("manage.py", words[0]).parse_args(words[1:])
            else:
                assert program == "tenure"
                args = parser().parse_args(words)
                assert args.command.run


def test_the_examples_of_the_command_line_are_commands_of_it() -> None:
    """So that the test above would notice one that isn't."""
    with pytest.raises(SystemExit):
        parser().parse_args(["read"])
    with pytest.raises(SystemExit):
        parser().parse_args(["incident", "resume", "x", "--percent", "1000"])


def operations() -> list[tuple[str, "re.Pattern[str]", dict[str, Any]]]:
    paths = json.loads(schema_bytes())["paths"]
    return [
        (method.upper(), re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + r"\Z"), spec)
        for path, methods in paths.items()
        for method, spec in methods.items()
    ]


def test_each_call_names_an_operation_with_its_fields(subtests: pytest.Subtests) -> None:
    known = operations()
    schema = json.loads(schema_bytes())["components"]["schemas"]
    for page, each in shown():
        if not each.path:
            continue
        with subtests.test(page, method=each.method, path=each.path):
            asked = urlsplit(each.path)
            fitting = [
                spec
                for method, path, spec in known
                if method == each.method and path.match(asked.path)
            ]
            assert fitting, "no such operation"
            names = {p["name"] for p in fitting[0].get("parameters", []) if p["in"] == "query"}
            assert set(parse_qs(asked.query)) <= names
            if each.body is not None:
                content = fitting[0]["requestBody"]["content"]["application/json"]["schema"]
                body = schema[content["$ref"].rpartition("/")[2]]
                assert set(each.body) <= set(body["properties"])
                assert set(body.get("required", [])) <= set(each.body)
            needs_key = any(
                p["name"] == "Idempotency-Key" and p.get("required")
                for p in fitting[0].get("parameters", [])
            )
            assert each.keyed == needs_key


def test_a_call_is_one_line_for_a_shell_and_holds_no_secret() -> None:
    for page, each in shown():
        line = each.curl("http://127.0.0.1:8000")
        if not line:
            continue
        words = shlex.split(line.replace("$TENURE_TOKEN", "T").replace("$(uuidgen)", "K"))
        assert words[0] == "curl", page
        assert "Authorization: Bearer T" in words, page
        assert [word for word in words if word.startswith("http")] == [
            f"http://127.0.0.1:8000{each.path}"
        ], page
        if each.body is not None:
            assert json.loads(words[words.index("--json") + 1]) == each.body, page


def test_names_are_quoted_for_the_shell() -> None:
    assert shlex.split(tenure("read", ODD)) == ["tenure", "read", ODD]


@pytest.mark.django_db(transaction=True)
def test_pages_show_both_at_their_end(signed_in: Client, scene: Scene) -> None:
    for address, cli, path in (
        ("/queues", "tenure list queues", "/api/v1/queues"),
        ("/queues/review", "tenure read queues/review", "/api/v1/queues/review"),
        (f"/tasks/{scene.held}", f"tenure explain {scene.held}", f"/tasks/{scene.held}/explain"),
        (f"/tasks/{scene.held}/cancel", f"tenure cancel {scene.held}", "-X POST"),
        ("/approvals", "tenure approvals", "/api/v1/approvals?state=PENDING"),
        ("/", "tenure list queues", "/api/v1/queues"),
        ("/audit", "tenure audit export", "/api/v1/audit/lines"),
    ):
        page = signed_in.get(address).content.decode()
        assert page.count('<details class="commands"') == 1, address
        assert cli in page, address
        assert path in page, address
        assert "$TENURE_TOKEN" in page, address
    poll = signed_in.get("/queues", headers={"HX-Request": "true"}).content.decode()
    assert "TENURE_TOKEN" not in poll


@pytest.mark.django_db(transaction=True)
def test_the_wizard_shows_the_command_of_the_step_as_it_stands(transactional_db: None) -> None:
    sieges.compose_siege()
    incident_id = sieges.declare()
    page = client_of("ben", "operator").get(f"/incidents/{incident_id}/step/3").content.decode()
    bump = f"tenure incident bump {incident_id} --expected-epoch orders=1 --confirm orders"
    assert f"{bump} --expected-version 1" in page
    assert '<details class="commands" open>' in page
    assert f"/api/v1/incidents/{incident_id}/bump" in page
