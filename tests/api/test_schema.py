"""The schema is valid, complete, and what docs/openapi.json says."""

from pathlib import Path

import orjson
import pytest
from django.core.management import call_command
from django.test import Client
from django.urls import URLPattern
from drf_spectacular.validation import validate_schema

from coordinator.access import Operation
from coordinator.api.endpoint import Endpoint
from coordinator.api.schema import schema_bytes
from coordinator.api.urls import urlpatterns

SCHEMA = orjson.loads(schema_bytes())


def test_it_is_valid_openapi_3_1() -> None:
    assert SCHEMA["openapi"] == "3.1.0"
    validate_schema(SCHEMA)  # type: ignore[no-untyped-call]


def test_every_operation_of_the_table_is_in_it_once() -> None:
    told = [method["operationId"] for path in SCHEMA["paths"].values() for method in path.values()]
    assert sorted(told) == sorted(operation.value for operation in Operation)


def test_every_route_of_an_endpoint_is_in_it() -> None:
    routes = {
        str(route.pattern).replace("<str:", "{").replace("<path:", "{").replace(">", "}")
        for route in urlpatterns
        if isinstance(route, URLPattern)
        and issubclass(getattr(route.callback, "cls", object), Endpoint)
    }
    assert {path.removeprefix("/api/v1/") for path in SCHEMA["paths"]} == routes


def test_every_reference_leads_somewhere() -> None:
    def references(node: object) -> set[str]:
        if isinstance(node, dict):
            own = {node["$ref"]} if isinstance(node.get("$ref"), str) else set()
            return own.union(*(references(value) for value in node.values()))
        return (
            set().union(*(references(each) for each in node)) if isinstance(node, list) else set()
        )

    for reference in references(SCHEMA):
        place = SCHEMA
        for part in reference.removeprefix("#/").split("/"):
            place = place[part]


def test_each_operation_says_who_may_and_how_it_is_refused() -> None:
    for path in SCHEMA["paths"].values():
        for told in path.values():
            assert told["security"], told["operationId"]
            assert {"401", "403", "429", "500", "503"} <= set(told["responses"]), told[
                "operationId"
            ]
            for status, response in told["responses"].items():
                assert "X-Request-Id" in response["headers"]
                if int(status) >= 400:
                    assert list(response["content"]) == ["application/problem+json"]


def test_the_file_in_docs_is_what_the_server_serves(capsys: pytest.CaptureFixture[str]) -> None:
    call_command(
        "export_schema", str(Path(__file__).parents[2] / "docs" / "openapi.json"), check=True
    )
    assert "what the server serves" in capsys.readouterr().out


def test_the_schema_and_its_page_need_no_credential_and_no_other_host(client: Client) -> None:
    assert client.get("/api/v1/schema").json() == SCHEMA
    page = client.get("/api/v1/docs")
    assert page.status_code == 200
    text = page.content.decode()
    assert "http" not in text.replace("http-equiv", "")
    assert "<script>" not in text
    assert "style=" not in text
    assert "script-src 'self'" in page.headers["Content-Security-Policy"]
