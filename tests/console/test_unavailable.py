"""What a person is told where the database can't answer: what happened, what still holds, and what to do."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from console import unavailable
from coordinator.models import Event
from coordinator.services import cancels
from coordinator.site.databases import server_keywords
from tests import world
from tests.console.scene import person
from tests.console.test_decisions import seen

pytestmark = pytest.mark.django_db(transaction=True)

POLL = {"HX-Request": "true"}


@contextmanager
def held(table: str, *, timeout: str) -> Iterator[None]:
    """Somebody else has the whole table; this thread's connection waits as long as `timeout` says."""
    with psycopg.connect(**server_keywords()) as other:
        other.execute(f"LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE")
        with connection.cursor() as cursor:
            for name in ("statement_timeout", "lock_timeout"):
                cursor.execute(f"SET {name} = '{'150ms' if name == timeout else '0'}'")
        try:
            yield
        finally:
            other.rollback()
            connection.close()


def broken() -> None:
    """The server ends this thread's session, as at its restart."""
    connection.ensure_connection()
    with psycopg.connect(**server_keywords(), autocommit=True) as other:
        pid = connection.connection.info.backend_pid
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        record.cause  # type: ignore[attr-defined]
        for record in caplog.records
        if record.name != "tenure.http" and record.levelno >= logging.WARNING
    ]


@pytest.fixture
def anna() -> User:
    return person("anna", "operator")


@pytest.fixture
def client(anna: User) -> Iterator[Client]:
    client = Client()
    client.force_login(anna)
    yield client
    connection.close()


@pytest.mark.parametrize(
    ("timeout", "cause", "said"),
    [
        ("statement_timeout", "QueryCanceled", "The database took too long"),
        ("lock_timeout", "LockNotAvailable", "The database is busy"),
    ],
)
def test_a_page_that_takes_too_long_is_a_calm_503_logged_once(
    client: Client, caplog: pytest.LogCaptureFixture, timeout: str, cause: str, said: str
) -> None:
    caplog.set_level(logging.WARNING)
    with held("coordinator_run", timeout=timeout):
        answer = client.get("/runs?name=x", headers={"X-Request-Id": "the-one-of-mine"})
        poll = client.get("/runs", headers=POLL)
    page = answer.content.decode()
    assert (answer.status_code, answer["Retry-After"]) == (503, "5")
    for part in (said, "you were only looking", "the-one-of-mine", 'href="/runs?name=x"'):
        assert part in page, part
    assert ("narrow the filter" in page) is (timeout == "statement_timeout")
    assert "style=" not in page
    assert (poll.status_code, poll["Retry-After"]) == (503, "5")
    assert said in poll.content.decode()
    assert "<html" not in poll.content.decode()
    assert told(caplog) == [cause, cause]
    assert client.get("/runs").status_code == 200


def test_a_lost_connection_is_told_and_the_next_look_succeeds(
    client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    broken()
    answer = client.get("/", headers={"Accept-Language": "zh-hans"})
    assert answer.status_code == 503
    page = answer.content.decode()
    assert '<html lang="zh-hans"' in page
    assert "无法连接数据库" in page
    assert len(told(caplog)) == 1
    connection.close()
    assert client.get("/").status_code == 200


def test_the_admin_says_it_in_the_same_dress(client: Client) -> None:
    with held("coordinator_queue", timeout="statement_timeout"):
        answer = client.get("/admin/coordinator/queue/")
    assert answer.status_code == 503
    assert "The database took too long" in answer.content.decode()
    with held("django_session", timeout="statement_timeout"):
        answer = client.get("/admin/")
    assert answer.status_code == 503


def test_the_api_says_it_as_a_problem(client: Client) -> None:
    with held("coordinator_queue", timeout="statement_timeout"):
        answer = client.get("/api/v1/queues")
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert answer.json()["type"].endswith("/unavailable")


def cancelling(client: Client) -> tuple[str, dict[str, str]]:
    world.queue()
    task = world.task(world.task_id(world.submit(world.node("a")), "a"))
    path = f"/tasks/{task.task_id}/cancel"
    return path, seen(task, action_key=str(uuid4()))


def test_a_form_that_timed_out_was_not_carried_out_and_can_be_sent_again(client: Client) -> None:
    path, form = cancelling(client)
    before = world.fingerprint()
    with held("coordinator_task", timeout="statement_timeout"):
        answer = client.post(path, form)
    assert answer.status_code == 503
    assert "Your form was not carried out, and nothing was changed" in answer.content.decode()
    assert world.fingerprint() == before
    assert client.post(path, form).status_code == 302


def test_a_form_whose_act_had_ended_is_not_said_to_be_undone(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The act is committed; what comes after it runs into the limit."""
    path, form = cancelling(client)
    really = cancels.cancel_task

    def then_slow(**keywords: object) -> object:
        answer = really(**keywords)  # type: ignore[arg-type]
        with connection.cursor() as cursor:
            cursor.execute("SET statement_timeout = '20ms'")
            cursor.execute("SELECT pg_sleep(1)")
        return answer

    monkeypatch.setattr(cancels, "cancel_task", then_slow)
    answer = client.post(path, form)
    assert answer.status_code == 503
    assert "Nobody can say whether your form was carried out" in answer.content.decode()
    connection.close()
    assert Event.objects.filter(kind="CANCELLED").exists()


def test_a_form_over_a_broken_connection_is_in_doubt(client: Client) -> None:
    path, form = cancelling(client)
    broken()
    answer = client.post(path, form)
    assert answer.status_code == 503
    assert "stand as they stood" not in answer.content.decode()
    assert "Nobody can say whether your form was carried out" in answer.content.decode()


def test_another_fault_is_no_matter_of_the_database() -> None:
    assert unavailable.answer_to(None, RuntimeError("a bug")) is None  # type: ignore[arg-type]
