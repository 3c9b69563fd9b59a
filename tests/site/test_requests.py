"""What every answer carries, and what a log line never does."""

import json
import logging
import re
import time
from functools import partial

import psycopg
import pytest
from django.conf import settings
from django.db import connection
from django.test import Client

from coordinator.site.databases import server_keywords
from coordinator.site.logs import logging_settings
from tests.api import callers
from tests.races.crowd import at_once

ANYWHERE = "/nowhere-at-all"

pytestmark = pytest.mark.django_db  # the page that says "not found" shows what is going on


def test_every_answer_has_an_id_even_one_for_a_page_that_does_not_exist() -> None:
    first, second = (Client().get(ANYWHERE) for _ in range(2))
    assert re.fullmatch(r"[0-9a-f]{32}", first["X-Request-Id"])
    assert first["X-Request-Id"] != second["X-Request-Id"]


def test_the_callers_id_is_kept() -> None:
    answer = Client().get(ANYWHERE, headers={"X-Request-Id": "trace-0123.abc_D"})
    assert answer["X-Request-Id"] == "trace-0123.abc_D"


@pytest.mark.parametrize(
    "given", ["short", "x" * 65, "with space and more", 'quote"quote"', "line%0abreak"]
)
def test_an_id_that_could_forge_a_log_line_is_replaced(given: str) -> None:
    answer = Client().get(ANYWHERE, headers={"X-Request-Id": given})
    assert answer["X-Request-Id"] != given


def test_the_content_policy_allows_no_inline_code_and_no_other_host() -> None:
    policy = Client().get("/admin/login/")["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "http" not in policy
    assert "*" not in policy
    for needed in (
        "default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'",
        "img-src 'self' data:", "form-action 'self'", "base-uri 'none'", "frame-ancestors 'none'",
    ):  # fmt: skip
        assert needed in policy


def test_the_other_headers_are_there() -> None:
    answer = Client().get(ANYWHERE)
    assert answer["X-Frame-Options"] == "DENY"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == "same-origin"
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "camera=()" in answer["Permissions-Policy"]


def test_a_request_is_one_log_line_without_its_query_body_or_token(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="tenure.http")
    Client().post(
        f"{ANYWHERE}?q=secret-query",
        data={"field": "secret-body"},
        headers={"Authorization": "Bearer tnr_w_secret-token"},
    )
    (line,) = [record.msg for record in caplog.records if record.name == "tenure.http"]
    assert isinstance(line, dict)
    assert (line["event"], line["method"], line["path"]) == ("request", "POST", ANYWHERE)
    assert line["status"] == 404
    assert "secret" not in caplog.text


def test_production_logs_one_json_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    formatter_settings = logging_settings(as_json=True, level="INFO")["formatters"]["lines"]
    kind = formatter_settings.pop("()")
    record = logging.LogRecord("tenure.http", logging.INFO, __file__, 1, "a\nbreak", None, None)
    line = kind(**formatter_settings).format(record)
    assert "\n" not in line
    told = json.loads(line)
    assert told["event"] == "a\nbreak"
    assert told["level"] == "info"
    assert told["timestamp"].endswith("Z")


def test_a_body_of_more_than_a_mebibyte_is_too_much() -> None:
    assert settings.DATA_UPLOAD_MAX_MEMORY_SIZE == 1024 * 1024


@pytest.mark.django_db(transaction=True)
def test_after_the_database_was_away_no_call_is_lost() -> None:
    """Each connection of the pool is broken, and put away before anything is sent on it."""
    caller = callers.person("viewer")

    def asked() -> int:
        try:
            return (
                Client()
                .get("/api/v1/queues", headers={"Authorization": f"Bearer {caller.token}"})
                .status_code
            )
        finally:
            connection.close()  # back to the pool, as at the end of a request

    at_once(*[partial(time.sleep, 0.05)] * 4)  # four at once: so many connections
    connection.close()
    with psycopg.connect(**server_keywords(), autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"  # waits until each is gone
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    told = [asked() for _ in range(6)]
    assert told == [200] * 6
